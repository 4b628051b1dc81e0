package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen2"
)

// edge is a session as the model that package draft decodes with: ids of draft nodes on one side, slots of the KV cache on
// the other.
type edge struct {
	s     *Session
	want  backend.Want       // of every head
	slots map[draft.ID]int32 // of the nodes of the draft tree
	ids   map[int32]draft.ID // the other way round
	token map[draft.ID]int32
	pace  time.Duration // least time of a forward call; 0: as fast as it goes
	out   []backend.Output
}

func newEdge(s *Session, want backend.Want, pace time.Duration) *edge {
	return &edge{s: s, want: want, pace: pace, slots: map[draft.ID]int32{}, ids: map[int32]draft.ID{}, token: map[draft.ID]int32{}}
}

// Prefill implements [draft.Model].
func (m *edge) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	out, err := m.s.prefill(ctx, prompt, m.want)
	if err != nil {
		return backend.Output{}, err
	}
	return *out, nil
}

// Extend implements [draft.Model].
func (m *edge) Extend(ctx context.Context, nodes []draft.Node) (heads []backend.Output, err error) {
	begin := m.s.now()
	rows := make([]backend.Row, 0, len(nodes))
	defer func() {
		if err != nil {
			for _, r := range rows {
				m.s.cache.Free(r.Slot)
			}
		}
	}()
	want := m.want
	want.Rows = nil
	for i, n := range nodes {
		if n.Pos >= m.s.e.o.Context {
			return nil, fmt.Errorf("position %d in a context of %d: %w", n.Pos, m.s.e.o.Context, qwen2.ErrContext)
		}
		slot, err := m.s.cache.Alloc(n.Pos)
		if err != nil {
			return nil, err
		}
		rows = append(rows, m.s.cache.Node(n.Token, slot, m.path(n.Path)...))
		want.Rows = append(want.Rows, i)
	}
	for len(m.out) < len(rows) {
		m.out = append(m.out, backend.Output{})
	}
	if err := m.s.e.run(ctx, m.s.cache.KV(), rows, m.out[:len(rows)], want); err != nil {
		return nil, err
	}
	for i, n := range nodes {
		m.slots[n.ID], m.ids[rows[i].Slot], m.token[n.ID] = rows[i].Slot, n.ID, n.Token
	}
	return m.out[:len(rows)], m.rest(ctx, begin)
}

// rest waits until a forward call that began at begin has taken as long as the pace says.
func (m *edge) rest(ctx context.Context, begin time.Time) error {
	left := m.pace - m.s.now().Sub(begin)
	if left <= 0 {
		return nil
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done(): // the call itself is done: who waits for ctx is told by the next one
	}
	return nil
}

// path returns the slots of nodes.
func (m *edge) path(ids []draft.ID) []int32 {
	slots := make([]int32, len(ids))
	for i, id := range ids {
		slots[i] = m.slots[id]
	}
	return slots
}

// Settle implements [draft.Model].
func (m *edge) Settle(path ...draft.ID) {
	slots := m.path(path)
	for _, id := range path {
		m.s.ids = append(m.s.ids, m.token[id])
		m.forget(id)
	}
	for _, move := range m.s.cache.Settle(slots...) {
		if id, ok := m.ids[move.From]; ok {
			delete(m.ids, move.From)
			m.slots[id], m.ids[move.To] = move.To, id
		}
	}
}

// Drop implements [draft.Model].
func (m *edge) Drop(nodes ...draft.ID) {
	for _, id := range nodes {
		m.s.cache.Free(m.slots[id])
		m.forget(id)
	}
}

func (m *edge) forget(id draft.ID) {
	delete(m.ids, m.slots[id])
	delete(m.slots, id)
	delete(m.token, id)
}

// Room implements [draft.Model].
func (m *edge) Room() int { return m.s.cache.Slots() - m.s.cache.InUse() }
