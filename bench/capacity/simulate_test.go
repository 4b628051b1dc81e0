package capacity

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestOneDevice: the time of an answer on a single device is a sum of known times.
func TestOneDevice(t *testing.T) {
	c := linear(20, 3, 1)
	c.AskMS = 2
	window := Window{0, 20 * time.Minute}
	same := func(want float64, w Workload, mode Mode) {
		t.Helper()
		p := simulated(t, w, c, mode, 1, 1, window)
		assert.Greater(t, p.Answers, 10)
		assert.InDelta(t, want, p.P50, 0.001)
		assert.InDelta(t, want, p.P99, 0.001)
		assert.InDelta(t, p.PerSecond*float64(w.Tokens), p.TokensTPS, 1e-9)
	}
	w := usual()
	// a prompt of 130 tokens takes passes of 128 and 2 rows; the first pass predicts nothing
	prompt := (20 + 128*3 - 1) + (20 + 2*3.)
	same(100+2+prompt+24*23, w, Cloud)
	w.Budget = 0
	same(25*20, w, Routed)
	w.Budget = 1
	same(25*(20+100+2)+prompt+24*23, w, Routed)
	same(25*(20+100+2)+prompt+24*23, w, Verified)
	w.Budget, w.Turned = 0, 0
	// at the end of the answer: 154 rows, and predictions after the last 25
	last := (20 + 128*3 - 1.) // no prediction in the first 128 rows
	last += 20 + 26*3 + 24    // and one for each of the other 26 rows but the first
	same(25*20+100+2+last, w, Verified)
	w.RTT, w.EdgeTPS, w.Prompt, w.Tokens, w.Budget = 0, 1e6, 1, 1, 1
	same(0.001+2+23, w, Routed)
	same(2+23, w, Cloud)
}

// TestCounts: the window decides separately about the beginnings and the ends of answers, about asks and about passes.
func TestCounts(t *testing.T) {
	c := Costs{Threads: 1, Passes: []Pass{{1, 200, 200}, {2, 200, 200}}, AskMS: 50}
	w := Workload{Prompt: 2, Tokens: 1, Think: time.Second, EdgeTPS: 10, Budget: 1, RTT: 100 * time.Millisecond}
	for mode, local := range map[Mode]time.Duration{Routed: ms(100), Verified: ms(100), Cloud: 0} {
		for _, window := range []Window{{0, ms(700)}, {ms(250), ms(1000)}, {ms(450), ms(1300)}, {0, ms(12345)},
			{ms(7000), ms(9876)}} {
			answer := local + ms(100+50+200)
			inside := func(t time.Duration) bool { return t >= window.Warm && t < window.End }
			began, completed, asks, passes, busy, most := 0, 0, 0, 0, time.Duration(0), 0
			for u, at := newUser(&w, mode, 0), time.Duration(0); at < window.End+time.Minute; at += answer {
				if at += u.pause(); inside(at) {
					began++
				}
				if at < window.End {
					most = 1
				}
				if inside(at + answer) {
					completed++
				}
				arrival := at + local + ms(50+50)
				if inside(arrival) {
					asks, passes = asks+1, passes+1
				}
				busy += max(0, min(arrival+ms(200), window.End)-max(arrival, window.Warm))
			}
			p, seconds := simulated(t, w, c, mode, 1, 1, window), (window.End - window.Warm).Seconds()
			assert.Equal(t, began, p.Answers, mode)
			assert.InDelta(t, float64(completed)/seconds, p.PerSecond, 1e-9, "%v %v", mode, window)
			assert.InDelta(t, float64(completed)/seconds, p.TokensTPS, 1e-9)
			assert.InDelta(t, float64(asks)/seconds, p.AsksPS, 1e-9, "%v %v", mode, window)
			assert.InDelta(t, busy.Seconds()/seconds, p.Utilisation, 1e-9)
			assert.Equal(t, most*3, p.KVTokens)
			if passes > 0 {
				assert.Equal(t, 2., p.RowsPerPass)
			} else {
				assert.Zero(t, p.RowsPerPass)
			}
			if began > 0 {
				assert.Equal(t, []float64{answer.Seconds() * 1e3, answer.Seconds() * 1e3}, []float64{p.P50, p.P99})
			}
		}
	}
}

