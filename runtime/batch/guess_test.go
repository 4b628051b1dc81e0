package batch_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// habit returns the likely next token after a text.
type habit func(text []int32) int32

// periodic repeats a period, and deviates at one of slips tokens; 0: never.
func periodic(slips int) habit {
	return func(text []int32) int32 {
		period, sum := 3+int(text[0])%5, 0
		for i, token := range text {
			sum += (i + 1) * int(token)
		}
		if len(text) < period || slips > 0 && sum%slips == 0 {
			return int32(sum % 40)
		}
		return text[len(text)-period]
	}
}

// watched is a counter that checks who waits while a call with guesses runs.
type watched struct {
	*counter
	context int       // max tokens of a text
	maxRows int       // max rows of a call with guesses
	guessed int       // rows with guesses in calls that succeeded
	seen    [256]bool // numbers of rows of calls with guesses
	largest int       // the max of them
}

// Forward implements [batch.Model].
func (w *watched) Forward(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	guesses, devices := batch.Waits(w.of)
	if guesses > 0 && (devices > 0 || len(rows) > w.maxRows || guesses == len(rows) || want.Logits) {
		w.wrong = fmt.Errorf("%d of %d rows are guesses, and %d devices wait (all logits: %v)",
			guesses, len(rows), devices, want.Logits)
	}
	for _, r := range rows {
		if int(r.Pos) >= w.context {
			w.wrong = fmt.Errorf("a row at %d, but contexts end at %d", r.Pos, w.context)
		}
	}
	if guesses > 0 && (!w.seen[len(rows)-guesses] || len(rows) > 2*w.largest) {
		w.wrong = fmt.Errorf("%d of %d rows are guesses: their cost is unknown", guesses, len(rows))
	}
	err := w.counter.Forward(ctx, kv, rows, out, want)
	if err == nil {
		w.guessed += guesses
		w.seen[len(rows)] = true
		if len(rows) <= 8 {
			w.largest = max(w.largest, len(rows))
		}
	}
	return err
}

// cheap returns a watched model with a low cost per additional row.
func cheap(slips, maxRows int) *watched {
	m := &counter{perCall: 20 * tick, perRow: tick, habit: periodic(slips)}
	return &watched{counter: m, maxRows: maxRows}
}

// over starts a service with a number of slots over w.
func (w *watched) over(t testing.TB, slots int, o batch.Options) *crowd {
	o.Now, w.context = w.checks(), cmp.Or(o.Context, slots)
	w.of = service(t, w, slots, o)
	return &crowd{t: t, s: w.of}
}

// cheapBubble runs a test in virtual time, with a service over a cheap model that repeats itself.
func cheapBubble(t *testing.T, slots int, o batch.Options, f func(t *testing.T, c *crowd, m *watched)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		m := cheap(0, 8)
		c := m.over(t, slots, o)
		defer c.s.Close()
		f(t, c, m)
	})
}

// rest checks the service when no question waits.
func (w *watched) rest(t testing.TB) {
	t.Helper()
	synctest.Wait()
	require.NoError(t, w.wrong)
	require.NoError(t, batch.CheckAtRest(w.of))
	st := w.of.Stats()
	require.EqualValues(t, w.guessed, st.Guessed)
	require.EqualValues(t, w.done, st.Computed)
	require.LessOrEqual(t, st.Accepted, st.Guessed)
}

// stream asks for n tokens, one after the other, and returns the whole text.
func (c *crowd) stream(q terms.Job, n int) []int32 {
	for range n {
		q.Context = append(q.Context, c.mustAsk(q).Token)
	}
	return q.Context
}

// anySampling returns greedy decoding, or sampling from a few or from all tokens.
func anySampling(r *rand.Rand) terms.Sampling {
	return []terms.Sampling{
		{}, {}, {Temperature: 0.7, TopK: 1 + r.IntN(12), Seed: r.Uint64()}, {Temperature: 0.5, Seed: r.Uint64()},
	}[r.IntN(4)]
}

