package batch_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// counter is a model that takes time for each row, and counts. What it says depends on nothing but the tokens that a
// row sees in the KV store, which it keeps and checks.
type counter struct {
	perCall, perRow time.Duration
	vocab           int         // 0 means 40
	habit           habit       // nil: what it says next has nothing to do with what was
	broken          atomic.Bool // calls return errBroken, after their time

	kv    []cell
	calls []made
	wrong error // a row that saw what it should not
	rows  int   // of all calls
	left  error // why the last call was left
	spans int   // most that a row saw
	steps int   // calls that succeeded
	done  int   // rows of these
	of    *batch.Service
}

// checks is the clock of the service m.of, which is checked before every third step.
func (m *counter) checks() func() time.Time {
	return beforeSteps(func(step int) {
		if step%3 == 0 && m.wrong == nil {
			m.wrong = batch.Check(m.of)
		}
	})
}

// beforeSteps is a clock that calls f before each step, in the goroutine of the service.
func beforeSteps(f func(step int)) func() time.Time {
	steps := 0
	return func() time.Time {
		if caller, _, _, _ := runtime.Caller(1); strings.Contains(runtime.FuncForPC(caller).Name(), ".plan") {
			steps++
			f(steps)
		}
		return time.Now()
	}
}

var errBroken = errors.New("broken")

// cell is a slot of the store. Tokens count from 1: 0 means that there is nothing.
type cell struct{ token, pos int32 }

// Instead of a token: it is being computed, or its computing has failed.
const computed, undefined = -1, -2

// made is a call: its rows, those with the head, and what was wanted.
type made struct {
	rows, heads, k int
	logits         bool
}

// depth is what the head of one of its rows costs.
func (m made) depth() int {
	if m.logits {
		return max(m.k, 32)
	}
	return m.k
}

// slots is a KV store that holds nothing.
type slots int

func (s slots) Config() backend.KVConfig { return backend.KVConfig{Slots: int(s)} }
func (s slots) Bytes() int64             { return 0 }
func (s slots) Copy(_, _ int32)          {}
func (s slots) Swap(_, _ int32)          {}
func (s slots) Read(int, int, []byte)    {}
func (s slots) Write(int, int, []byte)   {}

// Forward implements [batch.Model].
func (m *counter) Forward(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	if m.kv == nil {
		m.kv = make([]cell, kv.Config().Slots)
	}
	m.calls = append(m.calls, made{len(rows), len(want.Rows), want.K, want.Logits})
	m.rows += len(rows)
	for _, r := range rows {
		if m.kv[r.Slot].token == computed {
			m.wrong = fmt.Errorf("slot %d has two tokens in one call", r.Slot)
		}
		m.kv[r.Slot] = cell{token: computed}
	}
	defer m.leave(rows)
	select {
	case <-time.After(m.perCall + time.Duration(len(rows))*m.perRow):
	case <-ctx.Done():
		m.left = context.Cause(ctx)
		return m.left
	}
	if m.broken.Load() {
		return errBroken
	}
	m.steps, m.done = m.steps+1, m.done+len(rows)
	for _, r := range rows {
		m.kv[r.Slot] = cell{r.Token + 1, r.Pos}
	}
	for i, r := range rows {
		text := m.sees(r)
		if n := slices.Index(want.Rows, i); n >= 0 {
			out[n] = m.say(text, want)
		}
	}
	return nil
}

// leave marks the slots of rows that were not computed.
func (m *counter) leave(rows []backend.Row) {
	for _, r := range rows {
		if m.kv[r.Slot].token == computed {
			m.kv[r.Slot].token = undefined
		}
	}
}

// sees returns the tokens that a row sees, which must be those of all positions up to its own.
func (m *counter) sees(r backend.Row) (text []int32) {
	m.spans = max(m.spans, len(r.See))
	for _, s := range r.See {
		for _, c := range m.kv[s.From:s.To] {
			if c.token < 1 || int(c.pos) != len(text) {
				m.wrong = fmt.Errorf("token %d at %d sees %+v at %d", r.Token, r.Pos, c, len(text))
			}
			text = append(text, c.token-1)
		}
	}
	if len(text) != int(r.Pos)+1 || text[r.Pos] != r.Token {
		m.wrong = fmt.Errorf("token %d at %d sees %d tokens", r.Token, r.Pos, len(text))
	}
	return text
}

// say is what follows a text.
func (m *counter) say(text []int32, want backend.Want) (o backend.Output) {
	sum64 := fnv.New64a()
	for _, token := range text {
		sum64.Write([]byte{byte(token), byte(token >> 8)})
	}
	r := rand.New(rand.NewPCG(sum64.Sum64(), 0))
	sum, logits := 0.0, make([]float32, cmp.Or(m.vocab, 40))
	likely := -1
	if m.habit != nil {
		likely = int(m.habit(text))
	}
	for i := range logits {
		if logits[i] = float32(r.NormFloat64()); i == likely {
			logits[i] += 8
		}
		sum += math.Exp(float64(logits[i]))
		o.Top = append(o.Top, backend.Candidate{ID: int32(i), Logit: logits[i]})
	}
	slices.SortFunc(o.Top, func(a, b backend.Candidate) int { return cmp.Compare(b.Logit, a.Logit) })
	o.Top, o.LogSumExp = o.Top[:min(want.K, len(o.Top))], float32(math.Log(sum))
	if want.Logits {
		o.Logits = logits
	}
	return o
}

