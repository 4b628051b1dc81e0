package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// edgeModel makes a session a [draft.Model]: it maps ids of draft nodes to slots of the KV cache.
type edgeModel struct {
	s     *Session
	want  backend.Want       // of every head
	slots map[draft.ID]int32 // of the nodes of the draft tree
	ids   map[int32]draft.ID // the other way round
	token map[draft.ID]int32
	pace  time.Duration // min time of a forward call of one row; 0: no limit
	row   float64       // share of that for each further row
	over  time.Duration // the delay of the last call's timer
	out   []backend.Output
}

func newEdgeModel(s *Session, want backend.Want, pace time.Duration) *edgeModel {
	return &edgeModel{
		s: s, want: want, pace: pace,
		slots: map[draft.ID]int32{}, ids: map[int32]draft.ID{}, token: map[draft.ID]int32{},
	}
}

func (m *edgeModel) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	out, err := m.s.prefillPrompt(ctx, prompt, m.want)
	if err != nil {
		return backend.Output{}, err
	}
	return *out, nil
}

func (m *edgeModel) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	begin := m.s.now()
	for _, n := range nodes {
		if n.Pos >= m.s.e.o.Context {
			return nil, fmt.Errorf("position %d lies beyond the context of %d tokens: %w",
				n.Pos, m.s.e.o.Context, transformer.ErrContext)
		}
	}
	if len(nodes) == 1 {
		slot, out, err := m.s.evaluateOne(ctx, nodes[0].Token, m.pathSlots(nodes[0].Path), m.want)
		if err != nil {
			return nil, err
		}
		m.recordNode(nodes[0], slot)
		m.out = append(m.out[:0], *out)
	} else if err := m.evaluateSeveral(ctx, nodes); err != nil {
		return nil, err
	}
	m.waitForPace(ctx, begin, len(nodes))
	return m.out, nil
}

// evaluateOne evaluates a token after the settled text and the slots of path. It returns the token's slot and the
// output of the head, which is valid until the next call.
func (s *Session) evaluateOne(
	ctx context.Context, token int32, path []int32, want backend.Want,
) (int32, *backend.Output, error) {
	if s.speculation.canSpeculate(want) {
		return s.speculation.evaluateToken(ctx, s.cache, token, path, want)
	}
	slot, err := s.cache.Alloc(s.cache.Len() + len(path))
	if err != nil {
		return 0, nil, err
	}
	s.row[0] = s.cache.Node(token, slot, path...)
	want.Rows = s.first[:]
	if err := s.e.forwardShared(ctx, s.batchSession, s.cache.KV(), s.row[:], s.out[:], want); err != nil {
		s.cache.Free(slot)
		return 0, nil, err
	}
	return slot, &s.out[0], nil
}

func (m *edgeModel) evaluateSeveral(ctx context.Context, nodes []draft.Node) error {
	m.out = slices.Grow(m.out[:0], len(nodes))[:len(nodes)]
	if m.s.speculation.depth > 0 {
		err := m.evaluateBesidePass(ctx, nodes)
		if errors.Is(err, backend.ErrFault) { // of a pass that was under way: the device has failed
			err = m.evaluateBesidePass(ctx, nodes)
		}
		return err
	}
	err := m.evaluateTogether(ctx, nodes, -1, m.s.forwardShared)
	if err != nil {
		m.dropNodes(nodes)
	}
	return err
}

// evaluateBesidePass evaluates nodes together and waits for a speculative pass that has begun. No further one begins
// together with guesses from the text: it would delay the next nodes.
func (m *edgeModel) evaluateBesidePass(ctx context.Context, nodes []draft.Node) error {
	s := m.s
	done, err := s.e.acquireModel(ctx)
	if err != nil {
		return err
	}
	defer done()
	guesses := m.countGuesses(nodes)
	running, at := speculativePass{}, -1
	for i, n := range nodes[:len(nodes)-guesses] {
		if f, ok := s.speculation.acceptPass(s.cache, n.Token, m.pathSlots(n.Path)); ok {
			running, at = f, i
			m.recordNode(n, f.row.Slot)
			break
		}
	}
	switch {
	case at < 0:
		s.speculation.rejectPasses(s.cache)
	case guesses > 0:
		s.speculation.dropPasses(s.cache)
	}
	if err := m.evaluateTogether(ctx, nodes, at, s.e.forwardModel); err != nil {
		if at >= 0 {
			s.speculation.dropPasses(s.cache)
			running.Drop()
		}
		m.dropNodes(nodes)
		return err
	}
	if at < 0 {
		return nil
	}
	if guesses == 0 {
		s.speculation.startSuccessors(s.cache, running, m.want)
	}
	out, err := s.speculation.awaitPass(ctx, s.cache, running)
	if err != nil {
		m.forgetNode(nodes[at].ID)
		m.dropNodes(nodes)
		return err
	}
	m.out[at] = *out
	return nil
}