// TestStreams: sessions write texts token by token, concurrently, with any memory and size of steps, with errors of the
// model and callers that leave: each answer is that of its context alone, and guesses take no time or memory from
// questions. In virtual time.
func TestStreams(t *testing.T) {
	var held uint64
	for seed := range seeds(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		room, rows := []int{61, 100, 150, 1000}[r.IntN(4)], []int{1, 3, 8, 50}[r.IntN(4)]
		t.Run(fmt.Sprint(seed, " ", room, " slots ", rows, " rows"), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { held += streams(t, r, room, rows) })
		})
	}
	assert.Greater(t, held, 8*seeds(40), "guesses that questions used")
}

func streams(t *testing.T, r *rand.Rand, room, rows int) (held uint64) {
	lookup := []int{0, 0, 2, 4, 8}[r.IntN(5)]
	m := cheap([]int{0, 5, 20}[r.IntN(3)], 8)
	if lookup > 0 {
		m.maxRows = lookup
	}
	c := m.over(t, room, batch.Options{Rows: rows, Context: 60, Lookup: lookup})
	for i := range 1 + r.IntN(5) {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		c.wait.Go(func() { writer(c, m, own, uint64(i)) })
	}
	c.wait.Wait()
	m.rest(t)
	for session := range uint64(5) {
		require.NoError(t, c.s.Forget(t.Context(), session))
	}
	m.rest(t)
	st := c.s.Stats()
	assert.Zero(t, st.InUse, "tokens in use")
	assert.Zero(t, st.Sessions, "sessions")
	c.s.Close()
	return st.Accepted
}

// writer writes texts token by token; now and then it ends a stream or does something similar to it.
func writer(c *crowd, m *watched, r *rand.Rand, session uint64) {
	q := terms.Job{Session: session, Client: session % 2, Device: session % 6,
		Question: terms.Question{K: []int{1, 3, 9, 40}[r.IntN(4)]}}
	for n := range 100 {
		if len(q.Context) == 0 || len(q.Context) > 60 {
			q.Sampling = anySampling(r)
			q.Context = text(int(r.Int32N(5)), 5+r.IntN(10)) // other texts share a prefix
		}
		if q.AuditFrom = 0; r.IntN(4) == 0 {
			q.AuditFrom = 1 + r.IntN(len(q.Context))
		}
		a, ok := tries(c, m, r, q)
		if !ok {
			continue
		}
		switch r.IntN(80) {
		case 0:
			q.Context = append(slices.Clip(q.Context), r.Int32N(40)) // a token that no other text has
		case 1:
			q.Context = slices.Clone(q.Context[:1+r.IntN(len(q.Context))])
		case 2:
			assert.NoError(c.t, c.s.Forget(c.t.Context(), session))
		case 3:
			ahead := q
			ahead.Context = append(slices.Clip(q.Context), a.Token)[:min(60, len(q.Context)+1)]
			ahead.Priority = terms.Background
			c.ask(ahead, func(_ batch.Answer, _ time.Duration, err error) {
				if !errors.Is(err, errBroken) && !errors.Is(err, batch.ErrShed) {
					assert.NoError(c.t, err)
				}
			})
		case 4:
			q.K = []int{1, 3, 9, 40}[r.IntN(4)]
		case 5:
			time.Sleep(time.Duration(r.IntN(200)) * tick)
		case 6: // the same question again, concurrently
			c.ask(q, func(_ batch.Answer, _ time.Duration, err error) {
				if !errors.Is(err, errBroken) {
					assert.NoError(c.t, err)
				}
			})
		case 7:
			if n%2 == 0 {
				m.broken.Store(true)
				time.AfterFunc(30*tick, func() { m.broken.Store(false) })
			}
		default:
			q.Context = append(q.Context, a.Token)
		}
	}
}

