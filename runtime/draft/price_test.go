package draft

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// rising returns a curve for a number of rows; each additional row costs a share of a call.
func rising(rows int, share float64) (curve []float64) {
	for r := range rows {
		curve = append(curve, 1+share*float64(r))
	}
	return curve
}

// TestWorth: cases computed by hand.
func TestWorth(t *testing.T) {
	inf := math.Inf(1)
	some := []float64{0.5, 0.2, 0.1, 0.05, 0.02}
	for name, c := range map[string]struct {
		price
		others, guesses []float64
		want            int
	}{
		"rows are free":                   {price{rising(8, 0), 10, 32, 1000, inf, 1}, nil, some, 5},
		"a row for a call":                {price{rising(8, 1), 1000, 2000, 1e6, inf, 1}, nil, some, 1},
		"drafting ends before the answer": {price{rising(8, 1), 1000, 32, 1e6, inf, 1}, nil, some, 5},
		"room for the window of three":    {price{rising(8, 0), inf, 30, 90, inf, 1}, nil, some, 3},
		"no room yet":                     {price{rising(8, 0), inf, 30, 0, inf, 1}, nil, some, 5},
		"nothing follows":                 {price{rising(8, 1), 10, 0, 1000, inf, 1}, nil, some, 5},
		"no rows yet for more than three": {price{rising(3, 0), 10, 32, 1000, inf, 1}, nil, some, 5},
		"nor for more than one":           {price{rising(3, 0), 10, 32, 1000, inf, 1}, []float64{0.9, 0.8}, some, 5},
		"rows for three are costly":       {price{rising(3, 1), 1000, 2000, 1e6, inf, 1}, []float64{0.9}, some, 1},
		"others that are less likely go last": {
			price{rising(2, 0.5), 1000, 2000, 1e6, inf, 1}, []float64{0.01}, some, 5,
		},
		// 0.5·(1000/1+½) - ½ = 499.75, 0.7·(1000/1.3+½) - 0.65 = 538.2, 0.8·(1000/1.6+½) - 0.8 = 499.6
		"a row for 0.3 of a call": {price{rising(8, 0.3), 1000, 2000, 1e6, inf, 1}, nil, some, 2},
		// (0.7/1.5 = 0.467) < 0.5 < (0.7/1.39 = 0.504)
		"a row for half a call":    {price{rising(8, 0.5), 1000, 2000, 1e6, inf, 1}, nil, some, 1},
		"a row for 0.39 of a call": {price{rising(8, 0.39), 1000, 2000, 1e6, inf, 1}, nil, some, 2},
		"the first of a pair of rows is costly": {
			price{[]float64{1, 1.5, 1.5, 1.5, 3}, 1000, 2000, 1e6, inf, 1}, nil, some, 4,
		},
		"rows to spare beside others": {
			price{[]float64{1, 1.5, 1.5, 1.5, 3}, 1000, 2000, 1e6, inf, 1}, []float64{0.4}, some, 3,
		},
		// with another row of 0.4, P·w/c: 0.9/1.3 = 0.692, 1.1/1.6 = 0.688
		"beside a likely one": {price{rising(8, 0.3), 1000, 2000, 1e6, inf, 1}, []float64{0.4}, some, 1},
		"on an unlikely guess": {
			price{rising(8, 0.05), 1000, 2000, 1e6, inf, 1},
			[]float64{0.9}, []float64{0.1 * 0.5, 0.1 * 0.2, 0.1 * 0.1}, 1,
		},
		"the same on a likely one": {
			price{rising(8, 0.05), 1000, 2000, 1e6, inf, 1},
			[]float64{0.1}, []float64{0.9 * 0.5, 0.9 * 0.2, 0.9 * 0.1}, 3,
		},
		// 0.5·1.5 - 0.5 = 0.25, 0.75·(1/1.4+½) - 0.7 = 0.21
		"a short wait: half a call is lost": {price{rising(8, 0.4), 1, 32, 1000, inf, 1}, nil, []float64{0.5, 0.25}, 1},
		"not so with a long one": {
			price{rising(8, 0.4), 1000, 2000, 1e6, inf, 1}, nil, []float64{0.5, 0.25}, 2,
		},
		"one that nothing follows costs no row": {
			price{[]float64{1, 1, 9, 9}, 1000, 2000, 1e6, inf, 1}, nil, []float64{0.4, 0, 0, 0.3, 0.2}, 4,
		},
		"at the end, too":             {price{rising(8, 1), 1000, 2000, 1e6, inf, 1}, nil, []float64{0.4, 0, 0}, 3},
		"nothing follows any of them": {price{rising(8, 1), 1000, 2000, 1e6, inf, 1}, nil, []float64{0, 0}, 2},
	} {
		assert.Equal(t, c.want, c.bestBranchCount(c.others, c.guesses), name)
	}
}

