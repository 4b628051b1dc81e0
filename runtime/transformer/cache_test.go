package transformer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// fakeKV records which token was stored in each slot.
type fakeKV struct{ slots []int }

func (f *fakeKV) Config() backend.KVConfig { return backend.KVConfig{Slots: len(f.slots)} }
func (f *fakeKV) Bytes() int64             { return 0 }
func (f *fakeKV) Copy(dst, src int32)      { f.slots[dst] = f.slots[src] }
func (f *fakeKV) Read(int, int, []byte)    {}
func (f *fakeKV) Write(int, int, []byte)   {}
func (f *fakeKV) Swap(a, b int32)          { f.slots[a], f.slots[b] = f.slots[b], f.slots[a] }

// draft is a node of a draft tree: the number stored in its slot, and the index of its parent, -1 for the prefix.
type draft struct {
	token, parent int
	slot          int32
	gone          bool
}

// slotTest compares a cache with a plain list of its expected contents.
type slotTest struct {
	t      *testing.T
	kv     *fakeKV
	c      *Cache
	prefix []int
	nodes  []draft
	next   int
	swaps  int
}

// check compares every slot in use with the stored number.
func (s *slotTest) check() {
	if !slices.Equal(s.prefix, s.kv.slots[:s.c.Len()]) {
		s.t.Fatalf("the text is %v, its slots hold %v", s.prefix, s.kv.slots[:s.c.Len()])
	}
	live := 0
	for _, n := range s.nodes {
		if n.gone {
			continue
		}
		if s.kv.slots[n.slot] != n.token || !s.c.used[n.slot] {
			s.t.Fatalf("slot %d, in use: %v, holds %d; a node has put %d there",
				n.slot, s.c.used[n.slot], s.kv.slots[n.slot], n.token)
		}
		live++
	}
	require.Equal(s.t, len(s.prefix)+live, s.c.InUse())
}

func (s *slotTest) depth(i int) int {
	if i < 0 {
		return 0
	}
	return 1 + s.depth(s.nodes[i].parent)
}

// pick returns a live node, or -1.
func (s *slotTest) pick(r *rand.Rand) int {
	i := r.IntN(len(s.nodes)+1) - 1
	if i >= 0 && s.nodes[i].gone {
		return -1
	}
	return i
}

func (s *slotTest) add(parent int) {
	slot, err := s.c.Alloc(len(s.prefix) + s.depth(parent))
	if err != nil {
		require.ErrorIs(s.t, err, ErrContext)
		require.Equal(s.t, s.c.Slots(), s.c.InUse())
		return
	}
	s.next++
	s.kv.slots[slot] = s.next
	s.nodes = append(s.nodes, draft{token: s.next, parent: parent, slot: slot})
}

// drop frees node i and its descendants.
func (s *slotTest) drop(i int) {
	for j := i; j < len(s.nodes); j++ {
		if n := &s.nodes[j]; !n.gone && (j == i || n.parent >= 0 && s.nodes[n.parent].gone) {
			n.gone = true
			s.c.Free(n.slot)
		}
	}
}

// settle makes the path to node i part of the prefix, after dropping other branches.
func (s *slotTest) settle(i int) {
	on := map[int]bool{-1: true}
	var path []int
	for j := i; j >= 0; j = s.nodes[j].parent {
		on[j], path = true, append([]int{j}, path...)
	}
	for j := range s.nodes {
		if n := s.nodes[j]; !n.gone && !on[j] && on[n.parent] && n.parent != i {
			s.drop(j)
		}
	}
	var slots []int32
	for _, j := range path {
		slots = append(slots, s.nodes[j].slot)
		s.prefix = append(s.prefix, s.nodes[j].token)
		s.nodes[j].gone = true
	}
	given := slices.Clone(slots)
	moves := s.c.Settle(slots...)
	require.True(s.t, slices.Equal(given, slots), "the caller's")
	for _, m := range moves {
		s.swaps++
		for j := range s.nodes {
			if !s.nodes[j].gone && s.nodes[j].slot == m.From {
				s.nodes[j].slot = m.To
				break
			}
		}
	}
	var kept []draft
	at := map[int]int{-1: -1, i: -1}
	for j, n := range s.nodes {
		if !n.gone {
			at[j] = len(kept)
			n.parent = at[n.parent]
			kept = append(kept, n)
		}
	}
	s.nodes = kept
}

// TestSlots applies random operations to small caches and checks after each that every token is where the cache says.
func TestSlots(t *testing.T) {
	swaps := 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		slots := 3 + r.IntN(10)
		kv := &fakeKV{slots: make([]int, slots)}
		s := &slotTest{t: t, kv: kv, c: &Cache{kv: kv, used: make([]bool, slots)}, prefix: []int{}}
		for range 40 {
			i := s.pick(r)
			switch k := r.IntN(6); {
			case k == 0 && i >= 0:
				s.drop(i)
			case k == 1 && i >= 0:
				s.settle(i)
			default:
				s.add(i)
			}
			s.check()
		}
		swaps += s.swaps
	}
	assert.Greater(t, swaps, 100, "nodes were moved")
}

