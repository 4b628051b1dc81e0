package transformer

import (
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Cache is the KV cache of one text: a settled prefix in the slots [0, Len), and slots after it for the nodes of a
// draft tree. It manages the slots; [Model.Forward] writes keys and values.
type Cache struct {
	kv     backend.KV
	prefix int32
	used   []bool // by slot, the prefix included
}

// Move says that the node in slot From is now in slot To.
type Move struct{ From, To int32 }

// NewCache makes an empty cache of slots rows in each layer, of type F16 or F32. Its memory is [Cache.Bytes].
func (m *Model) NewCache(slots int, t gguf.Type) (*Cache, error) {
	kv, err := m.NewKV(slots, t)
	if err != nil {
		return nil, err
	}
	return &Cache{kv: kv, used: make([]bool, slots)}, nil
}

// KV returns the KV store for rows of this cache.
func (c *Cache) KV() backend.KV { return c.kv }

// Len returns the number of tokens in the settled prefix.
func (c *Cache) Len() int { return int(c.prefix) }

// Slots returns the number of tokens that fit, prefix and draft tree together.
func (c *Cache) Slots() int { return len(c.used) }

// InUse returns the number of slots in use, prefix and draft tree together.
func (c *Cache) InUse() int {
	n := 0
	for _, u := range c.used {
		if u {
			n++
		}
	}
	return n
}

// aside is the minimum distance between the text and a node outside its own slot: the text reaches that slot only after
// this many tokens.
const aside = 64

// Alloc takes a free slot for a node at position pos. It prefers the slot pos itself, so that a draft without branches
// settles without copying. Otherwise it takes the next free slot after it, so that memory that grows with the text
// stays small. It returns [ErrContext] if no slot is free.
func (c *Cache) Alloc(pos int) (int32, error) {
	first, slots := int(c.prefix), len(c.used)
	if pos >= first && pos < slots && !c.used[pos] {
		c.used[pos] = true
		return int32(pos), nil
	}
	end := min(slots, (max(pos, first)+aside+backend.KVChunk)/backend.KVChunk*backend.KVChunk)
	for s := end - 1; s >= first; s-- {
		if c.takeSlot(s) {
			return int32(s), nil
		}
	}
	for s := end; s < slots; s++ {
		if c.takeSlot(s) {
			return int32(s), nil
		}
	}
	return 0, fmt.Errorf("all %d slots of the KV cache are in use: %w", slots, ErrContext)
}

func (c *Cache) takeSlot(slot int) bool {
	was := c.used[slot]
	c.used[slot] = true
	return !was
}

// Free frees slots of the draft tree. Freeing a slot that is free or in the prefix is a bug and panics.
func (c *Cache) Free(slots ...int32) {
	for _, s := range slots {
		if s < c.prefix || !c.used[s] {
			panic(fmt.Sprintf("transformer: free of slot %d, which is not in the draft tree", s))
		}
		c.used[s] = false
	}
}

// Settle makes the nodes in path, the children of the prefix first, the next tokens of the prefix. Rows in other slots
// are copied to their places, or exchanged with a node that lies there. Settle returns the moves of nodes that stay in
// the draft tree, in the order in which they were made: the caller applies them one after the other.
func (c *Cache) Settle(path ...int32) []Move {
	var moves []Move
	path = slices.Clone(path) // moves below may change its later slots
	for i := range path {
		at, to := path[i], c.prefix
		if at < to || !c.used[at] {
			panic(fmt.Sprintf("transformer: settle of slot %d, which is not in the draft tree", at))
		}
		switch {
		case at == to:
		case c.used[to]:
			c.kv.Swap(to, at)
			moves = append(moves, Move{From: to, To: at})
			if j := slices.Index(path[i+1:], to); j >= 0 {
				path[i+1+j] = at
			}
		default:
			c.kv.Copy(to, at)
			c.used[to], c.used[at] = true, false
		}
		c.prefix++
	}
	return moves
}

// Truncate drops all tokens of the prefix from position n on. The draft tree must be empty.
func (c *Cache) Truncate(n int) {
	if n < 0 || n > int(c.prefix) || c.InUse() != int(c.prefix) {
		panic(fmt.Sprintf("transformer: truncate to %d of %d with %d slots in use", n, c.prefix, c.InUse()))
	}
	clear(c.used[n:])
	c.prefix = int32(n)
}

// Restore makes n tokens the prefix of an empty cache. The caller writes their keys and values with [backend.KV].Write.
// It returns [ErrContext] if they do not fit.
func (c *Cache) Restore(n int) error {
	if c.InUse() != 0 {
		panic("transformer: restore into a cache in use")
	}
	if n < 0 || n > len(c.used) {
		return fmt.Errorf("%d tokens do not fit into %d slots: %w", n, len(c.used), ErrContext)
	}
	for i := range n {
		c.used[i] = true
	}
	c.prefix = int32(n)
	return nil
}

// Clear drops everything, including the draft tree.
func (c *Cache) Clear() {
	clear(c.used)
	c.prefix = 0
}

// Extend returns the rows that append tokens to the prefix and settles their slots: the caller runs them through
// [Model.Forward] next, and calls Truncate on an error. The draft tree must be empty. It returns [ErrContext] if they
// do not fit.
func (c *Cache) Extend(tokens []int32) ([]backend.Row, error) {
	first := int(c.prefix)
	if c.InUse() != first {
		panic("transformer: extend below a draft tree")
	}
	if first+len(tokens) > len(c.used) {
		return nil, fmt.Errorf("%d tokens after %d do not fit into %d slots: %w",
			len(tokens), first, len(c.used), ErrContext)
	}
	rows := make([]backend.Row, len(tokens))
	see := make([]backend.Span, len(tokens))
	for i, id := range tokens {
		at := int32(first + i)
		see[i] = backend.Span{From: 0, To: at + 1}
		rows[i] = backend.Row{Token: id, Pos: at, Slot: at, See: see[i : i+1 : i+1]}
		c.used[at] = true
	}
	c.prefix += int32(len(tokens))
	return rows, nil
}

// Node returns the row of a draft token at slot. Its ancestors after the prefix are in the given slots, the child of
// the prefix first.
func (c *Cache) Node(token int32, slot int32, ancestors ...int32) backend.Row {
	see := make([]backend.Span, 0, len(ancestors)+2)
	if c.prefix > 0 {
		see = append(see, backend.Span{From: 0, To: c.prefix})
	}
	for _, a := range ancestors {
		see = backend.AppendSlot(see, a)
	}
	see = backend.AppendSlot(see, slot)
	return backend.Row{Token: token, Pos: c.prefix + int32(len(ancestors)), Slot: slot, See: see}
}
