package link

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// histories returns the number of random links that the property tests try, with 500 packets each.
func histories() int {
	if testing.Short() {
		return 150
	}
	return 600
}

// forHistories calls f with random links and traffic.
func forHistories(t *testing.T, f func(t *testing.T, o Options, w way, packets []packet)) {
	t.Helper()
	for n := range uint64(histories()) {
		r := seeds(n)
		o := anyOptions(t, r)
		require.NoError(t, o.check())
		packets := traffic(r, 500)
		w := []way{wayUp, wayDown}[n%2]
		f(t, o, w, packets)
		if t.Failed() {
			t.Fatalf("history %d, way %d: %+v", n, w, o)
		}
	}
}

// direction returns the direction of o that w selects, with defaults.
func direction(o Options, w way) Direction {
	if w == wayUp {
		return o.Up.filled()
	}
	return o.Down.filled()
}

// TestFates: every packet has one fate. A packet departs after the min delay, in order unless it is held back, and an
// outcome with probability 0 does not occur.
func TestFates(t *testing.T) {
	forHistories(t, func(t *testing.T, o Options, w way, packets []packet) {
		d := direction(o, w)
		last, recorded := time.Duration(0), o.RTT != nil && w == wayDown
		for i, f := range travel(o, w, packets) {
			wrong := ""
			switch {
			case f.n != uint64(i):
				wrong = "it has another number"
			case f.end != departs && f.copies != 0:
				wrong = "it is gone and departs"
			case f.end != departs:
				continue
			case f.copies != 1 && (f.copies != 2 || d.Duplicate == 0):
				wrong = "it departs another number of times"
			case f.across < packets[i].at:
				wrong = "it is across before it came"
			case f.due < f.across+d.Delay:
				wrong = "it departs before the delay is over"
			case d.Reorder == 0 && f.due < last:
				wrong = "it overtakes another one"
			case d.Reorder == 0 && !recorded && f.due > f.across+d.Delay+10*d.Jitter:
				wrong = "it is later than jitter can make it, and it waits for others of which the same holds"
			}
			if wrong != "" {
				t.Fatalf("packet %d: %s: %+v", i, wrong, f)
			}
			last = max(last, f.due)
		}
	})
}

// TestRepeatable: equal seeds and arrivals give equal fates; another seed or direction gives others.
func TestRepeatable(t *testing.T) {
	other := 0
	forHistories(t, func(t *testing.T, o Options, w way, packets []packet) {
		once := travel(o, w, packets)
		require.Equal(t, once, travel(o, w, packets))
		o.Seed++
		o.Up, o.Down, o.RTT = Direction{Loss: 0.5}, Direction{Loss: 0.5}, nil
		if !slices.Equal(travel(o, w, packets), once) {
			other++
		}
		require.NotEqual(t, travel(o, wayUp, packets), travel(o, wayDown, packets))
	})
	assert.Equal(t, histories(), other)
}

// TestChanceIsOfThePacketAlone: the random decisions about packet n do not depend on sizes, times and other options.
func TestChanceIsOfThePacketAlone(t *testing.T) {
	bare := Options{Seed: 7, Up: Direction{Loss: 0.2, Burst: bursts(0.1, 4)}}
	want := travel(bare, wayUp, traffic(seeds(1), 5000))
	full := bare
	full.Up.Jitter, full.Up.Reorder, full.Up.Duplicate, full.Up.Delay = time.Second, 0.3, 0.3, time.Minute
	full.Up.Rate, full.Up.Queue = 20_000, 4000
	dropped := 0
	for i, f := range travel(full, wayUp, traffic(seeds(2), 5000)) {
		if f.end == tailDrop {
			dropped++
			continue
		}
		require.Equal(t, want[i].end, f.end, i)
	}
	assert.Positive(t, dropped)
}

// TestBottleneck: over any window the bottleneck passes no more than its rate or its trace allows, besides the packet
// that was in transmission when the window began. Its queue is never longer than allowed, it drops packets only if the
// queue is full, and it is never idle while packets wait.
func TestBottleneck(t *testing.T) {
	forHistories(t, func(t *testing.T, o Options, w way, packets []packet) {
		d := direction(o, w)
		if d.Rate == 0 && d.Capacity == nil {
			return
		}
		fates := travel(o, w, packets)
		var across []crossing
		for i, f := range fates {
			queued := 0
			for _, c := range across {
				if c.across > packets[i].at {
					queued += c.size
				}
			}
			full := queued > 0 && queued+packets[i].size > d.Queue
			require.Equal(t, full, f.end == tailDrop, "packet %d: %d bytes wait", i, queued)
			if !full {
				across = append(across, crossing{f.across, packets[i].size})
			}
		}
		checkWindows(t, o, d, across)
		if d.Capacity != nil {
			require.Equal(t, mahimahi(d, o.TraceStart, packets, fates), across)
		}
	})
}

