package qwen2

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// fakeKV remembers in each slot which token was stored there.
type fakeKV struct{ slots []int }

func (f *fakeKV) Config() backend.KVConfig { return backend.KVConfig{Slots: len(f.slots)} }
func (f *fakeKV) Copy(dst, src int32)      { f.slots[dst] = f.slots[src] }
func (f *fakeKV) Swap(a, b int32)          { f.slots[a], f.slots[b] = f.slots[b], f.slots[a] }

// draft is a node of a draft tree: the number stored in its slot, and the index of its parent, -1 for the prefix.
type draft struct {
	token, parent int
	slot          int32
	gone          bool
}

// slotTest holds a cache against a plain list of what it should hold.
type slotTest struct {
	t      *testing.T
	kv     *fakeKV
	c      *Cache
	prefix []int
	nodes  []draft
	next   int
	swaps  int
}

// check compares every slot in use with what was stored there.
func (s *slotTest) check() {
	require.Equal(s.t, s.prefix, s.kv.slots[:s.c.Len()])
	live := 0
	for _, n := range s.nodes {
		if !n.gone {
			require.Equal(s.t, n.token, s.kv.slots[n.slot])
			require.True(s.t, s.c.used[n.slot])
			live++
		}
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

// settle makes the path down to node i part of the prefix, after dropping the branches that leave it.
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
	for _, m := range s.c.Settle(slots...) {
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

// TestSlots does random things to caches with little room and checks after each that every token lies where the cache says.
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
	assert.Greater(t, swaps, 100, "nodes were in each other's way")
}

// TestSee: spans join where slots follow on, in the order of positions.
func TestSee(t *testing.T) {
	c := &Cache{prefix: 4}
	assert.Equal(t, []backend.Span{{From: 0, To: 6}}, c.Node(1, 5, 4).See)
	assert.Equal(t, []backend.Span{{From: 0, To: 4}, {From: 9, To: 11}, {From: 5, To: 6}}, c.Node(1, 5, 9, 10).See)
	assert.EqualValues(t, 6, c.Node(1, 5, 9, 10).Pos)
	c.prefix = 0
	assert.Equal(t, []backend.Span{{From: 2, To: 3}}, c.Node(1, 2).See)
}
