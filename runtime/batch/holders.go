package batch

import (
	"math/bits"
	"slices"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
)

// holder has slots of the store: a client, or one of its devices. Each session counts with all its tokens, as if no
// other session used them: sharing tokens with others neither costs a holder anything nor lets it keep more.
type holder interface {
	held() *holding
	oldest() *node // the leaf that was used least recently; nil if nothing can be evicted
}

// holding is what a holder has, and its place among others.
type holding struct {
	slots  int
	class  int    // bits.Len of slots
	in     bool   // it has something to evict
	used   uint64 // of its oldest leaf
	places [2]int // by size, and of a device by age
}

func (h *holding) held() *holding { return h }

// holders are those of all holders that have something to evict: by class, the least recently used first.
type holders[H holder] struct{ bySize [33]fair.Heap[H] }

func newHolders[H holder]() *holders[H] {
	all := &holders[H]{}
	for i := range all.bySize {
		all.bySize[i] = byUse[H](0)
	}
	return all
}

// byUse returns a heap of holders, the least recently used first.
func byUse[H holder](place int) fair.Heap[H] {
	return fair.Heap[H]{
		Before: func(a, b H) bool { return a.held().used < b.held().used },
		Place:  func(h H) *int { return &h.held().places[place] },
	}
}

// rank puts a holder into its place, after its slots or its leaves have changed. It reports whether that is another
// place.
func (all *holders[H]) rank(h H) bool {
	has := h.held()
	now := holding{slots: has.slots, class: bits.Len32(uint32(has.slots)), places: has.places}
	if leaf := h.oldest(); leaf != nil {
		now.in, now.used = true, leaf.used
	}
	if now == *has {
		return false
	}
	if has.in && now.class != has.class {
		all.bySize[has.class].Set(h, false)
	}
	has.class, has.in, has.used = now.class, now.in, now.used
	all.bySize[has.class].Set(h, has.in)
	return true
}

// largest returns a holder of the highest class.
func (all *holders[H]) largest() (h H, ok bool) {
	for i := range slices.Backward(all.bySize[:]) {
		if all.bySize[i].Len() > 0 {
			return all.bySize[i].First(), true
		}
	}
	return h, false
}

// victim returns the holder that loses a token for a context of n tokens of own, who is one of all if mine is true: the
// one with most slots. Holders with up to twice as much as each other count as equal, but own comes first. If nobody
// has as much as two such contexts, all count as equal, and the least recently used one is chosen.
func (all *holders[H]) victim(own H, mine bool, n int) (found H, ok bool) {
	slots := 0
	for i := range slices.Backward(all.bySize[:]) {
		if all.bySize[i].Len() == 0 {
			continue
		}
		h := all.bySize[i].First()
		switch has := h.held().slots; {
		case !ok && mine && own.oldest() != nil && own.held().slots >= has:
			return own, true
		case !ok:
			found, slots, ok = h, has, true
		case slots >= 2*n && 2*has < slots:
			return found, true
		case h.oldest().used < found.oldest().used:
			found = h
		}
	}
	return found, ok
}

// client is a client as the holder of its devices' slots.
type client struct {
	holding
	number   uint64
	open     int // devices
	devices  *holders[*owner]
	byAge    fair.Heap[*owner] // those with something to evict, the least recently used first
	reserved int               // tokens of the contexts for which room is reserved
	shut     uint64            // the last step in which one of its asks had no room to begin
}

func (c *client) oldest() *node {
	if d := c.byAge.First(); d != nil {
		return d.oldest()
	}
	return nil
}

// owner is a device as the holder of its sessions' slots.
type owner struct {
	holding
	client *client
	device uint64
	open   int              // trees
	trees  fair.Heap[*tree] // those with something to evict, least recently used leaf first
}

func (d *owner) oldest() *node {
	if t := d.trees.First(); t != nil {
		return t.leaves.First()
	}
	return nil
}

// owner returns the owner of a device's sessions. A device with sessions stays with its client.
func (f *forest) owner(number, device uint64) *owner {
	d := f.owners[device]
	if d == nil {
		c := f.clients[number]
		if c == nil {
			c = &client{number: number, devices: newHolders[*owner](), byAge: byUse[*owner](1)}
			f.clients[number] = c
		}
		c.open++
		d = &owner{client: c, device: device, trees: fair.Heap[*tree]{
			Before: func(a, b *tree) bool { return a.leaves.First().used < b.leaves.First().used },
			Place:  func(t *tree) *int { return &t.place },
		}}
		f.owners[device] = d
	}
	return d
}

// disown ends a session of an owner.
func (f *forest) disown(d *owner) {
	if d.open--; d.open > 0 {
		return
	}
	delete(f.owners, d.device)
	if d.client.open--; d.client.open == 0 {
		delete(f.clients, d.client.number)
	}
}

// rank puts an owner and its client into their places.
func (f *forest) rank(d *owner) {
	if d.client.devices.rank(d) {
		d.client.byAge.Set(d, d.in)
	}
	f.holders.rank(d.client)
}

// victim returns a leaf to be evicted for a, or nil if there is none: the least recently used one of a device of a
// client, each chosen by [holders.victim].
func (f *forest) victim(a *ask) *node {
	own := a.tree.owner
	c, ok := f.holders.victim(own.client, true, a.size())
	if !ok {
		return nil
	}
	d, _ := c.devices.victim(own, c == own.client, a.size())
	return d.oldest()
}
