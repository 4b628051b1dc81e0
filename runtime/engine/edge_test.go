package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// gardener grows and cuts a draft tree at random, and compares an edge with the expected state.
type gardener struct {
	t     *testing.T
	r     *rand.Rand
	truth *scratch
	d     *plain
	s     *Session
	m     *edgeModel
	least int // tokens of a prompt

	settled []int32
	nodes   map[draft.ID]*leaf
	next    draft.ID
	faults  int // number of passes that a test lets fail
}

// leaf is a node of the expected tree.
type leaf struct {
	draft.Node
	best int32 // the most probable token after it
}

// TestEdge: for any order of drafting, settling and dropping, and any errors, each node has the result of evaluating
// its text from the start, to the last bit. The maps of ids and slots stay inverse, and every slot belongs to the text,
// a node or a flight, or is free.
func TestEdge(t *testing.T) { checkEdge(t, 2, 14, nil) }

// TestEdgeRecurrent is [TestEdge] for states that cannot be cut. Texts pass the end of a chunk.
func TestEdgeRecurrent(t *testing.T) { checkEdge(t, 11, 23, toQwen35) }

// checkEdge tries texts with prompts of at least so many tokens, in a context of so many.
func checkEdge(t *testing.T, least, context int, edit func(*synth.Spec)) {
	t.Helper()
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8, uint64(time.Now().UnixNano())}
	if testing.Short() {
		seeds = slices.Delete(seeds, 2, 8)
	}
	truth := &scratch{t: t, e: small(t, Options{}, edit), all: map[string]backend.Output{}}
	depths := []int{-1, 0, 1, 2, 4}
	if edit != nil { // such models have no flights
		depths = depths[:1]
	}
	for _, depth := range depths {
		flights := 0
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("depth %d, seed %d", depth, seed), func(t *testing.T) {
				e, d := troubledAs(t, Options{Context: context}, depth >= 0, edit)
				s := session(t, e)
				require.Equal(t, depth >= 0, s.speculation.depth > 0)
				s.speculation.depth = max(0, depth)
				g := &gardener{t: t, r: rand.New(rand.NewPCG(seed, 1)), truth: truth, d: d, s: s, least: least}
				truth.t = t
				for range 12 {
					g.text()
				}
				flights += s.summary.RanAhead
			})
		}
		if depth > 0 {
			require.Greater(t, flights, 12*len(seeds))
		} else {
			require.Zero(t, flights)
		}
	}
}

// text is one text of the session.
func (g *gardener) text() {
	g.m = newEdgeModel(g.s, backend.Want{K: 3}, 0)
	g.nodes, g.next, g.settled = map[draft.ID]*leaf{}, 1, nil
	was := slices.Clone(g.s.ids)
	prompt := make([]int32, g.least)
	for len(prompt) < g.least+7 && g.r.IntN(4) > 0 {
		prompt = append(prompt, int32(g.r.IntN(2)))
	}
	g.fault(8)
	out, err := g.m.Prefill(g.t.Context(), prompt)
	same := g.s.summary.ReusedTokens
	require.LessOrEqual(g.t, same, len(prompt)-1)
	require.True(g.t, slices.Equal(prompt[:same], was[:same]))
	if err != nil {
		g.failed(err)
		g.settled = append([]int32{}, prompt[:same]...)
		g.check()
		return
	}
	g.settled = prompt
	require.True(g.t, same == len(prompt)-1 || same == len(was) || was[same] != prompt[same],
		"the longest common prefix is reused")
	require.Equal(g.t, g.truth.after(prompt), copied(out))
	g.check()
	for range 40 {
		switch n := g.r.IntN(10); {
		case n < 5:
			g.extend()
		case n < 8:
			g.settle()
		default:
			g.drop(g.any())
		}
		g.check()
	}
	g.dropAll(func(*leaf) bool { return true })
	g.s.speculation.stopPasses(g.s.cache)
	g.check()
	require.Empty(g.t, g.s.speculation.passes)
	require.Equal(g.t, len(g.settled), g.s.cache.InUse())
}

// fault makes the next pass fail in one of n cases. If the pass is a flight, the error shows later or never.
func (g *gardener) fault(n int) {
	if g.r.IntN(n) == 0 {
		g.d.failing(1)
		g.faults++
	}
}

// failed records an error that a fault explains.
func (g *gardener) failed(err error) {
	g.t.Helper()
	require.ErrorIs(g.t, err, errTrouble)
	require.Empty(g.t, g.s.speculation.passes, "no flights after an error")
	g.faults--
	require.GreaterOrEqual(g.t, g.faults, 0)
}