// tries asks, perhaps not until there is an answer, and checks the answer.
func tries(c *crowd, m *watched, r *rand.Rand, q terms.Job) (batch.Answer, bool) {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	if r.IntN(15) == 0 {
		time.AfterFunc(time.Duration(r.IntN(40))*tick, cancel)
	}
	q.Context = slices.Clone(q.Context)
	a, err := c.s.Ask(ctx, q)
	if err != nil {
		assert.True(c.t, errors.Is(err, errBroken) || errors.Is(err, context.Canceled), "%v", err)
		return a, false
	}
	right(c.t, m.answer(c.t, q), a, q, false)
	return a, true
}

// TestGuessesChangeNothing: sequential questions have the same answers, audits and evictions with and without guesses,
// for any memory. The same tokens are kept, and additional reused tokens are guesses.
func TestGuessesChangeNothing(t *testing.T) {
	racing.Spare(t)
	var held, evicted uint64
	for seed := range seeds(12) {
		bubble.Test(t, func(t *testing.T) {
			on := turnabout(t, seed, 0)
			off := turnabout(t, seed, -1)
			require.Equal(t, off.answers, on.answers)
			a, b := on.stats, off.stats
			assert.Zero(t, b.Guessed, "guessed")
			assert.Zero(t, b.Accepted, "held")
			assert.Equal(t, b.Reused+a.Accepted, a.Reused, "reused")
			assert.Equal(t, b.InUse+on.guesses, a.InUse, "in use")
			assert.Equal(t, b.Computed+a.Guessed-a.Accepted, a.Computed, "computed")
			assert.LessOrEqual(t, a.Steps, b.Steps)
			assert.Equal(t, b.Evicted, a.Evicted, "evicted")
			assert.Equal(t, b.Recomputed, a.Recomputed, "recomputed")
			assert.Equal(t, b.Shed, a.Shed, "shed")
			assert.Equal(t, b.Sessions, a.Sessions, "sessions")
			held, evicted = held+a.Accepted, evicted+a.Evicted
		})
	}
	if !testing.Short() { // the first seeds alone evict nothing
		assert.Greater(t, held, 15*seeds(12))
		assert.Greater(t, evicted, 15*seeds(12))
	}
}

// outcome is the result of a run.
type outcome struct {
	answers []batch.Answer
	stats   batch.Stats
	guesses int
}

// turnabout has several sessions ask in turn, most of them in streams.
func turnabout(t *testing.T, seed uint64, lookup int) (o outcome) {
	r := rand.New(rand.NewPCG(seed, 6))
	m := cheap([]int{0, 6, 25}[r.IntN(3)], 8)
	c := m.over(t, []int{80, 120, 200, 800}[r.IntN(4)], batch.Options{Context: 70, Lookup: lookup})
	defer c.s.Close()
	texts, k := make([][]int32, 4), 1+r.IntN(3)
	for range 90 {
		session := r.IntN(len(texts))
		if r.IntN(5) == 0 { // there is room, and other sessions have lost theirs
			require.NoError(t, c.s.Forget(t.Context(), uint64(r.IntN(len(texts)))))
		}
		for range 1 + r.IntN(25) {
			q := terms.Job{Session: uint64(session), Device: uint64(session % 2),
				Question: terms.Question{K: k, AuditFrom: r.IntN(20)}}
			if len(texts[session]) == 0 || len(texts[session]) > 65 || r.IntN(60) == 0 {
				texts[session] = text(session+4*r.IntN(2), 4+20*r.IntN(3))
			}
			q.Context, q.Priority = texts[session], when(r.IntN(30) == 0, terms.Background)
			a, err := c.s.Ask(t.Context(), q)
			if q.Priority == terms.Background && errors.Is(err, batch.ErrShed) {
				continue
			}
			require.NoError(t, err)
			o.answers = append(o.answers, plain(a))
			if r.IntN(40) == 0 {
				a.Token = r.Int32N(40)
			}
			texts[session] = append(slices.Clip(texts[session]), a.Token)
		}
	}
	m.rest(t)
	o.stats = c.s.Stats()
	_, o.guesses = batch.Streams(c.s)
	return o
}