// lived simulates the gain of a number of branches call by call, in calls of one row. It averages over the times in a
// call at which the answer may arrive, and over texts that follow a branch or not.
func lived(p price, sum float64, rows int) (gain float64) {
	const phases = 1000
	c := p.curve[rows-1]
	for i := range phases {
		wait := p.wait + c*((float64(i)+0.5)/phases-0.5)
		at, tokens := 0.0, 0.0
		for at < wait && tokens < p.depth && (tokens+1)*float64(rows) <= p.room &&
			(tokens*p.share-1+c-1)*float64(rows) < p.asks {
			at, tokens = at+c, tokens+1
		}
		gain += (sum*tokens - max(0, at-wait)) / phases
	}
	return gain
}

// FuzzWorth: no other number of guesses has a higher simulated gain.
func FuzzWorth(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := price{
			curve: rising(8, r.Float64()*r.Float64()), wait: 5 + 50*r.Float64(),
			depth: float64(1 + r.IntN(60)), room: float64(50 + r.IntN(500)),
			asks: float64(r.IntN(8)), share: 0.02 + r.Float64()*r.Float64(),
		}
		var others, guesses []float64
		left := 1.0
		for range r.IntN(3) {
			others = append(others, left*r.Float64())
			left -= others[len(others)-1]
		}
		for range 1 + r.IntN(5) {
			guesses = append(guesses, left*r.Float64())
			left -= guesses[len(guesses)-1]
		}
		got := p.bestBranchCount(others, guesses)
		require.True(t, got >= 1 && got <= len(guesses))
		gain := func(k int) float64 {
			sum := 0.0
			for _, x := range others {
				sum += x
			}
			for _, x := range guesses[:k] {
				sum += x
			}
			return lived(p, sum, len(others)+k)
		}
		for k := 1; k <= len(guesses); k++ {
			// the remaining part of a call, in time and in memory, is an estimate
			require.LessOrEqual(t, gain(k), gain(got)+1.5,
				"%d instead of %d, %+v, with %v: %v", k, got, p, others, guesses)
		}
	})
}

// matrix decodes texts of an honest world, in which the small model's probabilities are those of the answers and a row
// costs a share of a call. It returns the time, and the mean number of branches.
func matrix(t *testing.T, branches int, rtt time.Duration, share float64) (took time.Duration, mean float64) {
	cost, waits, escalations := new(lookup.Cost), new(Waits), 0
	for seed := range uint64(40) {
		w := &world{seed: seed, vocab: 600, share: 0.05, honest: true}
		m := &fakeModel{world: w, slots: 512, most: 8, calls: 100000, lookup: -1, time: func(rows int) time.Duration {
			return time.Duration(float64(edgeTime) * (1 + share*float64(rows-1)))
		}}
		c := &cloudFunc{ask: func(_ context.Context, q Question) (Answer, error) {
			id, err := w.answer(hashOf(q.Context))
			return Answer{Reply: terms.Reply{Token: id}}, err
		}}
		c.ask = delayed(c.ask, rtt+40*ms)
		d, err := New(m, w, c, Options{
			Branches: branches, MaxTokens: 100, Lookup: -1, Deadline: -1, Cost: cost, Waits: waits, Warm: -1,
		})
		require.NoError(t, err)
		start := time.Now()
		_, err = d.Decode(t.Context(), []int32{1, 2, 3}, func(e Event) bool {
			if q := e.Escalation; q != nil {
				escalations++
				mean += float64(q.Branches)
			}
			return true
		})
		require.NoError(t, err)
		took += time.Since(start)
	}
	require.InDelta(t, 256, waits.tokens, 1, "every decision counts")
	require.InDelta(t, 0.05, waits.escalationShare(), 0.03)
	return took, mean / float64(escalations)
}

