package batch_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// model loads a small random model.
func model(t testing.TB) *transformer.Model {
	t.Helper()
	return modelOf(t, synth.Tiny)
}

// families are kinds of models: keys and values can be cut, and recurrent states cannot.
var families = map[string]func(r synth.Recipe, seed uint64) synth.Spec{"qwen2": synth.Tiny, "qwen35": synth.Tiny35}

func modelOf(t testing.TB, family func(r synth.Recipe, seed uint64) synth.Spec) *transformer.Model {
	t.Helper()
	r, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, family(r, 3).Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	d, err := host.New(host.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	m, err := transformer.Load(f, d)
	require.NoError(t, err)
	return m
}

// reference computes the answer of a question from an empty memory.
func reference(t testing.TB, m *transformer.Model, q terms.Job) batch.Answer {
	t.Helper()
	s, err := sample.New(q.Sampling)
	require.NoError(t, err)
	c, err := m.NewCache(len(q.Context), gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend(q.Context)
	require.NoError(t, err)
	want := s.Want(backend.Want{K: q.K})
	out := make([]backend.Output, len(rows))
	for i := range rows {
		want.Rows = append(want.Rows, i)
	}
	require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
	last := &out[len(out)-1]
	a := batch.Answer{Reply: terms.Reply{Token: s.Pick(len(rows), last)}}
	for _, k := range last.Top[:min(q.K, len(last.Top))] {
		a.Top = append(a.Top, terms.Candidate{ID: k.ID, LogProb: k.Logit - last.LogSumExp})
	}
	if q.AuditFrom > 0 {
		a.Audited = len(rows) - q.AuditFrom
	}
	for p := max(q.AuditFrom, 1); q.AuditFrom > 0 && p < len(rows); p++ {
		if best := out[p-1].Top[0]; best.ID != q.Context[p] {
			a.Audit = append(a.Audit,
				terms.Finding{Pos: p, Token: best.ID, LogProb: best.Logit - out[p-1].LogSumExp})
		}
	}
	return a
}

// plain returns an answer without the fields that depend on memory and time.
func plain(a batch.Answer) batch.Answer {
	a.Reused, a.Computed, a.Queue, a.Compute = 0, 0, 0, 0
	return a
}

// start starts a service with a number of slots, closed with the test.
func start(t testing.TB, m storing, slots int, o batch.Options) *batch.Service {
	t.Helper()
	kv, err := m.NewKV(slots, gguf.F16)
	require.NoError(t, err)
	o.Judge = anyJudge
	s, err := batch.New(m, kv, o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// storing is a model with its stores.
type storing interface {
	batch.Model
	NewKV(slots int, t gguf.Type) (backend.KV, error)
}

// anyJudge is a judge whose verdict depends on every bit of what it is given.
func anyJudge(before, after []float32, ratio, entropy float32) float32 {
	sum := fnv.New32a()
	for _, x := range [][]float32{before, after, {ratio, entropy, float32(len(before))}} {
		for _, v := range x {
			sum.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
		}
	}
	return float32(sum.Sum32()>>8) / (1 << 24)
}

// judged sets the scores of a finding about a token by the judge, from all logits before it and the state after it.
func judged(d *terms.Finding, token int32, before, after *backend.Output) {
	ratio := math.Exp(min(float64(before.Logits[token]-before.Logits[d.Token]), 0))
	p := anyJudge(before.Hidden, after.Hidden, float32(ratio), before.Entropy)
	d.Stands = d.Score + float32(math.Log(float64(p)))
}

// TestAnswers: an answer is that of its context alone, to the last bit, whatever else is asked before or at the same
// time, with any memory and size of steps.
func TestAnswers(t *testing.T) {
	for name, family := range families {
		t.Run(name, func(t *testing.T) { checkAnswers(t, forgetful{modelOf(t, family)}, modelOf(t, family)) })
	}
}

// forgetful drops recurrent states before each call, some more, some less.
type forgetful struct{ *transformer.Model }

func (m forgetful) Forward(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	if kv.Config().Delta.Layers > 0 {
		kv.(backend.DeltaKV).Trim(len(rows)%5, 7*len(rows)%40)
	}
	return m.Model.Forward(ctx, kv, rows, out, want)
}

func checkAnswers(t *testing.T, m forgetful, alone *transformer.Model) {
	t.Helper()
	for _, slots := range []int{40, 64, 500} {
		for _, rows := range []int{3, 50} {
			s := start(t, m, slots, batch.Options{Rows: rows, Context: 40})
			r := rand.New(rand.NewPCG(uint64(slots), uint64(rows)))
			var before [][]int32
			for range 15 {
				questions := make([]terms.Job, 1+r.IntN(6))
				for i := range questions {
					questions[i] = anyQuestion(r, before, 40, 512)
					before = append(before, questions[i].Context)
				}
				askAll(t, s, questions, r.IntN(3) == 0, func(q terms.Job, a batch.Answer) {
					right(t, reference(t, alone, q), a, q, slots == 500)
				})
			}
			s.Close() // a caller that left may leave the model running, and the model runs one call at a time
		}
	}
}

// askAll asks questions at the same time and checks the answers. If one leaves, the first caller does not wait for its
// answer.
func askAll(
	t *testing.T, s *batch.Service, questions []terms.Job, leaves bool, check func(terms.Job, batch.Answer),
) {
	answers, errs := make([]batch.Answer, len(questions)), make([]error, len(questions))
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for i, q := range questions {
		c := t.Context()
		if leaves && i == 0 {
			c = ctx
		}
		wait.Go(func() { answers[i], errs[i] = s.Ask(c, q) })
	}
	if leaves {
		runtime.Gosched()
		cancel()
	}
	wait.Wait()
	cancel()
	for i, q := range questions {
		if q.Priority != terms.Foreground && errors.Is(errs[i], batch.ErrShed) || leaves && i == 0 && errs[i] != nil {
			continue
		}
		require.NoError(t, errs[i])
		check(q, answers[i])
	}
}

// TestReuse: a context that continues or branches computes only the new tokens; a repeated one computes nothing; a
// dropped one computes all.
func TestReuse(t *testing.T) {
	m := model(t)
	s := start(t, m, 100, batch.Options{})
	ask := func(session uint64, context ...int32) int {
		q := terms.Job{Session: session, Question: terms.Question{Context: context, K: 2}}
		a, err := s.Ask(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, reference(t, m, q), plain(a))
		return a.Reused
	}
	assert.Equal(t, 0, ask(1, 5, 6, 7))
	assert.Equal(t, 3, ask(1, 5, 6, 7, 8, 9))
	assert.Equal(t, 3, ask(1, 5, 6, 7, 10), "a branch")
	assert.Equal(t, 5, ask(1, 5, 6, 7, 8, 9), "again")
	assert.Equal(t, 3, ask(2, 5, 6, 7), "another session")
	require.NoError(t, s.Forget(t.Context(), 1))
	assert.Equal(t, 3, ask(3, 5, 6, 7, 8, 9), "tokens of the second session are kept, those of only the first are gone")
	require.NoError(t, s.Forget(t.Context(), 2))
	require.NoError(t, s.Forget(t.Context(), 3))
	assert.Equal(t, 0, ask(1, 5, 6, 7))
}

// TestAudit: the positions at which the context differs from the model's choices, asked twice.
func TestAudit(t *testing.T) {
	m := model(t)
	s := start(t, m, 100, batch.Options{})
	text := []int32{5, 6, 7}
	for i := range 8 { // alternately the model's choice and another token
		a, err := s.Ask(t.Context(), terms.Job{Session: 9, Question: terms.Question{Context: text, K: 1}})
		require.NoError(t, err)
		text = append(text, (a.Token+int32(i%2))%512)
	}
	q := terms.Job{Session: 1, Question: terms.Question{Context: text, K: 1, AuditFrom: 3}}
	for range 2 {
		a, err := s.Ask(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, reference(t, m, q), plain(a))
		require.Len(t, a.Audit, 4)
		require.Equal(t, 4, a.Audit[0].Pos)
	}
}

// fake is a model that takes a second for a call, records its number of rows, and always answers 7.
type fake struct{ calls []int }

func (m *fake) Forward(
	_ context.Context, _ backend.KV, rows []backend.Row, out []backend.Output, _ backend.Want,
) error {
	m.calls = append(m.calls, len(rows))
	time.Sleep(time.Second)
	for i := range out {
		out[i].Top = []backend.Candidate{{ID: 7}}
	}
	return nil
}

// TestBatches: questions that wait while the model runs share the next call, without cancelled ones, and report how
// long they waited. In virtual time.
func TestBatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &fake{}
		s, err := batch.New(m, slots(100), batch.Options{Rows: 10})
		require.NoError(t, err)
		var wait sync.WaitGroup
		ask := func(ctx context.Context, n int, queue time.Duration) {
			wait.Go(func() {
				a, err := s.Ask(ctx, terms.Job{
					Session: uint64(n), Domain: uint64(n), Question: terms.Question{Context: make([]int32, n), K: 1},
				})
				require.Equal(t, context.Cause(ctx), err)
				if err == nil {
					assert.EqualValues(t, 7, a.Token)
					assert.Equal(t, queue, a.Queue)
					assert.Equal(t, time.Second, a.Compute)
				}
			})
			synctest.Wait()
		}
		why := errors.New("changed my mind")
		cancelled, cancel := context.WithCancelCause(t.Context())
		ask(t.Context(), 1, 0)
		time.Sleep(400 * time.Millisecond)
		ask(t.Context(), 3, 600*time.Millisecond)
		ask(cancelled, 50, 0)
		ask(t.Context(), 5, 600*time.Millisecond)
		cancel(why)
		time.Sleep(time.Second)
		ask(t.Context(), 9, 600*time.Millisecond)
		ask(t.Context(), 2, 1600*time.Millisecond) // more than 10 rows in total: in the call after
		wait.Wait()
		assert.Equal(t, []int{1, 8, 9, 2}, m.calls)
		s.Close()
	})
}

// failing is a model that fails with err, if set.
type failing struct {
	*transformer.Model
	err error
}

func (m *failing) Forward(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	if m.err != nil {
		return m.err
	}
	return m.Model.Forward(ctx, kv, rows, out, want)
}

// TestModelFails: an error of the model is returned, and leaves no partly computed tokens.
func TestModelFails(t *testing.T) {
	broken := errors.New("broken")
	m := &failing{Model: model(t), err: broken}
	kv, err := m.NewKV(100, gguf.F16)
	require.NoError(t, err)
	s, err := batch.New(m, kv, batch.Options{})
	require.NoError(t, err)
	defer s.Close()
	q := terms.Job{Session: 1, Question: terms.Question{Context: []int32{1, 2, 3}, K: 1}}
	_, err = s.Ask(t.Context(), q)
	require.ErrorIs(t, err, broken)
	m.err = nil
	a, err := s.Ask(t.Context(), q)
	require.NoError(t, err)
	assert.Zero(t, a.Reused)
	assert.Equal(t, reference(t, m.Model, q), plain(a))
}

func TestRefusals(t *testing.T) {
	m := model(t)
	before := runtime.NumGoroutine()
	s := start(t, m, 10, batch.Options{})
	for _, q := range []terms.Job{
		{Question: terms.Question{K: 1}}, {Question: terms.Question{Context: make([]int32, 11), K: 1}},
		{Question: terms.Question{Context: []int32{1}, K: -1}}, {Question: terms.Question{Context: []int32{1},
			K: 257}},
		{Question: terms.Question{Context: []int32{600}, K: 1}}, {Question: terms.Question{Context: []int32{1}, K: 1,
			Sampling: terms.Sampling{Temperature: -1}}},
	} {
		_, err := s.Ask(t.Context(), q)
		assert.Error(t, err)
	}
	_, err := s.Ask(t.Context(), terms.Job{Question: terms.Question{Context: []int32{1}, K: 1}})
	assert.NoError(t, err, "the service continues")
	s.Close()
	_, err = s.Ask(t.Context(), terms.Job{Question: terms.Question{Context: []int32{1}, K: 1}})
	assert.ErrorIs(t, err, batch.ErrClosed)
	for start := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(start), 10*time.Second, "a goroutine is leaked")
	}
}

