package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen"
)

// edge makes a session a [draft.Model]: it maps ids of draft nodes to slots of the KV cache.
type edge struct {
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

func newEdge(s *Session, want backend.Want, pace time.Duration) *edge {
	return &edge{
		s: s, want: want, pace: pace,
		slots: map[draft.ID]int32{}, ids: map[int32]draft.ID{}, token: map[draft.ID]int32{},
	}
}

func (m *edge) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	out, err := m.s.prefill(ctx, prompt, m.want)
	if err != nil {
		return backend.Output{}, err
	}
	return *out, nil
}

func (m *edge) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	begin := m.s.now()
	for _, n := range nodes {
		if n.Pos >= m.s.e.o.Context {
			return nil, fmt.Errorf("position %d lies beyond the context of %d tokens: %w",
				n.Pos, m.s.e.o.Context, qwen.ErrContext)
		}
	}
	if len(nodes) == 1 {
		slot, out, err := m.s.one(ctx, nodes[0].Token, m.path(nodes[0].Path), m.want)
		if err != nil {
			return nil, err
		}
		m.put(nodes[0], slot)
		m.out = append(m.out[:0], *out)
	} else if err := m.several(ctx, nodes); err != nil {
		return nil, err
	}
	m.rest(ctx, begin, len(nodes))
	return m.out, nil
}

// one evaluates a token after the settled text and the slots of path. It returns the token's slot and the output of the
// head, which is valid until the next call.
func (s *Session) one(
	ctx context.Context, token int32, path []int32, want backend.Want,
) (int32, *backend.Output, error) {
	if s.speculates(want) {
		return s.inFlight(ctx, token, path, want)
	}
	slot, err := s.cache.Alloc(s.cache.Len() + len(path))
	if err != nil {
		return 0, nil, err
	}
	s.row[0] = s.cache.Node(token, slot, path...)
	want.Rows = s.first[:]
	if err := s.e.share(ctx, s.member, s.cache.KV(), s.row[:], s.out[:], want); err != nil {
		s.cache.Free(slot)
		return 0, nil, err
	}
	return slot, &s.out[0], nil
}

func (m *edge) several(ctx context.Context, nodes []draft.Node) error {
	m.out = slices.Grow(m.out[:0], len(nodes))[:len(nodes)]
	if m.s.speculation.depth > 0 {
		return m.besideFlight(ctx, nodes)
	}
	err := m.together(ctx, nodes, -1, m.s.share)
	if err != nil {
		m.lose(nodes)
	}
	return err
}

// besideFlight evaluates nodes together and waits for a flight that has begun. No further flight begins together with
// guesses from the text: it would delay the next nodes.
func (m *edge) besideFlight(ctx context.Context, nodes []draft.Node) error {
	s := m.s
	done, err := s.e.acquire(ctx)
	if err != nil {
		return err
	}
	defer done()
	guesses := m.guesses(nodes)
	running, at := flight{}, -1
	for i, n := range nodes[:len(nodes)-guesses] {
		if f, ok := s.adopt(n.Token, m.path(n.Path)); ok {
			running, at = f, i
			m.put(n, f.row.Slot)
			break
		}
	}
	switch {
	case at < 0:
		s.missFlights()
	case guesses > 0:
		s.dropFlights()
	}
	if err := m.together(ctx, nodes, at, s.e.pass); err != nil {
		if at >= 0 {
			s.dropFlights()
			running.Drop()
		}
		m.lose(nodes)
		return err
	}
	if at < 0 {
		return nil
	}
	if guesses == 0 {
		s.follow(running, m.want)
	}
	out, err := s.land(ctx, running)
	if err != nil {
		m.forget(nodes[at].ID)
		m.lose(nodes)
		return err
	}
	m.out[at] = *out
	return nil
}

// guesses counts the nodes at the end of nodes that have a parent among them.
func (m *edge) guesses(nodes []draft.Node) int {
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

// together evaluates all nodes except the one at position but in one forward call. After an error m may hold some of
// them.
func (m *edge) together(ctx context.Context, nodes []draft.Node, but int, forward forward) error {
	cache := m.s.cache
	want, rows := m.want, []backend.Row(nil)
	want.Rows = nil
	var out []backend.Output
	for i, n := range nodes {
		if i == but {
			continue
		}
		slot, err := m.s.alloc(n.Pos)
		if err != nil {
			return err
		}
		m.put(n, slot)
		want.Rows = append(want.Rows, len(rows))
		rows = append(rows, cache.Node(n.Token, slot, m.path(n.Path)...))
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

func (m *edge) lose(nodes []draft.Node) {
	for _, n := range nodes {
		if _, ok := m.slots[n.ID]; ok {
			m.Drop(n.ID)
		}
	}
}

func (m *edge) put(n draft.Node, slot int32) {
	m.slots[n.ID], m.ids[slot], m.token[n.ID] = slot, n.ID, n.Token
}

// rest waits until a forward call with the given number of rows has taken the time of the pace since begin. Timers fire
// late: if one call ends late, the next one is made shorter, so that both together take the right time.
func (m *edge) rest(ctx context.Context, begin time.Time, rows int) {
	least := time.Duration(float64(m.pace)*(1+m.row*float64(rows-1))) - m.over
	m.over = 0
	left := least - m.s.now().Sub(begin)
	if left <= 0 {
		return
	}
	_ = retry.Wait(ctx, left) // the call itself is done: the next one reports the end of ctx
	m.over = min(max(0, m.s.now().Sub(begin)-least), m.pace/2)
}

func (m *edge) path(ids []draft.ID) []int32 {
	slots := make([]int32, len(ids))
	for i, id := range ids {
		slots[i] = m.slots[id]
	}
	return slots
}

func (m *edge) Settle(path ...draft.ID) {
	slots := m.path(path)
	for _, id := range path {
		m.s.ids = append(m.s.ids, m.token[id])
		m.forget(id)
	}
	for _, move := range m.s.settle(slots...) {
		if id, ok := m.ids[move.From]; ok {
			delete(m.ids, move.From)
			m.slots[id], m.ids[move.To] = move.To, id
		}
	}
}

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

// Room implements [draft.Model]. It does not count flights: their slots are freed when needed.
func (m *edge) Room() int { return m.s.cache.Slots() - m.s.inUse() }