// TestMD1: asks that are computed one at a time wait as in the queue M/D/1: ρ/(2(1-ρ)) times the service time.
func TestMD1(t *testing.T) {
	racing.Spare(t)
	c := Costs{Threads: 1, Passes: []Pass{{1, 10, 10}}}
	w := Workload{Prompt: 1, Tokens: 1, Think: 10 * time.Second, EdgeTPS: 1e6, Budget: 1}
	for _, load := range []float64{0.2, 0.5, 0.8} {
		g := newGateway(&w, &c, Routed, Window{time.Minute, 40 * time.Minute})
		g.s = newService(1)
		for i := range int(load * 1000) {
			g.join(i)
		}
		require.NoError(t, g.run(t.Context()))
		sum := time.Duration(0)
		for _, d := range g.took {
			sum += d
		}
		mean := result.Milliseconds(sum) / float64(len(g.took))
		// the loop is closed: a device that waits does not ask, which lowers the load a little
		assert.InEpsilon(t, 10+10*load/(2*(1-load)), mean, 0.05, "at a load of %v", load)
		p := g.point(&w)
		assert.InEpsilon(t, load, p.Utilisation, 0.03)
		assert.InEpsilon(t, 1., p.RowsPerPass, 1e-9)
	}
}

// TestSaturation: with unlimited devices, the rate of answers is the max that the costs allow.
func TestSaturation(t *testing.T) {
	racing.Spare(t)
	c := linear(20, 3, 1)
	full := c.Time(128, 128).Seconds()
	w := usual()
	w.Prompt, w.Tokens, w.Budget = 1, 1, 1
	window := Window{30 * time.Second, 90 * time.Second}
	for _, mode := range Modes() {
		p := simulated(t, w, c, mode, 20000, 1, window)
		assert.InEpsilon(t, 128/full, p.PerSecond, 0.02, mode)
		assert.InEpsilon(t, 1, p.Utilisation, 1e-6, mode)
		assert.InEpsilon(t, 128, p.RowsPerPass, 1e-6, mode)
	}
	w = usual()
	w.Budget = 0.3 // nearly every answer has an ask
	for mode, rows := range map[Mode]float64{Cloud: 130 + 24, Routed: 130} {
		p := simulated(t, w, c, mode, 1000, 1, Window{time.Hour, 2 * time.Hour})
		bound := 128 / c.Time(128, 1).Seconds() // rows per second
		assert.Less(t, p.PerSecond, bound/rows*1.01, mode)
		assert.Greater(t, p.PerSecond, bound/rows/2, mode)
		assert.InEpsilon(t, 1, p.Utilisation, 0.01, mode)
	}
}

// TestLittle: the mean number of answers in flight is their rate times their time, and the other devices pause, in
// every mode and at every load (Little's law).
func TestLittle(t *testing.T) {
	racing.Spare(t)
	c, w := linear(20, 3, 1), usual()
	for _, mode := range Modes() {
		for _, n := range []int{5, 40, 200} {
			g := newGateway(&w, &c, mode, Window{10 * time.Minute, 200 * time.Minute})
			for i := range n {
				g.join(i)
			}
			require.NoError(t, g.run(t.Context()))
			sum := time.Duration(0)
			for _, d := range g.took {
				sum += d
			}
			cycle := w.Think.Seconds() + sum.Seconds()/float64(len(g.took))
			assert.InEpsilon(t, float64(n)/cycle, g.point(&w).PerSecond, 0.1, "%s with %d devices", mode, n)
			assert.LessOrEqual(t, g.maxOpen, n)
		}
	}
}