// check compares the whole state.
func (g *gardener) check() {
	g.t.Helper()
	s, m := g.s, g.m
	require.Equal(g.t, g.settled, append([]int32{}, s.ids...), "the text")
	require.Equal(g.t, len(g.settled), s.cache.Len())
	require.Equal(g.t, len(g.settled)+len(g.nodes)+len(s.speculation.passes), s.cache.InUse(), "a slot leaks")
	require.Equal(g.t, len(g.settled)+len(g.nodes), s.tokensInUse())
	require.Equal(g.t, s.cache.Slots()-len(g.settled)-len(g.nodes), m.Room())
	require.Len(g.t, m.slots, len(g.nodes))
	require.Len(g.t, m.ids, len(g.nodes))
	require.Len(g.t, m.token, len(g.nodes))
	for id, n := range g.nodes {
		slot, ok := m.slots[id]
		require.True(g.t, ok)
		require.Equal(g.t, id, m.ids[slot])
		require.Equal(g.t, n.Token, m.token[id])
	}
	require.LessOrEqual(g.t, len(s.speculation.passes), s.speculation.depth)
	require.Equal(g.t, len(s.speculation.passes), g.d.open)
}

// any returns a random node, or nil for the settled text.
func (g *gardener) any() *leaf {
	ids := make([]draft.ID, 0, len(g.nodes))
	for id := range g.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if n := g.r.IntN(len(ids) + 1); n > 0 {
		return g.nodes[ids[n-1]]
	}
	return nil
}

// below returns the text up to n, and the path including n.
func (g *gardener) below(n *leaf) (text []int32, path []draft.ID) {
	text = slices.Clone(g.settled)
	if n == nil {
		return text, nil
	}
	path = append(slices.Clone(n.Path), n.ID)
	for _, id := range path {
		text = append(text, g.nodes[id].Token)
	}
	return text, path
}

// growth is a number of leaves to evaluate.
type growth struct {
	leaves  []draft.Node
	texts   [][]int32 // up to each leaf
	guesses int       // of the leaves, those after another one
	last    bool      // a leaf is beyond the context
	unknown bool      // a token is not in the vocabulary
}

// add appends a leaf after a text.
func (g *growth) add(first draft.ID, text []int32, path []draft.ID, token int32, slots int) {
	g.last = g.last || len(text) >= slots
	g.leaves = append(g.leaves, draft.Node{
		ID: first + draft.ID(len(g.leaves)), Token: token, Pos: len(text), Path: path,
	})
	g.texts = append(g.texts, append(slices.Clone(text), token))
}

// grow returns one to four leaves, sometimes with guesses after them: often the token in flight, sometimes more than
// there is room for.
func (g *gardener) grow() (n growth) {
	slots := g.s.cache.Slots()
	for range 1 + max(0, g.r.IntN(6)-2) {
		parent := g.any()
		if newest := g.nodes[g.next-1]; newest != nil && g.r.IntN(2) == 0 {
			parent = newest
		}
		text, path := g.below(parent)
		token := int32(g.r.IntN(300))
		if best := g.truth.after(text).Top[0].ID; g.r.IntN(3) > 0 {
			token = best
		}
		if g.r.IntN(40) == 0 {
			token, n.unknown = 300, true
		}
		n.add(g.next, text, path, token, slots)
	}
	if !n.unknown && g.r.IntN(4) == 0 {
		n.guesses = 1 + g.r.IntN(3)
	}
	for range n.guesses {
		i := g.r.IntN(len(n.leaves))
		parent, text := n.leaves[i], n.texts[i]
		token := int32(g.r.IntN(300))
		if g.r.IntN(2) == 0 {
			token = g.truth.after(text).Top[0].ID
		}
		n.add(g.next, text, append(slices.Clone(parent.Path), parent.ID), token, slots)
	}
	return n
}

// extend evaluates some leaves, sometimes with a failing device, or with a cancelled context.
func (g *gardener) extend() {
	room, grown := g.m.Room(), g.grow()
	leaves, n := grown.leaves, len(grown.leaves)
	ctx, gone := g.t.Context(), error(nil)
	g.fault(6)
	if g.r.IntN(10) == 0 {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		gone = errors.New("no caller waits")
		cancel(gone)
	}
	adopted := g.s.summary.RanAhead
	outs, err := g.m.Extend(ctx, leaves)
	switch {
	case grown.last:
		require.ErrorIs(g.t, err, transformer.ErrContext)
		require.ErrorContains(g.t, err, fmt.Sprintf("lies beyond the context of %d tokens", g.s.cache.Slots()))
	case n > room, grown.unknown:
		require.Error(g.t, err)
		if grown.unknown && strings.Contains(err.Error(), "token 300 is not in the vocabulary") {
			return
		}
		fallthrough
	case err != nil:
		if (gone == nil || !errors.Is(err, gone)) && (n <= room || !errors.Is(err, transformer.ErrContext)) {
			g.failed(err)
		}
	}
	if err != nil {
		return // no leaf is kept
	}
	require.NoError(g.t, gone)
	require.Len(g.t, outs, n)
	for i, l := range leaves {
		want := g.truth.after(grown.texts[i])
		require.Equal(g.t, want, copied(outs[i]), "leaf %d of %d after %v", i, n, grown.texts[i])
		g.nodes[l.ID] = &leaf{l, want.Top[0].ID}
	}
	g.next += draft.ID(n)
	if flew := g.s.summary.RanAhead - adopted; grown.guesses == 0 && (n == 1 || flew > 0) {
		require.LessOrEqual(g.t, flew, 1)
		g.running(leaves)
	} else {
		require.Empty(g.t, g.s.speculation.passes, "no leaf is the expected token, or guesses follow it")
	}
}