// TestAutoBranches: for any cost of a row and any time of answers, the number of branches chosen by price is at most 2%
// slower than the best fixed number, and mostly faster.
func TestAutoBranches(t *testing.T) {
	racing.Spare(t)
	t.Log("row cost  rtt   1      2      3      4      8      auto   branches   over the best")
	shares := []float64{0, 0.02, 0.06, 0.15, 0.3, 0.6, 1}
	if testing.Short() {
		shares = []float64{0.15}
	}
	for _, share := range shares {
		for _, rtt := range []time.Duration{10 * ms, 50 * ms, 100 * ms, 200 * ms, 300 * ms} {
			bubble.Test(t, func(t *testing.T) {
				best := time.Duration(math.MaxInt64)
				var fixed []float64
				for _, n := range []int{1, 2, 3, 4, 8} {
					took, _ := matrix(t, n, rtt, share)
					best, fixed = min(best, took), append(fixed, took.Seconds())
				}
				auto, branches := matrix(t, AutoBranches, rtt, share)
				over := auto.Seconds()/best.Seconds() - 1
				t.Logf("%8.2f %5v %6.1f %6.1f %6.1f %6.1f %6.1f %6.1f %6.2f %8.1f%%",
					share, rtt, fixed[0], fixed[1], fixed[2], fixed[3], fixed[4], auto.Seconds(), branches, 100*over)
				assert.LessOrEqual(t, over, 0.02, "rows at %v, round trip %v", share, rtt)
			})
		}
	}
}

// pricing returns a run before a question at position 40, with a context for 100 more tokens, and guesses at the answer
// with probabilities 0.5, 0.2 and 0.1. Forward calls of one row took 10 ms, and each further row a share more.
func pricing(t *testing.T, share float64, o Options) (*decodeRun, *escalation) {
	t.Helper()
	o.Pick = func(int, *backend.Output) int32 { return 0 }
	if o.Branches == 0 {
		o.Branches = AutoBranches
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = 100
	}
	m := &fakeModel{world: &world{vocab: 12}, slots: 1000, settled: 40}
	d, err := New(m, nil, nil, o)
	require.NoError(t, err)
	r := newRun(d, make([]int32, 40), nil)
	for rows := 1; rows <= 8; rows++ {
		for range 9 {
			r.guesser.cost.Learn(rows, 0.01*(1+share*float64(rows-1)))
		}
	}
	e := &escalation{at: r.tree.tip, guesses: []guess{{1, 0.5}, {2, 0.2}, {3, 0.1}}}
	e.Pos, r.tree.tip.esc = 40, e
	r.InFlight = 1000
	return r, e
}