// TestText appends to texts and truncates them at random: rows, slots and lengths equal those of a plain list, and
// tokens that do not fit change nothing.
func TestText(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		slots := 1 + r.IntN(12)
		c := &Cache{kv: &fakeKV{slots: make([]int, slots)}, used: make([]bool, slots)}
		assert.Equal(t, slots, c.Slots())
		var text []int32
		for range 30 {
			if r.IntN(3) == 0 {
				n := r.IntN(len(text) + 1)
				c.Truncate(n)
				text = text[:n]
			} else {
				more := make([]int32, r.IntN(6))
				for i := range more {
					more[i] = r.Int32N(100)
				}
				rows, err := c.Extend(more)
				if len(text)+len(more) > slots {
					require.ErrorIs(t, err, ErrContext)
					assert.Nil(t, rows)
				} else {
					require.NoError(t, err)
					require.Len(t, rows, len(more))
					for i, row := range rows {
						at := int32(len(text) + i)
						see := []backend.Span{{From: 0, To: at + 1}}
						want := backend.Row{Token: more[i], Pos: at, Slot: at, See: see}
						require.Equal(t, want, row)
						require.Equal(t, 1, cap(row.See), "appending to it overwrites no other row")
					}
					text = append(text, more...)
				}
			}
			require.Equal(t, len(text), c.Len())
			require.Equal(t, len(text), c.InUse())
			if len(text) < slots { // a node gets the next slot, and frees it
				slot, err := c.Alloc(len(text))
				require.NoError(t, err)
				require.EqualValues(t, len(text), slot)
				c.Free(slot)
			}
		}
	}
}

// TestAlloc: a node gets the slot of its position if that is free, otherwise the last free one, including the very
// last, until none is left.
func TestAlloc(t *testing.T) {
	c := &Cache{kv: &fakeKV{}, used: make([]bool, 6)}
	_, err := c.Extend([]int32{7, 8})
	require.NoError(t, err)
	alloc := func(pos int, want int32) {
		t.Helper()
		slot, err := c.Alloc(pos)
		require.NoError(t, err)
		assert.Equal(t, want, slot)
	}
	alloc(3, 3)
	alloc(3, 5)
	alloc(4, 4)
	alloc(1, 2) // the slot of position 1 belongs to the text
	_, err = c.Alloc(2)
	require.ErrorIs(t, err, ErrContext)
	assert.ErrorContains(t, err, "all 6 slots")
	c.Free(5, 2)
	assert.Equal(t, 4, c.InUse())
	alloc(6, 5) // beyond the slots
	alloc(99, 2)
}

// TestAllocNear: the slots of a draft tree lie in the chunks that the text has begun, or reaches within aside tokens,
// as long as one of them is free: a store that grows allocates memory by chunks.
func TestAllocNear(t *testing.T) {
	for _, text := range []int{0, 1, backend.KVChunk - aside - 1, backend.KVChunk - aside, 2*backend.KVChunk - 1} {
		c := &Cache{kv: &fakeKV{}, used: make([]bool, 5*backend.KVChunk)}
		_, err := c.Extend(make([]int32, text))
		require.NoError(t, err)
		end := (text + aside + backend.KVChunk) / backend.KVChunk * backend.KVChunk
		for n := text; n < c.Slots(); n++ {
			slot, err := c.Alloc(text)
			require.NoError(t, err)
			assert.Less(t, int(slot), max(end, n+1), "text of %d", text)
		}
		_, err = c.Alloc(text)
		assert.ErrorIs(t, err, ErrContext)
	}
}

// TestMisuse: a bug of the caller panics and changes nothing.
func TestMisuse(t *testing.T) {
	fresh := func() *Cache { // a text of two tokens, a node in slot 3
		c := &Cache{kv: &fakeKV{slots: make([]int, 6)}, used: make([]bool, 6)}
		_, err := c.Extend([]int32{7, 8})
		require.NoError(t, err)
		_, err = c.Alloc(3)
		require.NoError(t, err)
		return c
	}
	for name, do := range map[string]func(c *Cache){
		"free in the text":       func(c *Cache) { c.Free(1) },
		"free of a free slot":    func(c *Cache) { c.Free(4) },
		"free twice":             func(c *Cache) { c.Free(3); c.Free(3) },
		"settle in the text":     func(c *Cache) { c.Settle(1) },
		"settle of a free slot":  func(c *Cache) { c.Settle(2) },
		"settle of another":      func(c *Cache) { c.Settle(4) },
		"settle twice":           func(c *Cache) { c.Settle(3, 3) },
		"truncate below a draft": func(c *Cache) { c.Truncate(1) },
		"truncate to more":       func(c *Cache) { c.Free(3); c.Truncate(3) },
		"truncate to less":       func(c *Cache) { c.Free(3); c.Truncate(-1) },
		"restore into a text":    func(c *Cache) { _ = c.Restore(1) },
		"extend below a draft":   func(c *Cache) { _, _ = c.Extend([]int32{1}) },
	} {
		t.Run(name, func(t *testing.T) { assert.Panics(t, func() { do(fresh()) }) })
	}
	c := fresh()
	assert.Panics(t, func() { c.Free(1) })
	assert.Panics(t, func() { _, _ = c.Extend([]int32{1}) })
	assert.Equal(t, 2, c.Len())
	assert.Equal(t, 3, c.InUse())
	c.Free(3)
	c.Truncate(2)
	c.Truncate(0)
	assert.Zero(t, c.InUse())
	for _, n := range []int{-1, 7} {
		assert.ErrorIs(t, c.Restore(n), ErrContext)
	}
	require.NoError(t, c.Restore(6))
	assert.Equal(t, 6, c.Len())
	assert.Equal(t, 6, c.InUse())
}
