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

// counter is a model that takes time for each row, and counts. Its output depends only on the tokens that a row sees in
// the KV store, which it keeps and checks.
type counter struct {
	perCall, perRow time.Duration
	vocab           int         // 0 means 40
	habit           habit       // nil: the next token is random, but fixed for a text
	broken          atomic.Bool // calls return errBroken, after their time

	kv    []cell
	calls []made
	wrong error // a row that saw wrong tokens
	rows  int   // of all calls
	left  error // cause that ended the last call
	spans int   // max number of spans of a row
	steps int   // calls that succeeded
	done  int   // rows of these calls
	of    *batch.Service
}

// checks returns the clock of the service m.of, which checks the service before every third step.
func (m *counter) checks() func() time.Time {
	return beforeSteps(func(step int) {
		if step%3 == 0 && m.wrong == nil {
			m.wrong = batch.Check(m.of)
		}
	})
}

// beforeSteps returns a clock that calls f before each step, in the goroutine of the service.
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

// cell is a slot of the store. Tokens count from 1; 0 is an empty slot.
type cell struct{ token, pos int32 }

// Values in place of a token: it is being computed, or computing it has failed.
const computed, undefined = -1, -2

// made is a call: its rows, those with the head, and the candidates wanted.
type made struct {
	rows, heads, k int
	logits         bool
}

// depth returns the max number of candidates for a row with the head.
func (m made) depth() int {
	if m.logits {
		return max(m.k, 32)
	}
	return m.k
}

// slots is an empty KV store.
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

// sees returns the tokens that a row sees, which must be at all positions up to its own.
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

// say returns the output after a text.
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
	if o.Entropy = float32(r.Float64()); want.Hidden {
		o.Hidden = []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}
	}
	return o
}

// answer returns the answer to q from an empty memory.
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

// verify adds the finding at each position, from its own head.
func (m *counter) verify(q terms.Job, s *sample.Sampler, a *batch.Answer) {
	for p := q.AuditFrom; p < len(q.Context); p++ {
		a.Audited++
		o := m.say(q.Context[:p], s.WantScores(backend.Want{K: 1}))
		d := terms.Finding{Pos: p}
		if d.Token = s.Pick(p, &o); d.Token == q.Context[p] {
			continue
		}
		d.LogProb = m.say(q.Context[:p], backend.Want{K: 1, Logits: true}).Logits[d.Token] - o.LogSumExp
		all := backend.Want{K: 1, Logits: true, Hidden: true}
		switch q.Verify {
		case terms.EachScore:
			_, d.Score, d.Stands = s.Choose(p, &o, q.Context[p])
		case terms.EachJudged:
			before, after := m.say(q.Context[:p], all), m.say(q.Context[:p+1], all)
			_, d.Score, _ = s.Choose(p, &before, q.Context[p])
			judged(&d, q.Context[p], &before, &after)
		}
		a.Audit = append(a.Audit, d)
	}
}

// right checks an answer against that from an empty memory. Reused tokens need not be audited; computed ones are
// audited, all of them if there was room.
func right(t testing.TB, want, got batch.Answer, q terms.Job, room bool) {
	t.Helper()
	if q.AuditFrom > 0 && q.Verify == terms.AsItComes {
		// the question may continue background tokens, which others computed
		if room && q.Priority == terms.Foreground {
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
	o.Judge = anyJudge
	s, err := batch.New(m, slots(n), o)
	require.NoError(t, err)
	return s
}

// seeds returns the number of random runs of a test: half with -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}

// text returns n tokens that differ from those of other kinds.
func text(kind, n int) []int32 {
	r, all := rand.New(rand.NewPCG(uint64(kind), 7)), make([]int32, n)
	for i := range all {
		all[i] = r.Int32N(40)
	}
	return all
}

// crowd runs goroutines that ask.
type crowd struct {
	t      testing.TB
	s      *batch.Service
	wait   sync.WaitGroup
	shared bool // attackers share their texts
}

// ask asks in a goroutine and passes the answer and its time to f.
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

// askExact asks in a goroutine; the answer must be that from an empty memory.
func (c *crowd) askExact(m *counter, q terms.Job) {
	c.ask(q, func(a batch.Answer, _ time.Duration, err error) {
		require.NoError(c.t, err)
		require.Equal(c.t, m.answer(c.t, q), plain(a))
	})
}

// askRight asks in a goroutine; the answer must be right, as [right] checks it.
func (c *crowd) askRight(m *counter, q terms.Job, room bool) {
	c.ask(q, func(a batch.Answer, _ time.Duration, err error) {
		require.NoError(c.t, err)
		right(c.t, m.answer(c.t, q), a, q, room)
	})
}

func (c *crowd) mustAsk(q terms.Job) batch.Answer {
	c.t.Helper()
	a, err := c.s.Ask(c.t.Context(), q)
	require.NoError(c.t, err)
	return a
}

// stats returns the statistics of the idle service: an answer is sent before its step has ended.
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