// TestOptions: options have defaults, and invalid ones are refused.
func TestOptions(t *testing.T) {
	for _, o := range []batch.Options{{Rows: -1}, {Best: -1}, {Context: -1}, {Context: 11}} {
		_, err := batch.New(idle{}, slots(10), o)
		assert.Error(t, err, "%+v", o)
	}
	asks := func(o batch.Options, n, k int) error {
		s := service(t, &counter{vocab: 300}, 10, o)
		defer s.Close()
		_, err := s.Ask(t.Context(), terms.Job{Question: terms.Question{Context: make([]int32, n), K: k}})
		return err
	}
	assert.NoError(t, asks(batch.Options{}, 10, 256))
	assert.NoError(t, asks(batch.Options{}, 10, 0))
	assert.ErrorIs(t, asks(batch.Options{}, 11, 1), batch.ErrContext)
	assert.NoError(t, asks(batch.Options{Rows: 1, Best: 1, Context: 1}, 1, 1))
	assert.NoError(t, asks(batch.Options{Context: 10, Best: 4}, 10, 4))
	assert.EqualError(t, asks(batch.Options{Best: 4}, 1, 5), "5 candidates: 0 to 4 are possible")
	assert.ErrorIs(t, asks(batch.Options{Context: 4}, 5, 1), batch.ErrContext)
	for rows, want := range map[int]int{0: 128, 1: 1, 7: 7} {
		s := service(t, idle{}, 10, batch.Options{Rows: rows})
		assert.Equal(t, want, s.Rows())
		s.Close()
	}
}
