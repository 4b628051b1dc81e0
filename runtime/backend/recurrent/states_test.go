package recurrent

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// content stands for what a backend holds: the text whose last token an update is of, or after which a checkpoint is.
type content struct{ text string }

// texts is the memory of updates and checkpoints as texts.
type texts struct{ made [2]int }

func (m *texts) NewUpdate() *content       { m.made[0]++; return new(content) }
func (m *texts) NewCheckpoint() *content   { m.made[1]++; return new(content) }
func (m *texts) FreeUpdate(c *content)     { m.made[0]--; c.text = "freed" }
func (m *texts) FreeCheckpoint(c *content) { m.made[1]--; c.text = "freed" }
func (s *world) free(slot int32)           { s.slots[slot] = false }
func (n *leaf) position() int              { return len(n.text) - 1 }
func visible(slots []int32) []backend.Span { return spans(nil, slots) }
func spans(see []backend.Span, slots []int32) []backend.Span {
	for _, s := range slots {
		see = backend.AppendSlot(see, s)
	}
	return see
}

// leaf is a token of a tree of texts in a store, with the slots of its text.
type leaf struct {
	text  string
	slots []int32
}

// world is a store with a tree of texts, in which rows are evaluated, fail, are moved, exchanged and dropped.
type world struct {
	t      *testing.T
	r      *rand.Rand
	taps   int
	memory *texts
	s      *States[*content, *content]
	slots  []bool // in use
	leaves []*leaf
}

// TestHistories: in any history each row finds the state before its chunk, the updates of its chunk and the inputs of
// its convolution, all of its own text; and no memory is lost.
func TestHistories(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := backend.KVConfig{Slots: 40 + r.IntN(50), Type: gguf.F16}
		c.Delta = backend.DeltaConfig{Layers: 1, Kernel: 1 + r.IntN(backend.DeltaChunk)}
		m := new(texts)
		w := &world{
			t: t, r: r, taps: c.Delta.Kernel - 1, memory: m, s: New[*content, *content](c, m),
			slots: make([]bool, c.Slots),
		}
		for range 120 {
			w.change()
			w.check()
		}
	}
}

func (w *world) change() {
	switch k := w.r.IntN(12); {
	case k == 0 && len(w.leaves) > 0:
		w.drop(w.r.IntN(len(w.leaves)))
	case k == 1 && len(w.leaves) > 0:
		w.move(w.leaves[w.r.IntN(len(w.leaves))])
	case k == 2 && len(w.leaves) > 1:
		w.swap(w.leaves[0], w.leaves[w.r.IntN(len(w.leaves))])
	case k == 3:
		w.s.Trim(w.r.IntN(3), w.r.IntN(60))
	case k == 4 && len(w.leaves) > 0:
		w.restore(w.leaves[w.r.IntN(len(w.leaves))])
	default:
		w.grow(1+w.r.IntN(4), 1+w.r.IntN(9), w.r.IntN(6) == 0)
	}
}

// grow evaluates chains of rows after some texts in one pass, which may fail.
func (w *world) grow(chains, length int, fails bool) {
	var added []*leaf
	for range chains {
		at := new(leaf)
		if n := len(w.leaves); n > 0 && w.r.IntN(8) > 0 {
			at = w.leaves[max(w.r.IntN(n), w.r.IntN(n), w.r.IntN(n))]
		}
		for range length {
			slot := w.takeSlot()
			if slot < 0 {
				break
			}
			next := &leaf{at.text + string(rune('a'+w.r.IntN(3))), append(at.slots[:len(at.slots):len(at.slots)], slot)}
			added, at = append(added, next), next
		}
	}
	all := append(w.again(added), added...)
	rows := make([]backend.Row, len(all))
	for i, n := range all {
		pos := n.position()
		rows[i] = backend.Row{Token: int32(n.text[pos]), Pos: int32(pos), Slot: n.slots[pos], See: visible(n.slots)}
	}
	of := func(backend.Row) *States[*content, *content] { return w.s }
	for again := Replay(rows, of); len(again) > 0; again = Replay(rows, of) {
		if steps := w.run(again, w.replayed(again, all)); w.r.IntN(4) == 0 {
			w.fail(steps)
		}
	}
	steps := w.run(rows, all)
	if fails {
		w.fail(steps)
		for _, n := range added {
			w.free(n.slots[n.position()])
		}
		return
	}
	w.leaves = append(w.leaves, added...)
}