// TestStreamOfRepeats: a repetitive text takes at most a call for two questions, greedy or sampled, with one or several
// devices, and the device pays for each row once.
func TestStreamOfRepeats(t *testing.T) {
	for _, sampling := range []terms.Sampling{{}, {Temperature: 0.3, TopK: 10, Seed: 3}} {
		for _, devices := range []int{1, 3} {
			cheapBubble(t, 2000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
				for i := range devices {
					c.wait.Go(func() {
						q := terms.Job{
							Session: uint64(i), Device: uint64(i),
							Question: terms.Question{Context: text(i, 10), K: 1, Sampling: sampling},
						}
						c.stream(q, 200)
					})
				}
				c.wait.Wait()
				m.rest(t)
				assert.LessOrEqual(t, len(m.calls), 200*devices/2, "%d devices, %d rows", devices, m.rows)
				if devices == 1 && sampling.Greedy() {
					assert.EqualValues(t, 4*9+5*(m.rows-9), batch.Tag(c.s, 0), "the head runs for all rows except 9")
				}
			})
		}
	}
}

// TestAskedAgain: a stream continues if its questions are repeated, as after a lost answer or an error of the model.
func TestAskedAgain(t *testing.T) {
	for _, fails := range []bool{false, true} {
		cheapBubble(t, 2000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
			q, failed := terms.Job{Session: 1, Question: terms.Question{Context: text(1, 10), K: 1}}, 0
			for i := range 200 {
				m.broken.Store(fails && i%9 == 4)
				a, err := c.s.Ask(t.Context(), q)
				if m.broken.Store(false); err != nil {
					failed++
					before := q // as if the previous question had no answer either
					before.Context = q.Context[:len(q.Context)-failed%2]
					c.mustAsk(before)
					a = c.mustAsk(q)
				}
				require.Equal(t, a.Token, c.mustAsk(q).Token)
				q.Context = append(q.Context, a.Token)
			}
			m.rest(t)
			assert.Equal(t, fails, failed > 0)
			assert.Equal(t, 209, batch.Indexed(c.s, 1))
			assert.LessOrEqual(t, m.steps, 100)
			assert.Greater(t, 4*c.stats().Accepted, 3*c.stats().Guessed)
		})
	}
}

// TestTogether: a question that arrives twice in a step has guesses once.
func TestTogether(t *testing.T) {
	cheapBubble(t, 2000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
		q := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 10), K: 1}}
		q.Context = c.stream(q, 20)
		for i := range 40 {
			c.ask(terms.Job{Session: 100 + uint64(i), Device: 99, Question: terms.Question{Context: text(i, 1), K: 1}},
				func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
			synctest.Wait() // others gather during this call
			for device := range uint64(2) {
				again := q
				again.Device = device
				c.ask(again, func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
			}
			c.wait.Wait()
			q.Context = append(q.Context, c.mustAsk(q).Token)
		}
		m.rest(t)
		assert.Greater(t, c.stats().Accepted, uint64(10))
	})
}