// checkWindows checks every window that begins with the end of one packet and ends with that of another.
func checkWindows(t *testing.T, o Options, d Direction, across []crossing) {
	t.Helper()
	for i := range across {
		chances := int64(0) // of the trace in the window; the chance that the first packet ended in may carry others
		first := int64(0)
		if d.Capacity != nil {
			first = d.Capacity.first(across[i].across + o.TraceStart)
		}
		sum := 0 // of the packets after the first
		for _, c := range across[i+1:] {
			sum += c.size
			may := int(float64(d.Rate)*(c.across-across[i].across).Seconds() + 1e-6)
			if d.Capacity != nil {
				for d.Capacity.at(first+chances) <= c.across+o.TraceStart {
					chances++
				}
				may = int(chances) * chanceBytes
			}
			if sum > may {
				t.Fatalf("from packet %d at %v to %v: %d bytes instead of max %d", i, across[i].across,
					c.across, sum, may)
			}
		}
	}
}

// mahimahi simulates the same bottleneck chance by chance, for the packets that the queue accepted.
func mahimahi(d Direction, begin time.Duration, packets []packet, fates []fate) []crossing {
	var queue []packet
	for i, p := range packets {
		if fates[i].end != tailDrop {
			queue = append(queue, p)
		}
	}
	var across []crossing
	rest := 0
	for k := int64(0); len(across) < len(queue); k++ {
		at := d.Capacity.at(k) - begin
		for left := chanceBytes; left > 0 && len(across) < len(queue) && queue[len(across)].at <= at; {
			p := queue[len(across)]
			if rest == 0 {
				rest = p.size
			}
			used := min(rest, left)
			if rest, left = rest-used, left-used; rest == 0 {
				across = append(across, crossing{at, p.size})
			}
		}
	}
	return across
}

// proportion checks that hits of n are the share p, within five standard deviations of n independent trials, times
// inflation if the trials are dependent.
func proportion(t *testing.T, what string, hits, n int, p, inflation float64) {
	t.Helper()
	sigma := math.Sqrt(p * (1 - p) / float64(n) * inflation)
	assert.InDelta(t, p, float64(hits)/float64(n), 5*sigma, what)
}

// TestShares: the shares of lost, late and doubled packets are those in the options.
func TestShares(t *testing.T) {
	racing.Spare(t)
	const n = 100_000
	packets := make([]packet, n)
	for i := range packets {
		packets[i] = packet{time.Duration(i) * time.Second, 100}
	}
	for _, p := range []float64{0.001, 0.01, 0.05, 0.2, 0.9} {
		for seed := range uint64(3) {
			what := fmt.Sprintf("%g, seed %d", p, seed)
			losses, late, twice := 0, 0, 0
			for i, f := range travel(Options{Seed: seed, Down: Direction{Loss: p, Reorder: p, Duplicate: p}},
				wayDown, packets) {
				switch {
				case f.end == lost:
					losses++
					continue
				case f.due == packets[i].at+10*time.Millisecond:
					late++
				case f.due != packets[i].at:
					t.Fatalf("packet %d departs at %v", i, f.due)
				}
				twice += f.copies - 1
			}
			proportion(t, "lost "+what, losses, n, p, 1)
			proportion(t, "held back "+what, late, n-losses, p, 1)
			proportion(t, "doubled "+what, twice, n-losses, p, 1)
		}
	}
}

// TestBursts: a chain loses the given share of packets, in bursts of the given mean length.
func TestBursts(t *testing.T) {
	racing.Spare(t)
	const n = 200_000
	for _, c := range []struct{ share, packets float64 }{{0.01, 3}, {0.05, 1.2}, {0.1, 8}, {0.2, 20}, {0.5, 2}} {
		b := bursts(c.share, c.packets)
		bursts, losses, was := 0, 0, false
		for _, f := range travel(Options{Seed: 3, Up: Direction{Burst: b}}, wayUp, make([]packet, n)) {
			is := f.end == lost
			if is {
				losses++
			}
			if is && !was {
				bursts++
			}
			was = is
		}
		memory := 1 - b.ToBad - b.ToGood
		proportion(t, fmt.Sprint("share of ", c), losses, n, c.share, (1+memory)/(1-memory))
		mean := float64(losses) / float64(bursts) // geometric, with standard deviation √(m(m-1))
		assert.InDelta(t, c.packets, mean, 5*math.Sqrt(c.packets*(c.packets-1)/float64(bursts))+1e-9, "length of %v", c)
	}
}

