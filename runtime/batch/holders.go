package batch

import (
	"math/bits"
	"slices"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
)

// slotHolder has slots of the store: a client, or one of its devices. Each session counts with all its tokens, as if no
// other session used them: sharing tokens with others neither costs a holder anything nor lets it keep more.
type slotHolder interface {
	currentUsage() *slotUsage
	oldestLeaf() *node // the leaf that was used least recently; nil if nothing can be evicted
}

// slotUsage is what a holder has, and its place among others.
type slotUsage struct {
	slots  int
	class  int    // bits.Len of slots
	in     bool   // it has something to evict
	used   uint64 // of its oldest leaf
	places [2]int // by size, and of a device by age
}

func (h *slotUsage) currentUsage() *slotUsage { return h }

// evictionRanking orders all holders that have something to evict: by class, the least recently used first.
type evictionRanking[H slotHolder] struct{ bySize [33]fair.Heap[H] }

func newEvictionRanking[H slotHolder]() *evictionRanking[H] {
	all := &evictionRanking[H]{}
	for i := range all.bySize {
		all.bySize[i] = newLRUHeap[H](0)
	}
	return all
}

func newLRUHeap[H slotHolder](place int) fair.Heap[H] {
	return fair.Heap[H]{
		Before: func(a, b H) bool { return a.currentUsage().used < b.currentUsage().used },
		Place:  func(h H) *int { return &h.currentUsage().places[place] },
	}
}

// updateRank updates the place of a holder after its slots or its leaves have changed. It reports whether the place is
// another one.
func (all *evictionRanking[H]) updateRank(h H) bool {
	has := h.currentUsage()
	now := slotUsage{slots: has.slots, class: bits.Len32(uint32(has.slots)), places: has.places}
	if leaf := h.oldestLeaf(); leaf != nil {
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

func (all *evictionRanking[H]) largestHolder() (h H, ok bool) {
	for i := range slices.Backward(all.bySize[:]) {
		if all.bySize[i].Len() > 0 {
			return all.bySize[i].First(), true
		}
	}
	return h, false
}

// chooseVictim returns the holder that loses a token for a context of n tokens of own, who is one of all if mine is
// true: the one with most slots. Holders with up to twice as much as each other count as equal, but own comes first. If
// nobody has as much as two such contexts, all count as equal, and the least recently used one is chosen.
func (all *evictionRanking[H]) chooseVictim(own H, mine bool, n int) (found H, ok bool) {
	slots := 0
	for i := range slices.Backward(all.bySize[:]) {
		if all.bySize[i].Len() == 0 {
			continue
		}
		h := all.bySize[i].First()
		switch has := h.currentUsage().slots; {
		case !ok && mine && own.oldestLeaf() != nil && own.currentUsage().slots >= has:
			return own, true
		case !ok:
			found, slots, ok = h, has, true
		case slots >= 2*n && 2*has < slots:
			return found, true
		case h.oldestLeaf().used < found.oldestLeaf().used:
			found = h
		}
	}
	return found, ok
}

// client is a client as the holder of its devices' slots.
type client struct {
	slotUsage
	number   uint64
	open     int // devices
	devices  *evictionRanking[*owner]
	byAge    fair.Heap[*owner] // those with something to evict, the least recently used first
	reserved int               // tokens of the contexts for which room is reserved
	shut     uint64            // the last step in which one of its asks had no room to begin
}

func (c *client) oldestLeaf() *node {
	if d := c.byAge.First(); d != nil {
		return d.oldestLeaf()
	}
	return nil
}

// owner is a device as the holder of its sessions' slots.
type owner struct {
	slotUsage
	client *client
	device uint64
	open   int                     // trees
	trees  fair.Heap[*sessionTree] // those with something to evict, least recently used leaf first
}

func (d *owner) oldestLeaf() *node {
	if t := d.trees.First(); t != nil {
		return t.leaves.First()
	}
	return nil
}

// ownerFor returns the owner of a device's sessions. A device with sessions stays with its client.
func (f *prefixCache) ownerFor(number, device uint64) *owner {
	d := f.owners[device]
	if d == nil {
		c := f.clients[number]
		if c == nil {
			c = &client{number: number, devices: newEvictionRanking[*owner](), byAge: newLRUHeap[*owner](1)}
			f.clients[number] = c
		}
		c.open++
		d = &owner{client: c, device: device, trees: fair.Heap[*sessionTree]{
			Before: func(a, b *sessionTree) bool { return a.leaves.First().used < b.leaves.First().used },
			Place:  func(t *sessionTree) *int { return &t.place },
		}}
		f.owners[device] = d
	}
	return d
}

func (f *prefixCache) releaseOwner(d *owner) {
	if d.open--; d.open > 0 {
		return
	}
	delete(f.owners, d.device)
	if d.client.open--; d.client.open == 0 {
		delete(f.clients, d.client.number)
	}
}

func (f *prefixCache) rankOwner(d *owner) {
	if d.client.devices.updateRank(d) {
		d.client.byAge.Set(d, d.in)
	}
	f.holders.updateRank(d.client)
}

// findVictim returns a leaf to be evicted for a, or nil if there is none: the least recently used one of a device of a
// client, each chosen by [evictionRanking.chooseVictim].
func (f *prefixCache) findVictim(a *ask) *node {
	own := a.tree.owner
	c, ok := f.holders.chooseVictim(own.client, true, a.contextSize())
	if !ok {
		return nil
	}
	d, _ := c.devices.chooseVictim(own, c == own.client, a.contextSize())
	return d.oldestLeaf()
}