// TestGuessesAreSoon: a question that hits a guess is answered at once, also while others compute.
func TestGuessesAreSoon(t *testing.T) {
	cheapBubble(t, 2000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
		q := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 10), K: 1}}
		at := 0 // existing guesses
		for range 200 {
			begin := time.Now()
			a := c.mustAsk(q)
			if at > 0 {
				require.Zero(t, time.Since(begin))
				require.Equal(t, len(q.Context), a.Reused)
			}
			synctest.Wait()
			_, at = batch.Streams(c.s)
			q.Context = append(q.Context, a.Token)
			if len(q.Context) == 200 {
				break
			}
		}
		for at == 0 {
			q.Context = append(q.Context, c.mustAsk(q).Token)
			synctest.Wait()
			_, at = batch.Streams(c.s)
		}
		c.ask(terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(2, 100), K: 1}},
			func(_ batch.Answer, took time.Duration, err error) { assert.NoError(t, err) })
		time.Sleep(tick) // two others arrive during this call
		c.ask(q, func(_ batch.Answer, took time.Duration, err error) {
			assert.NoError(t, err)
			assert.Equal(t, 119*tick, took, "after the end of that step")
		})
		c.ask(terms.Job{Session: 3, Device: 3, Question: terms.Question{Context: text(3, 10), K: 1}},
			func(_ batch.Answer, took time.Duration, err error) {
				assert.NoError(t, err)
				assert.Equal(t, 149*tick, took)
			})
		c.wait.Wait()
		m.rest(t)
	})
}

// TestTextWithoutRepeats: if guesses are rejected, guessing stops, and starts again when the text begins to repeat.
// Without matches there are never guesses.
func TestTextWithoutRepeats(t *testing.T) {
	racing.Spare(t)
	for _, vocab := range []int{40, 2000} {
		bubble.Test(t, func(t *testing.T) { withoutRepeats(t, vocab) })
	}
}

func withoutRepeats(t *testing.T, vocab int) {
	m := cheap(0, 8)
	repeat := m.habit
	m.habit, m.vocab = nil, vocab
	c := m.over(t, 3000, batch.Options{})
	defer c.s.Close()
	q := terms.Job{Session: 1, Question: terms.Question{Context: text(1, 100), K: 1}}
	q.Context = c.stream(q, 150)
	before := c.stats()
	q.Context = c.stream(q, 400)
	after := c.stats()
	if assert.EqualValues(t, 400, after.Steps-before.Steps); vocab > 40 {
		assert.Zero(t, after.Guessed)
	}
	assert.Less(t, before.Guessed, uint64(30))
	assert.Less(t, after.Guessed-before.Guessed, uint64(60), "matches of three tokens, which are rare")
	synctest.Wait()
	m.habit = repeat
	q.Context = c.stream(q, 200)
	assert.Greater(t, c.stats().Accepted, after.Accepted+100)
	m.rest(t)
}

// TestDearRows: if a row costs as much as a call, guessing soon stops.
func TestDearRows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := cheap(0, 8)
		m.perCall = 0
		c := m.over(t, 3000, batch.Options{})
		defer c.s.Close()
		c.stream(terms.Job{Session: 1, Question: terms.Question{Context: text(1, 10), K: 1}}, 300)
		assert.Less(t, c.stats().Guessed, uint64(30))
		m.rest(t)
	})
}

// TestLookupOption: invalid values are refused, and a number limits the rows.
func TestLookupOption(t *testing.T) {
	for _, n := range []int{1, 9, 1000} {
		_, err := batch.New(idle{}, slots(10), batch.Options{Lookup: n})
		assert.ErrorContains(t, err, "lookup")
	}
	for lookup, maxRows := range map[int]int{-1: 1, 2: 2, 3: 3, 8: 8, 0: 8} {
		bubble.Test(t, func(t *testing.T) {
			m := cheap(0, maxRows)
			c := m.over(t, 3000, batch.Options{Lookup: lookup})
			defer c.s.Close()
			c.mustAsk(terms.Job{Session: 1, Question: terms.Question{Context: text(1, 10), K: 1}})
			m.calls = nil
			c.stream(terms.Job{Session: 1, Question: terms.Question{Context: text(1, 10), K: 1}}, 200)
			rows := 0
			for _, call := range m.calls {
				rows = max(rows, call.rows)
			}
			assert.Equal(t, maxRows, rows, "lookup %d", lookup)
			m.rest(t)
		})
	}
}