// again returns some of the texts' tokens, which a pass evaluates a second time in their slots.
func (w *world) again(added []*leaf) (all []*leaf) {
	if w.r.IntN(2) > 0 || len(added) == 0 || added[0].position() == 0 {
		return nil
	}
	before := added[0].position()
	n := &leaf{added[0].text[:before], added[0].slots[:before]}
	from := max(0, before-1-w.r.IntN(20))
	for pos := from; pos < min(len(n.text), from+3); pos++ {
		all = append(all, &leaf{n.text[:pos+1], n.slots[:pos+1]})
	}
	return all
}

// fail is a pass that has not done, in the end, what its steps say.
func (w *world) fail(steps []Step[*content, *content]) {
	for _, s := range steps {
		if s.Into != nil {
			s.Into.Memory.text = "failed"
		} else {
			s.Update.Memory.text = "failed"
		}
	}
	w.s.Undo(steps)
}

// replayed returns the leaves of rows that are evaluated again: beginnings of one of the texts.
func (w *world) replayed(rows []backend.Row, of []*leaf) (all []*leaf) {
	last := rows[len(rows)-1]
	for _, n := range of {
		if pos := int(last.Pos); pos < n.position() && n.slots[pos] == last.Slot {
			for _, r := range rows {
				all = append(all, &leaf{n.text[:r.Pos+1], n.slots[:r.Pos+1]})
			}
			return all
		}
	}
	require.Fail(w.t, "rows of no text are replayed")
	return nil
}

// run plans rows and does what their steps say.
func (w *world) run(rows []backend.Row, of []*leaf) (steps []Step[*content, *content]) {
	for i, r := range rows {
		require.EqualValues(w.t, of[i].text[r.Pos], r.Token)
		require.Equal(w.t, visible(of[i].slots), r.See)
		steps = w.s.PlanRow(steps, r, i)
	}
	for _, s := range steps {
		if s.Into != nil {
			require.Len(w.t, s.Path, backend.DeltaChunk)
			text := s.Path[backend.DeltaChunk-1].Memory.text
			w.checkStep(s, text, len(text))
			s.Into.Memory.text = text
		} else {
			n := of[s.Row]
			w.checkStep(s, n.text, n.position())
			s.Update.Memory.text = n.text
		}
	}
	return steps
}

// checkStep checks what a step has of a text, for the token at a position or the end of the chunk there.
func (w *world) checkStep(s Step[*content, *content], text string, pos int) {
	first := pos - len(s.Path)
	require.Zero(w.t, first%backend.DeltaChunk)
	if require.Equal(w.t, first > 0, s.Base != nil); first > 0 {
		require.Equal(w.t, text[:first], s.Base.Memory.text)
	}
	for i, u := range s.Path {
		require.Equal(w.t, text[:first+i+1], u.Memory.text)
	}
	require.Len(w.t, s.Inputs, w.taps)
	for i, in := range s.Inputs {
		switch at := pos - w.taps + i; {
		case at >= first:
			require.Equal(w.t, text[:at+1], in.Update.Memory.text)
		case first > 0:
			require.Same(w.t, s.Base, in.Checkpoint)
			require.Equal(w.t, at-(first-w.taps), in.Number)
		default:
			require.Equal(w.t, Input[*content, *content]{}, in)
		}
	}
}

func (w *world) takeSlot() int32 {
	for range 20 {
		if s := w.r.IntN(len(w.slots)); !w.slots[s] {
			w.slots[s] = true
			return int32(s)
		}
	}
	return -1
}

