package draft

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// timed is a small and a large model with times that depend on the call, and either clock.
type timed struct {
	fakeModel
	seed  uint64
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration)
	run   func(f func())
}

// inBubble returns models that wait in the time of synctest.
func inBubble(seed uint64) *timed {
	return &timed{
		seed: seed, now: time.Now, run: func(f func()) { go f() },
		sleep: func(ctx context.Context, d time.Duration) { _ = sleep(ctx, d) },
	}
}

// bySimulation returns models that wait by the clock of a simulation.
func bySimulation(c *simclock.Clock, seed uint64) *timed {
	return &timed{
		seed: seed, now: c.Now, run: c.Go,
		sleep: func(ctx context.Context, d time.Duration) { c.Sleep(d, func() bool { return ctx.Err() != nil }) },
	}
}

// draw returns a number below n that depends only on its arguments.
func (m *timed) draw(n int, what ...int) int {
	h := m.seed
	for _, w := range what {
		h = rand.New(rand.NewPCG(h, uint64(w))).Uint64()
	}
	return rand.New(rand.NewPCG(h, 99)).IntN(n)
}

// some returns a unique time up to 100 ms, so that no two events are simultaneous.
func (m *timed) some(what ...int) time.Duration {
	return time.Duration(m.draw(100e6, what...)) + time.Duration(1+m.draw(1e6, append(what, 1)...))
}

// text returns a number for a text.
func (m *timed) text(ids []int32) (n int) {
	for _, id := range ids {
		n = 31*n + int(id)
	}
	return n
}

func (m *timed) head(pos int) (out backend.Output) {
	for i := range int32(3) {
		out.Top = append(out.Top, backend.Candidate{ID: int32(m.draw(1000, pos, 2)) + i, Logit: -float32(i) - 1})
	}
	return out
}

func (m *timed) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	m.settled, m.nodes = len(prompt), map[ID]Node{}
	m.sleep(ctx, m.some(3))
	return m.head(len(prompt)), nil
}

func (m *timed) Extend(ctx context.Context, nodes []Node) (out []backend.Output, err error) {
	m.sleep(ctx, m.some(nodes[0].Pos, len(nodes), 4)/4)
	for _, n := range nodes {
		m.nodes[n.ID] = n
		out = append(out, m.head(n.Pos+1))
	}
	return out, nil
}

func (m *timed) Decide(path uint64, pos int, _ *backend.Output) (float32, bool, uint64) {
	return 0.5, m.draw(4, pos, 5) == 0, path
}

func (m *timed) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	m.sleep(ctx, m.some(len(text), 6))
	return len(text), 1, ctx.Err()
}

func (m *timed) Ask(ctx context.Context, q Question) (a Answer, err error) {
	pos := len(q.Context)
	text := m.text(q.Context)
	if m.sleep(ctx, m.some(text, 7)); ctx.Err() != nil {
		return a, context.Cause(ctx)
	}
	if m.draw(9, pos, 8) == 0 {
		return a, errors.New("refused")
	}
	a = Answer{BytesUp: pos, BytesDown: 3,
		Reply: terms.Reply{Token: m.head(pos).Top[m.draw(3, pos, 9)].ID, Queue: 1, Compute: 2}}
	if q.Ahead > 0 {
		tokens := make(chan int32, q.Ahead)
		a.Ahead = tokens
		m.run(func() {
			defer close(tokens)
			for i := range q.Ahead {
				if m.sleep(ctx, m.some(text, i, 10)/8); ctx.Err() != nil {
					return
				}
				tokens <- m.head(pos + 1 + i).Top[m.draw(3, pos+1+i, 9)].ID
			}
		})
	}
	return a, nil
}

// events decodes a text and returns its events.
func (m *timed) events(t *testing.T, o Options) (all []string) {
	m.slots = 1000
	d, err := New(m, m, m, o)
	require.NoError(t, err)
	began := m.now()
	_, err = d.Decode(context.Background(), []int32{1, 2, 3}, func(e Event) bool {
		require.Equal(t, 1, pointers(e), "one pointer of an event is set")
		// at a deadline the decoder and the ask wake up at the same time, in any order
		if e.Token != nil || o.Deadline < 0 {
			all = append(all, describe(e))
		}
		return true
	})
	require.NoError(t, err)
	return append(all, fmt.Sprint(m.now().Sub(began)))
}

// pointers returns the number of pointers of an event that are set.
func pointers(e Event) (set int) {
	for _, v := range reflect.ValueOf(e).Fields() {
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			set++
		}
	}
	return set
}

// describe formats an event without pointers. A question that is cancelled, because it is dropped or tokens ahead have
// its answer, returns at once, or during the decoder's next step.
func describe(e Event) string {
	if a := e.Escalation; a != nil && (a.Outcome == Dropped || a.ByAhead) {
		e.At = 0
	}
	return fmt.Sprintf("%v %+v %+v %+v %+v %+v %+v %+v %+v", e.At, e.Token, e.Escalation, e.Warming, e.Pass, e.Ahead,
		e.Prompt, e.Waited, e.Rollback)
}

// TestClock: all events of a simulation occur at the same times as in virtual time of synctest.
func TestClock(t *testing.T) {
	schedules := 400
	if testing.Short() {
		schedules = 60
	}
	for seed := range uint64(schedules) {
		r := rand.New(rand.NewPCG(seed, 0))
		o := Options{
			Mode: Mode(r.IntN(2)), Branches: 1 + r.IntN(3), Window: 1 + r.IntN(12), InFlight: 1 + r.IntN(4), Lookup: -1,
			MaxTokens: 1 + r.IntN(40), Ahead: 1 + 6*r.IntN(2), Trace: true,
			Deadline: []time.Duration{-1, 20 * ms, 70 * ms}[r.IntN(3)],
		}
		var want, got []string
		bubble.Test(t, func(t *testing.T) { want = inBubble(seed).events(t, o) })
		c := simclock.New(time.Unix(1e9, 0))
		o.Clock = c
		c.Run(func() { got = bySimulation(c, seed).events(t, o) })
		slices.Sort(want) // dropped questions return in any order
		slices.Sort(got)
		for i := range min(len(want), len(got)) {
			require.Equal(t, want[i], got[i], "schedule %d: %+v", seed, o)
		}
		require.Len(t, got, len(want), "schedule %d", seed)
	}
	assert.Positive(t, schedules)
}
