package openai

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// archive keeps answers of /v1/responses, for requests that go on with them. Where they have more bytes than it may
// hold, those that were not used for longest are dropped.
type archive struct {
	limit int // bytes

	mu    sync.Mutex
	all   *simplelru.LRU[string, *keptAnswer] // by ids
	items map[string]answer.Message           // what the answers say and call, by ids
	bytes int
}

// keptAnswer is an answer with what it followed. It does not change.
type keptAnswer struct {
	id     string
	object []byte                    // as clients get it
	talk   []answer.Message          // without instructions, up to the answer itself
	items  map[string]answer.Message // of the answer
}

func newArchive(limit int) *archive {
	a := &archive{limit: limit, items: map[string]answer.Message{}}
	// An error is of the number alone, which the bytes bound long before.
	a.all, _ = simplelru.NewLRU(math.MaxInt32, func(_ string, k *keptAnswer) {
		for id := range k.items {
			delete(a.items, id)
		}
		a.bytes -= k.size()
	})
	return a
}

// size is how many bytes an answer takes. Texts that answers share count for each.
func (k *keptAnswer) size() int {
	const each = 256 // of what holds a text
	n := each + len(k.object) + each*len(k.items)
	for _, m := range k.talk {
		n += each + len(m.Content)
		for _, c := range m.Calls {
			n += each + len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	}
	return n
}

// put keeps an answer, unless it alone is too large.
func (a *archive) put(k *keptAnswer) {
	n := k.size()
	if n > a.limit {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all.Add(k.id, k)
	maps.Copy(a.items, k.items)
	for a.bytes += n; a.bytes > a.limit; {
		a.all.RemoveOldest()
	}
}

// get returns an answer; nil where it is not kept.
func (a *archive) get(id string) *keptAnswer {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, _ := a.all.Get(id)
	return k
}

// Keeps implements [request.Kept].
func (a *archive) Keeps() bool { return a.limit > 0 }

// Talk implements [request.Kept].
func (a *archive) Talk(id string) ([]answer.Message, bool) {
	k := a.get(id)
	if k == nil {
		return nil, false
	}
	all := slices.Clone(k.talk)
	if last := len(all) - 1; last >= 0 {
		all[last].Calls = slices.Clip(all[last].Calls)
	}
	return all, true
}

// Item implements [request.Kept].
func (a *archive) Item(id string) (answer.Message, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, ok := a.items[id]
	return m, ok
}

// remove forgets an answer, and reports whether it was kept.
func (a *archive) remove(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all.Remove(id)
}