// drop drops a leaf and all that follow it.
func (w *world) drop(i int) {
	gone := w.leaves[i]
	slot, kept := gone.slots[gone.position()], w.leaves[:0:0]
	for _, n := range w.leaves {
		if pos := gone.position(); pos < len(n.slots) && n.slots[pos] == slot {
			w.free(n.slots[n.position()])
		} else {
			kept = append(kept, n)
		}
	}
	w.leaves = kept
}

// move moves a token to a free slot.
func (w *world) move(n *leaf) {
	if to := w.takeSlot(); to >= 0 {
		from := n.slots[n.position()]
		w.s.Copy(to, from)
		w.rename(map[int32]int32{from: to})
		w.free(from)
	}
}

func (w *world) swap(a, b *leaf) {
	from, to := a.slots[a.position()], b.slots[b.position()]
	if from != to {
		w.s.Swap(from, to)
		w.rename(map[int32]int32{from: to, to: from})
	}
}

func (w *world) rename(to map[int32]int32) {
	for _, n := range w.leaves {
		renamed := make([]int32, len(n.slots))
		for i, s := range n.slots {
			if other, ok := to[s]; ok {
				renamed[i] = other
			} else {
				renamed[i] = s
			}
		}
		n.slots = renamed
	}
}

// restore copies a text to a store of its own, in the way in which it is saved.
func (w *world) restore(n *leaf) {
	c := backend.KVConfig{Slots: len(n.text) + 1, Type: gguf.F16}
	c.Delta = backend.DeltaConfig{Layers: 1, Kernel: w.taps + 1}
	o := &world{t: w.t, r: w.r, taps: w.taps, memory: new(texts), slots: make([]bool, c.Slots)}
	o.s = New[*content, *content](c, o.memory)
	tokens, slots := make([]int32, len(n.text)), make([]int32, len(n.text)+1)
	for i := range slots {
		slots[i] = int32(i)
	}
	for i := range tokens {
		tokens[i] = int32(n.text[i])
	}
	base, updates := o.s.Restore(tokens)
	if first := len(tokens) - len(updates); first > 0 {
		base.Memory.text = n.text[:first]
	}
	for i, u := range updates {
		u.Memory.text = n.text[:len(tokens)-len(updates)+i+1]
	}
	next := &leaf{n.text + "z", slots}
	row := backend.Row{Token: 'z', Pos: int32(len(tokens)), Slot: int32(len(tokens)), See: visible(slots)}
	require.Nil(w.t, Replay([]backend.Row{row}, func(backend.Row) *States[*content, *content] { return o.s }))
	o.run([]backend.Row{row}, []*leaf{next})
	steps, saved, rest := o.s.Saved(len(slots))
	for _, s := range steps {
		s.Into.Memory.text = s.Path[backend.DeltaChunk-1].Memory.text
	}
	first := len(slots) / backend.DeltaChunk * backend.DeltaChunk
	if require.Equal(w.t, first > 0, saved != nil); first > 0 {
		require.Equal(w.t, next.text[:first], saved.Memory.text)
	}
	require.Len(w.t, rest, len(slots)-first)
}

// check checks that each object is counted as often as slots have it, and that all memory is.
func (w *world) check() {
	updates, checkpoints := map[*Update[*content]]int{}, map[*Checkpoint[*content]]int{}
	for _, at := range w.s.slots {
		updates[at.update]++
		checkpoints[at.checkpoint]++
	}
	delete(updates, nil)
	delete(checkpoints, nil)
	for u, n := range updates {
		require.Equal(w.t, n, u.slots)
	}
	for p, n := range checkpoints {
		require.Equal(w.t, n, p.slots)
	}
	made, points := w.s.Made()
	require.EqualValues(w.t, len(updates)+len(w.s.updates.spare), made)
	require.EqualValues(w.t, len(checkpoints)+len(w.s.checkpoints.spare), points)
	require.Equal(w.t, [2]int{int(made), int(points)}, w.memory.made)
}