// TestMore: more devices never lower the percentiles; more gateways and cheaper passes never raise them.
func TestMore(t *testing.T) {
	racing.Spare(t)
	c, w := linear(20, 3, 1), usual()
	dear := linear(25, 4, 1)
	const noise = 1.02
	window := Window{2 * time.Minute, 40 * time.Minute}
	for _, mode := range Modes() {
		before := 0.
		for _, n := range []int{5, 20, 40, 80, 160, 320} {
			p := simulated(t, w, c, mode, n, 1, window)
			assert.LessOrEqual(t, before, noise*p.P95, "%s: %d devices", mode, n)
			before = p.P95
			assert.LessOrEqual(t, p.P95, noise*simulated(t, w, dear, mode, n, 1, window).P95, "%s: %d devices", mode, n)
		}
		before = math.Inf(1)
		for _, gateways := range []int{1, 2, 4, 8, 400} {
			p := simulated(t, w, c, mode, 200, gateways, window)
			assert.LessOrEqual(t, p.P95, noise*before, "%s: %d gateways", mode, gateways)
			before = p.P95
			assert.Equal(t, []int{200, gateways}, []int{p.Devices, p.Gateways})
			assert.LessOrEqual(t, p.Utilisation, 1.)
		}
	}
}

// TestGatewaysApart: gateways are independent: two with half of the devices each answer twice as much as one.
func TestGatewaysApart(t *testing.T) {
	racing.Spare(t)
	c, w := linear(20, 3, 1), usual()
	window := Window{2 * time.Minute, 60 * time.Minute}
	for _, mode := range Modes() {
		one, two := simulated(t, w, c, mode, 60, 1, window), simulated(t, w, c, mode, 120, 2, window)
		assert.InEpsilon(t, one.Utilisation, two.Utilisation, 0.05)
		assert.InEpsilon(t, 2*one.PerSecond, two.PerSecond, 0.05)
		assert.InEpsilon(t, one.P95, two.P95, 0.1)
		assert.InEpsilon(t, 2*one.Answers, two.Answers, 0.05)
		assert.InEpsilon(t, 2*one.TokensTPS, two.TokensTPS, 0.05)
		assert.InEpsilon(t, 2*one.AsksPS, two.AsksPS, 0.05)
		assert.InEpsilon(t, one.RowsPerPass, two.RowsPerPass, 0.05)
		assert.InEpsilon(t, 2*one.KVTokens, two.KVTokens, 0.3)
	}
}

// TestStreamPasses: prompts share the rows of a pass, fewer of them beside streams. A pass has a head for each stream
// and for each prompt that ends. Streams that do not fit into a pass take part in the next one.
func TestStreamPasses(t *testing.T) {
	w := Workload{Prompt: 200, Tokens: 3}
	s := newStreams(&w)
	var done []*device
	pass := func(rows, heads int) {
		t.Helper()
		gotRows, gotHeads := s.plan()
		assert.Equal(t, []int{rows, heads}, []int{gotRows, gotHeads})
		s.end(func(d *device) { done = append(done, d) })
	}
	a, b, c := new(device), new(device), new(device)
	s.add(a)
	pass(128, 0)
	pass(72, 1)
	s.add(b)
	pass(1+16, 1) // a has its second token
	s.add(c)
	pass(1+8+8, 1)
	assert.Equal(t, []*device{a}, done)
	pass(64+64, 0)
	pass(64+64, 0)
	pass(48+64, 2) // the rest of both
	for range 1000 {
		if s.queue.Len() == 0 {
			break
		}
		s.plan()
		s.end(func(d *device) { done = append(done, d) })
	}
	assert.Equal(t, []*device{a, b, c}, done)
	pass(0, 0)

	w = Workload{Prompt: 1, Tokens: 100}
	s = newStreams(&w)
	all := make([]*device, 300)
	for i := range all {
		all[i] = new(device)
		s.add(all[i])
	}
	for range 50 {
		rows, heads := s.plan()
		assert.Equal(t, []int{128, 128}, []int{rows, heads})
		s.end(func(*device) { t.Error("no stream has all tokens") })
		low, high := slices.MinFunc(all, byTokens).tokens, slices.MaxFunc(all, byTokens).tokens
		assert.LessOrEqual(t, high-low, 1, "the streams take turns")
	}
	late, before := new(device), all[0].tokens
	s.add(late)
	for range 30 {
		s.plan()
		s.end(func(*device) { t.Error("no stream has all tokens") })
	}
	assert.InDelta(t, all[0].tokens-before, late.tokens, 1, "a new stream takes its turn, and no more than that")
}