// TestBranchesOf checks each term in the price of guesses.
func TestBranchesOf(t *testing.T) {
	at := func(share float64, o Options, change func(r *decodeRun, e *escalation)) int {
		r, e := pricing(t, share, o)
		if change != nil {
			change(r, e)
		}
		return r.branchCount(e)
	}
	waited := func(d time.Duration) func(*decodeRun, *escalation) {
		return func(r *decodeRun, _ *escalation) { r.lately.recordWait(d) }
	}
	assert.Equal(t, 3, at(0, Options{}, nil), "rows are free")
	assert.Equal(t, 3, at(1, Options{}, nil), "rows cost time, but the wait is unknown")
	assert.Equal(t, 1, at(1, Options{}, waited(200*ms)), "the wait is known and needed for drafting")
	assert.Equal(t, 3, at(1, Options{}, waited(time.Second)), "drafting ends long before the answer")
	assert.Equal(t, 1, at(1, Options{Window: 128}, waited(time.Second)), "the window ends it")
	assert.Equal(t, 3, at(1, Options{Window: 128, MaxTokens: 30}, waited(time.Second)), "or the text does")
	assert.Equal(t, 3, at(1, Options{Branches: 3}, waited(200*ms)), "a fixed number has no price")
	assert.Equal(t, 3, at(1, Options{MaxTokens: 1}, waited(20*ms)), "no token after the last one")
	assert.Equal(t, 1, at(1, Options{MaxTokens: 9}, waited(20*ms)))
	assert.Equal(t, 3, at(0, Options{Rows: 2}, nil), "a row may be free later")
	assert.Equal(t, 1, at(0, Options{}, func(r *decodeRun, _ *escalation) {
		r.lately.recordWait(200 * ms)
		r.model.(*fakeModel).slots = 45
	}), "room for one branch")
	dense := func(inFlight, asked int) func(r *decodeRun, _ *escalation) {
		return func(r *decodeRun, _ *escalation) {
			r.lately.recordWait(200 * ms)
			for range 50 {
				r.lately.recordDecision(true)
			}
			r.InFlight, r.questions.asked = inFlight, make([]*escalation, asked)
		}
	}
	assert.Equal(t, 2, at(0.3, Options{}, dense(1000, 1)), "0.5·20.5 - ½ < 0.7·15.9 - 0.65")
	assert.Equal(t, 1, at(0.3, Options{}, dense(1, 1)), "every token is escalated, and no other question can be open")
	assert.Equal(t, 3, at(0.05, Options{}, dense(2, 2)), "the same with cheap rows")
	assert.Equal(t, 1, at(0.05, Options{}, dense(3, 1)), "questions for three tokens: (3-0)·0.5 > (2+1-1.05)·0.7")
	ends := func(ids ...int32) Options {
		return Options{End: func(id int32) bool { return slices.Contains(ids, id) }}
	}
	assert.Equal(t, 1, at(1, ends(3), waited(200*ms)))
	assert.Equal(t, 3, at(1, ends(2, 3), waited(200*ms)), "an end token needs no row")
	assert.Equal(t, 1, at(0.5, Options{}, waited(200*ms)))
	assert.Equal(t, 3, at(0.1, ends(2), waited(200*ms)), "nor does the third add to it: 0.6/1.1 > 0.5")
	below := func(chance float64) func(r *decodeRun, e *escalation) {
		return func(r *decodeRun, e *escalation) { // the question is about a guess, next to another guess
			r.lately.recordWait(200 * ms)
			r.tree.tip.esc = &escalation{at: r.tree.tip, Escalation: Escalation{Outcome: inFlight}}
			e.at = r.tree.addChild(r.tree.tip, 4, 0)
			e.at.guess, e.at.evaluated, e.at.esc, e.Pos = chance, true, e, 41
			r.tree.addChild(r.tree.tip, 5, 0).guess = 0.95 - chance
		}
	}
	assert.Equal(t, 3, at(0.08, Options{}, below(0.9)), "on a likely guess")
	assert.Equal(t, 1, at(0.08, Options{}, below(0.1)), "on an unlikely one")
}

// TestShareOfAsks: the recent share of escalations; a small default without data.
func TestShareOfAsks(t *testing.T) {
	var w Waits
	assert.InDelta(t, 0.025, w.escalationShare(), 1e-9)
	w.recordDecision(true)
	assert.InDelta(t, 1.5/21, w.escalationShare(), 1e-9)
	for range 1000 {
		w.recordDecision(false)
	}
	assert.Less(t, w.escalationShare(), 0.01)
	for range 300 {
		w.recordDecision(true)
	}
	assert.Greater(t, w.escalationShare(), 0.6, "older tokens count less")
}

// TestWaits: the median of the last nine waits.
func TestWaits(t *testing.T) {
	var w Waits
	assert.Zero(t, w.median)
	w.recordWait(7)
	assert.EqualValues(t, 7, w.median)
	w.recordWait(3)
	assert.EqualValues(t, 3, w.median, "the lower of two")
	w.recordWait(100)
	assert.EqualValues(t, 7, w.median, "one slow answer changes little")
	for range 4 {
		w.recordWait(50)
	}
	assert.EqualValues(t, 50, w.median)
	for range 9 {
		w.recordWait(20)
	}
	assert.EqualValues(t, 20, w.median, "the old ones are forgotten")
	for d := range 9 {
		w.recordWait(time.Duration(9 - d))
	}
	for range 4 {
		w.recordWait(100)
	}
	assert.EqualValues(t, 5, w.median, "the four oldest are dropped, not the four smallest")
}