// TestTrim: what was used last is kept, and of the states of a long text more of the last ones than of the first, but
// some everywhere.
func TestTrim(t *testing.T) {
	const tokens, most = 64 * backend.DeltaChunk, 10
	c := backend.KVConfig{Slots: tokens, Type: gguf.F16, Delta: backend.DeltaConfig{Layers: 1, Kernel: 1}}
	s := New[*content, *content](c, new(texts))
	see := []backend.Span{{From: 0, To: tokens}}
	for pos := range int32(tokens) {
		s.PlanRow(nil, backend.Row{Pos: pos, Slot: pos, See: []backend.Span{{From: 0, To: pos + 1}}}, 0)
		s.Trim(most, 2*backend.DeltaChunk)
	}
	var chunks []int
	for i := backend.DeltaChunk; i < tokens; i += backend.DeltaChunk {
		if s.slots[i-1].checkpoint != nil {
			chunks = append(chunks, i/backend.DeltaChunk)
		}
	}
	require.LessOrEqual(t, len(chunks), most)
	require.Contains(t, chunks, 32, fmt.Sprint(chunks))
	require.Contains(t, chunks, 63)
	require.Contains(t, chunks, 62)
	require.Equal(t, tokens, s.Resume(see, nil))
	old := []backend.Span{{From: 0, To: 33 * backend.DeltaChunk}}
	require.Equal(t, 32*backend.DeltaChunk, s.Resume(old, nil))
	for pos := int32(32 * backend.DeltaChunk); pos < 33*backend.DeltaChunk-1; pos++ { // an old text goes on
		s.PlanRow(nil, backend.Row{Pos: pos, Slot: pos, See: []backend.Span{{From: 0, To: pos + 1}}}, 0)
	}
	last := int32(tokens - 1)
	s.PlanRow(nil, backend.Row{Pos: last, Slot: last, See: see}, 0)
	s.Trim(2, 2*backend.DeltaChunk+4)
	require.Equal(t, 33*backend.DeltaChunk-1, s.Resume(old, nil), "the states that both texts use are kept")
	require.Equal(t, tokens, s.Resume(see, nil))
	s.Trim(2, backend.DeltaChunk+4)
	require.Equal(t, tokens, s.Resume(see, nil), "its updates were used last")
}

// TestResume: a text goes on after its last token from which the updates go back to a state without a gap.
func TestResume(t *testing.T) {
	const tokens = 2*backend.DeltaChunk + 8
	see := []backend.Span{{From: 0, To: tokens}}
	for lost, want := range map[int]int{
		-1: tokens, 0: tokens, backend.DeltaChunk: backend.DeltaChunk, backend.DeltaChunk + 3: backend.DeltaChunk + 3,
		2*backend.DeltaChunk - 1: 2*backend.DeltaChunk - 1, 2 * backend.DeltaChunk: 2 * backend.DeltaChunk,
		tokens - 1: tokens - 1,
	} {
		c := backend.KVConfig{Slots: tokens, Type: gguf.F16, Delta: backend.DeltaConfig{Layers: 1, Kernel: 1}}
		s := New[*content, *content](c, new(texts))
		for pos := range int32(tokens) {
			s.PlanRow(nil, backend.Row{Pos: pos, Slot: pos, See: []backend.Span{{From: 0, To: pos + 1}}}, 0)
		}
		last := 2*backend.DeltaChunk - 1
		s.set(int32(last), slot[*content, *content]{known: true, update: s.slots[last].update})
		if lost >= 0 {
			s.set(int32(lost), slot[*content, *content]{known: true, checkpoint: s.slots[lost].checkpoint})
		}
		require.Equal(t, want, s.Resume(see, nil), "without the update of token %d", lost)
		written := func(slot int32) bool { return int(slot) == lost }
		require.Equal(t, tokens, s.Resume(see, written), "token %d comes in the same pass", lost)
	}
}
