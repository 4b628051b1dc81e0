package serve

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pilotfish-ai/pilotfish"
)

// responseStore stores answers of /v1/responses, for requests that continue them. Above its limit of bytes it drops the
// least recently used answers.
type responseStore struct {
	limit int // bytes

	mu    sync.Mutex
	all   *simplelru.LRU[string, *storedResponse] // by id
	items map[string]pilotfish.Message            // the texts and calls of the answers, by id
	bytes int
}

// storedResponse is an answer with the conversation before it. It is immutable.
type storedResponse struct {
	id     string
	object []byte                       // as sent to clients
	talk   []pilotfish.Message          // without instructions, up to and including the answer
	items  map[string]pilotfish.Message // of the answer
}

func newResponseStore(limit int) *responseStore {
	a := &responseStore{limit: limit, items: map[string]pilotfish.Message{}}
	// The only possible error is a size of 0. The limit of bytes is reached long before this number of answers.
	a.all, _ = simplelru.NewLRU(math.MaxInt32, func(_ string, k *storedResponse) {
		for id := range k.items {
			delete(a.items, id)
		}
		a.bytes -= k.byteSize()
	})
	return a
}

// byteSize returns the size of an answer in bytes. Texts that several answers share count for each.
func (k *storedResponse) byteSize() int {
	const each = 256 // overhead per text
	n := each + len(k.object) + each*len(k.items)
	for _, m := range k.talk {
		n += each + len(m.Content) + len(m.Thought)
		for _, c := range m.Calls {
			n += each + len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	}
	return n
}

// storeResponse stores an answer, unless it alone exceeds the limit.
func (a *responseStore) storeResponse(k *storedResponse) {
	n := k.byteSize()
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

// lookupResponse returns nil if the answer is not stored.
func (a *responseStore) lookupResponse(id string) *storedResponse {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, _ := a.all.Get(id)
	return k
}

func (a *responseStore) Talk(id string) ([]pilotfish.Message, bool) {
	k := a.lookupResponse(id)
	if k == nil {
		return nil, false
	}
	all := slices.Clone(k.talk)
	if last := len(all) - 1; last >= 0 {
		all[last].Calls = slices.Clip(all[last].Calls)
	}
	return all, true
}

func (a *responseStore) Item(id string) (pilotfish.Message, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, ok := a.items[id]
	return m, ok
}

func (a *responseStore) deleteResponse(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all.Remove(id)
}