// TestBurstsBeginAnywhere: the chain begins in its stationary state: the first packet is lost as often as any.
func TestBurstsBeginAnywhere(t *testing.T) {
	hits := 0
	const n = 20_000
	for seed := range uint64(n) {
		if travel(Options{Seed: seed, Up: Direction{Burst: bursts(0.3, 10)}}, wayUp, make([]packet, 1))[0].end == lost {
			hits++
		}
	}
	proportion(t, "first packet", hits, n, 0.3, 1)
}

// TestJitter: each kind of jitter has the mean and the median of its distribution.
func TestJitter(t *testing.T) {
	const n, j = 100_000, 20 * time.Millisecond
	packets := make([]packet, n)
	for i := range packets {
		packets[i] = packet{time.Duration(i) * time.Second, 100}
	}
	for _, c := range []struct {
		kind         Distribution
		mean, median float64 // in units of J
		maxJ, sigma  float64
	}{
		{Uniform, 0.5, 0.5, 1, 1 / math.Sqrt(12)},
		{Exponential, 1, math.Ln2, 10, 1},
	} {
		var all []float64
		sum := 0.0
		for i, f := range travel(Options{Down: Direction{Delay: time.Second, Jitter: j, JitterKind: c.kind}},
			wayDown, packets) {
			x := float64(f.due-packets[i].at-time.Second) / float64(j)
			if x < 0 || x > c.maxJ {
				t.Fatalf("packet %d is delayed by %v jitters", i, x)
			}
			all, sum = append(all, x), sum+x
		}
		slices.Sort(all)
		assert.InDelta(t, c.mean, sum/n, 5*c.sigma/math.Sqrt(n)+1e-4)
		assert.InDelta(t, c.median, all[n/2], 0.02)
	}
}

// TestTransparent: a transparent link changes nothing.
func TestTransparent(t *testing.T) {
	packets := traffic(seeds(5), 1000)
	for i, f := range travel(Options{}, wayUp, packets) {
		require.Equal(t, fate{n: uint64(i), across: packets[i].at, due: packets[i].at, copies: 1}, f)
	}
}

// TestReorder: a packet that is held back is overtaken by the packets after it, and by no others.
func TestReorder(t *testing.T) {
	packets := []packet{{0, 100}, {time.Millisecond, 100}, {2 * time.Millisecond, 100}}
	o := Options{Up: Direction{Delay: time.Second, Reorder: 1, ReorderBy: time.Minute}}
	e := newEmulator(o, wayUp)
	assert.Equal(t, time.Minute+time.Second, e.arrive(packets[0].at, 100).due)
	e.Reorder = 0
	assert.Equal(t, time.Second+time.Millisecond, e.arrive(packets[1].at, 100).due)
	assert.Equal(t, time.Second+2*time.Millisecond, e.arrive(packets[2].at, 100).due)
}

// TestRate: a burst leaves a narrow link packet by packet, and the queue reports the waiting bytes.
func TestRate(t *testing.T) {
	e := newEmulator(Options{Up: Direction{Rate: 100_000, Queue: 3500}}, wayUp)
	for i := range 3 {
		assert.Equal(t, time.Duration(i+1)*10*time.Millisecond, e.arrive(0, 1000).due)
	}
	assert.Equal(t, tailDrop, e.arrive(0, 1000).end)
	assert.Equal(t, 3000, e.queued(0))
	assert.Equal(t, 2000, e.queued(10*time.Millisecond))
	assert.Equal(t, 40*time.Millisecond, e.arrive(10*time.Millisecond, 1000).due)
	assert.Equal(t, 1010*time.Millisecond, e.arrive(time.Second, 1000).due)
	assert.Equal(t, 2*time.Second+100*time.Millisecond, e.arrive(2*time.Second, 10_000).due,
		"a single packet that is longer than the queue passes")
}