// TestGuessesAt: the local token comes first, then the other candidates by their probability of being the answer: by
// the small model's probabilities and, with sampling, the noise of the position.
func TestGuessesAt(t *testing.T) {
	head := &backend.Output{LogSumExp: 1}
	for i, p := range []float64{0.5, 0.3, 0.1} {
		head.Top = append(head.Top, backend.Candidate{ID: int32(10 + i), Logit: 1 + float32(math.Log(p))})
	}
	of := func(o Options, local int32) (ids []int32, ps []float64) {
		for _, g := range newRules(o.withDefaults(), 0).answerGuesses(&node{pos: 6}, local, head) {
			ids, ps = append(ids, g.token), append(ps, g.p)
		}
		return ids, ps
	}
	ids, ps := of(Options{Branches: 3}, 11)
	assert.Equal(t, []int32{11, 10, 12}, ids)
	assert.InDeltaSlice(t, []float64{0.3, 0.5, 0.1}, ps, 1e-6)
	ids, ps = of(Options{Branches: 2}, 99)
	assert.Equal(t, []int32{99, 10}, ids, "a local token that is not a candidate")
	assert.Zero(t, ps[0])
	ids, _ = of(Options{Branches: AutoBranches}, 10)
	assert.Equal(t, []int32{10, 11, 12}, ids)
	ids, _ = of(Options{Mode: Serial}, 10)
	assert.Empty(t, ids)

	for seed := range uint64(20) {
		for _, temperature := range []float64{1e-9, 0.5, 2, 1e4} {
			o := terms.Sampling{Temperature: temperature, Seed: seed}
			ids, ps = of(Options{Branches: 3, Sampling: o}, 12)
			require.Len(t, ids, 3)
			assert.Equal(t, int32(12), ids[0])
			assert.GreaterOrEqual(t, ps[1], ps[2])
			assert.InDelta(t, 1, ps[0]+ps[1]+ps[2], 1e-9)
			for i, id := range ids { // p·exp(T·noise), relative to the local token
				c := head.Top[id-10]
				noise := sample.Noise(o.Seed, 7, id) - sample.Noise(o.Seed, 7, 12)
				want := float64(c.Logit-head.Top[2].Logit) + temperature*noise
				if got := math.Log(ps[i] / ps[0]); ps[i] > 0 && ps[0] > 0 {
					assert.InDelta(t, want, got, 1e-6*max(1, math.Abs(want)))
				}
			}
		}
	}
}

// TestGuessesOfDraws: if the large model samples with the noise that both models share, guesses that use the noise are
// right more often.
func TestGuessesOfDraws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	o := terms.Sampling{Temperature: 1, Seed: 9}
	large, err := sample.New(o)
	require.NoError(t, err)
	with, without := 0, 0
	for pos := range 2000 {
		var small, other backend.Output
		for id := range int32(20) {
			logit := float32(2 * r.NormFloat64())
			small.Logits = append(small.Logits, logit)
			other.Logits = append(other.Logits, logit+float32(r.NormFloat64()))
			small.Top = append(small.Top, backend.Candidate{ID: id, Logit: logit})
			other.Top = append(other.Top, backend.Candidate{ID: id, Logit: other.Logits[id]})
		}
		slices.SortFunc(small.Top, func(a, b backend.Candidate) int { return cmp.Compare(b.Logit, a.Logit) })
		slices.SortFunc(other.Top, func(a, b backend.Candidate) int { return cmp.Compare(b.Logit, a.Logit) })
		small.Top = small.Top[:8]
		answer := large.Pick(pos, &other)
		for seen, guessing := range map[*int]terms.Sampling{&with: o, &without: {}} {
			run := newRules(Options{Branches: 3, Sampling: guessing}.withDefaults(), 0)
			for _, g := range run.answerGuesses(&node{pos: pos - 1}, small.Top[0].ID, &small) {
				if g.token == answer {
					*seen++
				}
			}
		}
	}
	t.Logf("of 2000 samples %d are among three guesses with the noise, %d without", with, without)
	assert.Greater(t, with, without+200)
}