// running checks the number of tokens in flight.
func (g *gardener) running(leaves []draft.Node) {
	g.t.Helper()
	flights, free := g.s.speculation.passes, g.s.cache.Slots()-len(g.settled)-len(g.nodes)
	if len(leaves) == 1 {
		require.Len(g.t, flights, max(0, min(g.s.speculation.depth, g.s.cache.Slots()-1-leaves[0].Pos, free)))
	}
	for i, f := range flights[:max(0, len(flights)-1)] {
		require.Equal(g.t, f.row.Pos+1, flights[i+1].row.Pos)
	}
}

// settle settles a part of a branch, and drops what contradicts it, before or after.
func (g *gardener) settle() {
	_, path := g.below(g.any())
	if len(path) == 0 {
		return
	}
	path = path[:1+g.r.IntN(len(path))]
	stays := func(n *leaf) bool {
		return slices.Contains(path, n.ID) || len(n.Path) >= len(path) && slices.Equal(n.Path[:len(path)], path)
	}
	first := g.r.IntN(2) == 0
	if first {
		g.dropAll(func(n *leaf) bool { return !stays(n) })
	}
	before := g.m.s.ids
	g.m.Settle(path...)
	require.Len(g.t, g.m.s.ids, len(before)+len(path))
	for _, id := range path {
		g.settled = append(slices.Clone(g.settled), g.nodes[id].Token)
	}
	if !first {
		for _, n := range g.nodes { // the others are still there, without a parent
			_, ok := g.m.slots[n.ID]
			require.Equal(g.t, !slices.Contains(path, n.ID), ok)
		}
		g.dropAll(func(n *leaf) bool { return !stays(n) })
	}
	for _, id := range path {
		delete(g.nodes, id)
	}
	for _, n := range g.nodes {
		n.Path = n.Path[len(path):]
	}
}

// drop drops a node and its descendants.
func (g *gardener) drop(root *leaf) {
	if root != nil {
		g.dropAll(func(n *leaf) bool { return n == root || slices.Contains(n.Path, root.ID) })
	}
}