// countGuesses counts the nodes at the end of nodes that have a parent among them.
func (m *edgeModel) countGuesses(nodes []draft.Node) int {
	for i, n := range nodes {
		if len(n.Path) == 0 {
			continue
		}
		if _, held := m.slots[n.Path[len(n.Path)-1]]; !held {
			return len(nodes) - i
		}
	}
	return 0
}

// evaluateTogether evaluates all nodes except the one at position but in one forward call. After an error m may hold
// some of them.
func (m *edgeModel) evaluateTogether(ctx context.Context, nodes []draft.Node, but int, forward forwardFunc) error {
	cache := m.s.cache
	want, rows := m.want, []backend.Row(nil)
	want.Rows = nil
	var out []backend.Output
	for i, n := range nodes {
		if i == but {
			continue
		}
		slot, err := m.s.speculation.allocSlot(m.s.cache, n.Pos)
		if err != nil {
			return err
		}
		m.recordNode(n, slot)
		want.Rows = append(want.Rows, len(rows))
		rows = append(rows, cache.Node(n.Token, slot, m.pathSlots(n.Path)...))
		out = append(out, m.out[i])
	}
	if err := forward(ctx, cache.KV(), rows, out, want); err != nil {
		return err
	}
	for i := range nodes {
		if i != but {
			m.out[i], out = out[0], out[1:]
		}
	}
	return nil
}

func (m *edgeModel) dropNodes(nodes []draft.Node) {
	for _, n := range nodes {
		if _, ok := m.slots[n.ID]; ok {
			m.Drop(n.ID)
		}
	}
}

func (m *edgeModel) recordNode(n draft.Node, slot int32) {
	m.slots[n.ID], m.ids[slot], m.token[n.ID] = slot, n.ID, n.Token
}

// waitForPace waits until a forward call with the given number of rows has taken the time of the pace since begin.
// Timers fire late: if one call ends late, the next one is made shorter, so that both together take the right time.
func (m *edgeModel) waitForPace(ctx context.Context, begin time.Time, rows int) {
	least := time.Duration(float64(m.pace)*(1+m.row*float64(rows-1))) - m.over
	m.over = 0
	left := least - m.s.now().Sub(begin)
	if left <= 0 {
		return
	}
	_ = retry.Wait(ctx, left) // the call itself is done: the next one reports the end of ctx
	m.over = min(max(0, m.s.now().Sub(begin)-least), m.pace/2)
}

func (m *edgeModel) pathSlots(ids []draft.ID) []int32 {
	slots := make([]int32, len(ids))
	for i, id := range ids {
		slots[i] = m.slots[id]
	}
	return slots
}

func (m *edgeModel) Settle(path ...draft.ID) {
	slots := m.pathSlots(path)
	for _, id := range path {
		m.s.ids = append(m.s.ids, m.token[id])
		m.forgetNode(id)
	}
	for _, move := range m.s.speculation.settleSlots(m.s.cache, slots...) {
		if id, ok := m.ids[move.From]; ok {
			delete(m.ids, move.From)
			m.slots[id], m.ids[move.To] = move.To, id
		}
	}
}

func (m *edgeModel) Drop(nodes ...draft.ID) {
	for _, id := range nodes {
		m.s.cache.Free(m.slots[id])
		m.forgetNode(id)
	}
}

func (m *edgeModel) forgetNode(id draft.ID) {
	delete(m.ids, m.slots[id])
	delete(m.slots, id)
	delete(m.token, id)
}

// Room implements [draft.Model]. It does not count speculative passes: their slots are freed when needed.
func (m *edgeModel) Room() int { return m.s.cache.Slots() - m.s.tokensInUse() }