// answer is the answer to q if nothing is in memory.
func (m *counter) answer(t testing.TB, q terms.Job) batch.Answer {
	s, err := sample.New(q.Sampling)
	require.NoError(t, err)
	last := m.say(q.Context, s.Want(backend.Want{K: q.K}))
	a := batch.Answer{Reply: terms.Reply{Token: s.Pick(len(q.Context), &last)}}
	for _, c := range last.Top[:min(q.K, len(last.Top))] {
		a.Top = append(a.Top, terms.Candidate{ID: c.ID, LogProb: c.Logit - last.LogSumExp})
	}
	if q.Verify != terms.AsItComes {
		m.verify(q, s, &a)
		return a
	}
	for p := q.AuditFrom; p > 0 && p < len(q.Context); p++ {
		a.Audited++
		if o := m.say(q.Context[:p], backend.Want{K: 1}); o.Top[0].ID != q.Context[p] {
			a.Audit = append(a.Audit,
				terms.Finding{Pos: p, Token: o.Top[0].ID, LogProb: o.Top[0].Logit - o.LogSumExp})
		}
	}
	return a
}

// verify adds the verdict on each position, from its own head.
func (m *counter) verify(q terms.Job, s *sample.Sampler, a *batch.Answer) {
	for p := q.AuditFrom; p < len(q.Context); p++ {
		a.Audited++
		o := m.say(q.Context[:p], s.WantScores(backend.Want{K: 1}))
		d := terms.Finding{Pos: p}
		if d.Token = s.Pick(p, &o); d.Token == q.Context[p] {
			continue
		}
		d.LogProb = m.say(q.Context[:p], backend.Want{K: 1, Logits: true}).Logits[d.Token] - o.LogSumExp
		if q.Verify == terms.EachScore {
			_, d.Score, d.Stands = s.Choose(p, &o, q.Context[p])
		}
		a.Audit = append(a.Audit, d)
	}
}

// right checks an answer against that of nothing in memory. What was in memory may not be audited; what was computed
// is, all of it if there was room.
func right(t testing.TB, want, got batch.Answer, q terms.Job, room bool) {
	t.Helper()
	if q.AuditFrom > 0 && q.Verify == terms.AsItComes {
		if room && q.Priority == terms.Foreground { // others may compute what a background question goes on with
			assert.GreaterOrEqual(t, got.Audited, min(want.Audited, len(q.Context)-1-got.Reused), "%+v", q)
		}
		from := len(q.Context) - got.Audited
		want.Audited = got.Audited
		want.Audit = slices.DeleteFunc(want.Audit, func(d terms.Finding) bool { return d.Pos < from })
		if len(want.Audit) == 0 {
			want.Audit = nil
		}
	}
	require.Equal(t, want, plain(got), "%+v", q)
}

// service starts a service over m.
func service(t testing.TB, m batch.Model, n int, o batch.Options) *batch.Service {
	t.Helper()
	s, err := batch.New(m, slots(n), o)
	require.NoError(t, err)
	return s
}

// seeds is how many random runs a test makes: half with -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}

// text is n tokens that differ from those of other kinds.
func text(kind, n int) []int32 {
	r, all := rand.New(rand.NewPCG(uint64(kind), 7)), make([]int32, n)
	for i := range all {
		all[i] = r.Int32N(40)
	}
	return all
}

// crowd is goroutines that ask.
type crowd struct {
	t     testing.TB
	s     *batch.Service
	wait  sync.WaitGroup
	alike bool // attackers share what they ask about
}

// ask asks in a goroutine and hands on the answer and how long it took.
func (c *crowd) ask(q terms.Job, f func(a batch.Answer, took time.Duration, err error)) {
	c.wait.Go(func() {
		begin := time.Now()
		a, err := c.s.Ask(c.t.Context(), q)
		if errors.Is(err, context.Canceled) && c.t.Context().Err() != nil {
			return
		}
		f(a, time.Since(begin), err)
	})
}

func (c *crowd) mustAsk(q terms.Job) batch.Answer {
	c.t.Helper()
	a, err := c.s.Ask(c.t.Context(), q)
	require.NoError(c.t, err)
	return a
}

// stats is what the service says of itself when it has done what it can: an answer comes before the step has ended.
func (c *crowd) stats() batch.Stats {
	synctest.Wait()
	return c.s.Stats()
}

// idle is a model that does nothing.
type idle struct{}

// Forward implements [batch.Model].
func (idle) Forward(_ context.Context, _ backend.KV, _ []backend.Row, out []backend.Output, _ backend.Want) error {
	for i := range out {
		out[i].Top = []backend.Candidate{{ID: 7}}
	}
	return nil
}

// when returns a priority if yes, else [terms.Foreground].
func when(yes bool, p terms.Priority) terms.Priority {
	if yes {
		return p
	}
	return terms.Foreground
}