func (g *gardener) dropAll(which func(*leaf) bool) {
	var ids []draft.ID
	for id, n := range g.nodes {
		if which(n) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	g.m.Drop(ids...)
	for _, id := range ids {
		delete(g.nodes, id)
	}
}

// TestDraftInPlace: a draft without branches uses the slots that its text will have, so that settling moves nothing,
// and flights after it continue. With branches, leaves of one call use these slots if they are free.
func TestDraftInPlace(t *testing.T) {
	for _, flights := range []bool{false, true} {
		e, d := troubled(t, Options{Context: 20}, flights)
		s := session(t, e)
		m := newEdgeModel(s, backend.Want{K: 3}, 0)
		out, err := m.Prefill(t.Context(), []int32{1, 2, 3})
		require.NoError(t, err)
		var path []draft.ID
		for i := range draft.ID(6) {
			n := draft.Node{ID: i + 1, Token: out.Top[0].ID, Pos: 3 + int(i), Path: path}
			outs, err := m.Extend(t.Context(), []draft.Node{n})
			require.NoError(t, err)
			require.EqualValues(t, n.Pos, m.slots[n.ID])
			out, path = copied(outs[0]), append(slices.Clone(path), n.ID)
		}
		begun := d.begun
		if flights {
			require.Equal(t, 5, s.summary.RanAhead)
			require.Len(t, s.speculation.passes, speculationDepth)
			require.EqualValues(t, 9, s.speculation.passes[0].row.Slot)
		}
		m.Settle(path[:4]...)
		m.Settle(path[4])
		require.Len(t, s.speculation.passes, begun-7, "they stay")
		next := draft.Node{ID: 7, Token: out.Top[0].ID, Pos: 9, Path: path[5:]}
		_, err = m.Extend(t.Context(), []draft.Node{next})
		require.NoError(t, err)
		require.Equal(t, begun+1, d.begun, "one pass; on a device with flights it is one token further")
		require.EqualValues(t, 9, m.slots[7])
		m.Drop(7)
		s.speculation.stopPasses(s.cache)
		_, err = m.Extend(t.Context(), []draft.Node{{ID: 10, Token: out.Top[1].ID, Pos: 9, Path: path[5:]}})
		require.NoError(t, err)
		require.EqualValues(t, 9, m.slots[10], "a token that was not expected")
		m.Drop(10)
		s.speculation.stopPasses(s.cache)
		pair := []draft.Node{{ID: 8, Token: 5, Pos: 9, Path: path[5:]}, {ID: 9, Token: 6, Pos: 9, Path: path[5:]}}
		_, err = m.Extend(t.Context(), pair)
		require.NoError(t, err)
		require.EqualValues(t, 9, m.slots[8])
		require.EqualValues(t, 19, m.slots[9], "from the other end")
		m.Drop(8, 9, 6)
	}
}

// TestMovedTwice: a node that gives its slot to settled text twice is found both times.
func TestMovedTwice(t *testing.T) {
	s := session(t, small(t, Options{Context: 5}, nil))
	m := newEdgeModel(s, backend.Want{K: 1}, 0)
	_, err := m.Prefill(t.Context(), []int32{1})
	require.NoError(t, err)
	extend := func(id draft.ID, pos int, path ...draft.ID) {
		_, err := m.Extend(t.Context(), []draft.Node{{ID: id, Token: int32(id), Pos: pos, Path: path}})
		require.NoError(t, err)
	}
	for id := range draft.ID(4) {
		extend(id+1, 1)
	}
	m.Drop(1, 2, 3)
	extend(5, 2, 4)
	extend(6, 3, 4, 5)
	extend(7, 4, 4, 5, 6)
	require.Equal(t, map[draft.ID]int32{4: 2, 5: 4, 6: 3, 7: 1}, m.slots)
	for slot, id := range []draft.ID{4, 5, 6, 7} {
		m.Settle(id)
		require.Equal(t, slot+2, s.cache.Len())
	}
	require.Equal(t, []int32{1, 4, 5, 6, 7}, s.ids)
}

// TestSettleMovesFlights: a flight is dropped if settled text needs its slot.
func TestSettleMovesFlights(t *testing.T) {
	e, _ := troubled(t, Options{Context: 20}, true)
	s := session(t, e)
	m := newEdgeModel(s, backend.Want{K: 3}, 0)
	out, err := m.Prefill(t.Context(), []int32{1, 2, 3})
	require.NoError(t, err)
	other, best := out.Top[1].ID, out.Top[0].ID
	_, err = m.Extend(t.Context(), []draft.Node{{ID: 1, Token: best, Pos: 3}})
	require.NoError(t, err)
	_, err = m.Extend(t.Context(), []draft.Node{{ID: 2, Token: other, Pos: 3}})
	require.NoError(t, err)
	require.Len(t, s.speculation.passes, speculationDepth)
	require.NotEqualValues(t, 3, m.slots[2])
	m.Drop(1)
	m.Settle(2)
	require.Empty(t, s.speculation.passes, "the keys and values that it attends to have moved")
	require.Equal(t, []int32{1, 2, 3, other}, s.ids)
}

// TestModelGone: if the model is closed during a session, an evaluation returns an error and frees every slot, also
// those of flights.
func TestModelGone(t *testing.T) {
	for _, leaves := range []int{1, 2} {
		e, _ := troubled(t, Options{Context: 20}, true)
		s := session(t, e)
		m := newEdgeModel(s, backend.Want{K: 3}, 0)
		out, err := m.Prefill(t.Context(), []int32{1, 2, 3})
		require.NoError(t, err)
		outs, err := m.Extend(t.Context(), []draft.Node{{ID: 1, Token: out.Top[0].ID, Pos: 3}})
		require.NoError(t, err)
		require.Equal(t, 4+speculationDepth, s.cache.InUse())
		nodes := []draft.Node{
			{ID: 2, Token: outs[0].Top[0].ID, Pos: 4, Path: []draft.ID{1}},
			{ID: 3, Token: outs[0].Top[1].ID, Pos: 4, Path: []draft.ID{1}},
		}
		e.model.Close()
		_, err = m.Extend(t.Context(), nodes[:leaves])
		require.ErrorIs(t, err, ErrClosed)
		require.Empty(t, s.speculation.passes)
		require.Equal(t, 4, s.cache.InUse())
		require.Len(t, m.slots, 1)
		_, err = m.Extend(t.Context(), nodes[:leaves])
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, 4, s.cache.InUse())
		require.NoError(t, e.Close())
	}
}