// TestQueueByDefault: without a limit in the options, 256 KiB wait for a rate or a capacity.
func TestQueueByDefault(t *testing.T) {
	for _, d := range []Direction{{Rate: 1}, {Capacity: read(t, readCapacity, "86400000\n")}} {
		e := newEmulator(Options{Down: d}, wayDown)
		for i := range 257 {
			assert.Equal(t, i == 256, e.arrive(0, 1024).end == tailDrop, i)
		}
	}
}

// TestRateToTheByte: a queue can be full to the last byte, and a packet never arrives before its last byte.
func TestRateToTheByte(t *testing.T) {
	e := newEmulator(Options{Up: Direction{Rate: 3, Queue: 3000}}, wayUp)
	for i := range 3 {
		f := e.arrive(0, 1000)
		assert.Equal(t, departs, f.end)
		assert.Equal(t, time.Duration(i+1)*(1000*time.Second/3+1), f.across,
			"a third of a nanosecond is rounded up")
	}
	assert.Equal(t, tailDrop, e.arrive(0, 1).end)
}

// TestChain: a chain draws losses and transitions independently, with the shares of its state.
func TestChain(t *testing.T) {
	b := Burst{ToBad: 0.2, ToGood: 0.4, LossBad: 0.6, LossGood: 0.1}
	for _, c := range []struct {
		bad         bool
		step, burst float64
		lost, after bool
	}{
		{false, 0.19, 0.09, true, true}, {false, 0.19, 0.1, false, true},
		{false, 0.2, 0.09, true, false}, {false, 0.2, 0.1, false, false},
		{true, 0.39, 0.59, true, false}, {true, 0.39, 0.6, false, false},
		{true, 0.4, 0.59, true, true}, {true, 0.4, 0.6, false, true},
		{true, 0.9, 0.1, true, true}, {true, 0.1, 0.9, false, false},
		{false, 0.9, 0.05, true, false}, {false, 0.1, 0.9, false, true},
	} {
		chain := chain{b, c.bad}
		assert.Equal(t, c.lost, chain.loses(rolls{step: c.step, burst: c.burst}), "%+v", c)
		assert.Equal(t, c.after, chain.bad, "%+v", c)
	}
	assert.True(t, newChain(b, 0.33).bad, "a third of the time")
	assert.False(t, newChain(b, 0.34).bad)
	assert.False(t, newChain(Burst{ToGood: 1}, 0).bad)
}

// TestRecordedRoundTrips: recorded round trips delay the way down; outages affect both ways.
func TestRecordedRoundTrips(t *testing.T) {
	trace := read(t, ReadRTT, "t_ms,rtt_ms\n0,20\n100,\n200,900\n250,40.5\n")
	o := Options{RTT: trace, Up: Direction{Delay: time.Millisecond}, Down: Direction{Delay: time.Millisecond}}
	assert.Equal(t, 300*time.Millisecond, trace.Length())
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	at := func(o Options, w way, t float64) any {
		f := newEmulator(o, w).arrive(ms(t), 100)
		if f.end != departs {
			return f.end
		}
		return f.due - ms(t)
	}
	assert.Equal(t, ms(1), at(o, wayUp, 0))
	assert.Equal(t, ms(21), at(o, wayDown, 99.9))
	assert.Equal(t, vanished, at(o, wayDown, 100))
	assert.Equal(t, vanished, at(o, wayUp, 199))
	assert.Equal(t, ms(901), at(o, wayDown, 249))
	assert.Equal(t, ms(41.5), at(o, wayDown, 299))
	assert.Equal(t, ms(21), at(o, wayDown, 300))
	assert.Equal(t, vanished, at(o, wayDown, 1000*300+150))
	o.RTTEnd = Clamp
	assert.Equal(t, ms(41.5), at(o, wayDown, 1000*300+150))
	o.RTTOutage = 500 * time.Millisecond
	assert.Equal(t, vanished, at(o, wayUp, 249))
	o.TraceStart = 90 * time.Millisecond
	assert.Equal(t, vanished, at(o, wayUp, 10))
	assert.Equal(t, ms(21), at(o, wayDown, 9.9))

	e := newEmulator(Options{RTT: trace}, wayDown)
	assert.Equal(t, ms(1100), e.arrive(ms(200), 100).due)
	assert.Equal(t, ms(1100), e.arrive(ms(250), 100).due, "no overtaking: late echoes arrive in a burst")
}

// bursts returns the chain that loses a share of all packets, in [0, 1), in bursts with a mean length of packets, min 1
// and min share/(1-share).
func bursts(share, packets float64) Burst {
	return Burst{ToBad: share / (1 - share) / packets, ToGood: 1 / packets}
}