func byTokens(a, b *device) int { return a.tokens - b.tokens }

// TestSame: equal arguments give equal results to the last digit; another seed gives another result.
func TestSame(t *testing.T) {
	racing.Spare(t)
	c, w := linear(20, 3, 1), usual()
	window := Window{time.Minute, 10 * time.Minute}
	for _, mode := range Modes() {
		a := simulated(t, w, c, mode, 50, 3, window)
		assert.Equal(t, a, simulated(t, w, c, mode, 50, 3, window))
		other := w
		other.Seed++
		assert.NotEqual(t, a, simulated(t, other, c, mode, 50, 3, window))
	}
}

// TestSimulateRefused: invalid arguments are refused, and a run ends with its context.
func TestSimulateRefused(t *testing.T) {
	c, w, window := linear(20, 3, 1), usual(), Window{0, time.Second}
	refused := func(want string, w Workload, c Costs, devices, gateways int, window Window) {
		t.Helper()
		_, err := simulate(t.Context(), &w, &c, Cloud, devices, gateways, window)
		assert.ErrorContains(t, err, want)
	}
	refused("0 devices", w, c, 0, 1, window)
	refused("0 gateways", w, c, 1, 0, window)
	refused("no time", w, c, 1, 1, Window{time.Second, time.Second})
	refused("no time", w, c, 1, 1, Window{-1, time.Second})
	refused("costs.passes is empty", w, Costs{Threads: 1}, 1, 1, window)
	w.Budget = 2
	refused("budget is 2", w, c, 1, 1, window)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w = usual()
	_, err := simulate(ctx, &w, &c, Cloud, 1, 1, window)
	assert.ErrorIs(t, err, context.Canceled)
}

// TestInterval: the interval of the 95th percentile has 1.96 standard deviations of a binomial rank on each side. Of
// few answers it ends at the longest one.
func TestInterval(t *testing.T) {
	w := usual()
	for n, want := range map[int][3]float64{10_000: {9458, 9500, 9543}, 400: {372, 380, 389}, 20: {18, 19, 20},
		1: {1, 1, 1}} {
		all := tally{window: Window{0, time.Second}}
		for i := range n {
			all.took = append(all.took, ms(float64(n-i)))
		}
		p := all.point(&w)
		assert.Equal(t, want, [3]float64{p.P95Low, p.P95, p.P95High}, n)
	}
}

// TestPercentiles: percentiles are observed times, and the interval of the 95th contains it.
func TestPercentiles(t *testing.T) {
	w := usual()
	empty := tally{window: Window{0, time.Second}}
	assert.Zero(t, empty.point(&w).P95)
	r := rand.New(rand.NewPCG(8, 9))
	for n := 1; n < 300; n++ {
		all := tally{window: Window{0, time.Second}}
		for range n {
			all.took = append(all.took, time.Duration(r.IntN(1000))*time.Millisecond)
		}
		p := all.point(&w)
		assert.Equal(t, n, p.Answers)
		for share, got := range map[float64]float64{0.5: p.P50, 0.95: p.P95, 0.99: p.P99} {
			upTo, _ := slices.BinarySearch(all.took, ms(got)+1)
			below, _ := slices.BinarySearch(all.took, ms(got))
			assert.GreaterOrEqual(t, float64(upTo), share*float64(n)-1e-9)
			assert.Less(t, float64(below), share*float64(n))
		}
		assert.LessOrEqual(t, p.P95Low, p.P95)
		assert.GreaterOrEqual(t, p.P95High, p.P95)
	}
}
