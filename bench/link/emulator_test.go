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
func forHistories(t *testing.T, f func(t *testing.T, o Options, w directionID, packets []packet)) {
	t.Helper()
	for n := range uint64(histories()) {
		r := seeds(n)
		o := anyOptions(t, r)
		packets := traffic(r, 500)
		w := []directionID{directionUp, directionDown}[n%2]
		f(t, o, w, packets)
		if t.Failed() {
			t.Fatalf("history %d, way %d: %+v", n, w, o)
		}
	}
}

// direction returns the direction of o that w selects, with defaults.
func direction(o Options, w directionID) Direction {
	if w == directionUp {
		return o.Up.withDefaults()
	}
	return o.Down.withDefaults()
}

// TestFates: every packet has one fate. A packet departs in order, after the delay, and without recorded round trips at
// once after that.
func TestFates(t *testing.T) {
	forHistories(t, func(t *testing.T, o Options, w directionID, packets []packet) {
		d := direction(o, w)
		last := time.Duration(0)
		for i, f := range travel(o, w, packets) {
			wrong := ""
			switch {
			case f.n != uint64(i):
				wrong = "it has another number"
			case f.end != departs:
				continue
			case f.across < packets[i].at:
				wrong = "it is across before it came"
			case f.due < f.across+d.Delay:
				wrong = "it departs before the delay is over"
			case f.due < last:
				wrong = "it overtakes another one"
			case (o.RTT == nil || w == directionUp) && f.due > f.across+d.Delay:
				wrong = "it is late"
			}
			if wrong != "" {
				t.Fatalf("packet %d: %s: %+v", i, wrong, f)
			}
			last = f.due
		}
	})
}

// TestRepeatable: equal seeds and arrivals give equal fates; another seed or direction gives others.
func TestRepeatable(t *testing.T) {
	other := 0
	forHistories(t, func(t *testing.T, o Options, w directionID, packets []packet) {
		once := travel(o, w, packets)
		require.Equal(t, once, travel(o, w, packets))
		o.Seed++
		o.Up, o.Down, o.RTT = Direction{Loss: 0.5}, Direction{Loss: 0.5}, nil
		if !slices.Equal(travel(o, w, packets), once) {
			other++
		}
		require.NotEqual(t, travel(o, directionUp, packets), travel(o, directionDown, packets))
	})
	assert.Equal(t, histories(), other)
}

// TestChanceIsOfThePacketAlone: the random decisions about packet n do not depend on sizes, times and other options.
func TestChanceIsOfThePacketAlone(t *testing.T) {
	bare := Options{Seed: 7, Up: Direction{Loss: 0.2}}
	want := travel(bare, directionUp, traffic(seeds(1), 5000))
	full := bare
	full.Up.Delay, full.Up.Capacity, full.Up.Queue = time.Minute, read(t, readCapacity, "75\n"), 4000
	dropped := 0
	for i, f := range travel(full, directionUp, traffic(seeds(2), 5000)) {
		if f.end == tailDrop {
			dropped++
			continue
		}
		require.Equal(t, want[i].end, f.end, i)
	}
	assert.Positive(t, dropped)
}

// TestBottleneck: over any window the bottleneck passes no more than its trace allows, besides the packet
// that was in transmission when the window began. Its queue is never longer than allowed, it drops packets only if the
// queue is full, and it is never idle while packets wait.
func TestBottleneck(t *testing.T) {
	forHistories(t, func(t *testing.T, o Options, w directionID, packets []packet) {
		d := direction(o, w)
		if d.Capacity == nil {
			return
		}
		fates := travel(o, w, packets)
		var across []queuedPacket
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
				across = append(across, queuedPacket{f.across, packets[i].size})
			}
		}
		checkWindows(t, o, d, across)
		require.Equal(t, mahimahi(d, o.TraceStart, packets, fates), across)
	})
}

// checkWindows checks every window that begins with the end of one packet and ends with that of another.
func checkWindows(t *testing.T, o Options, d Direction, across []queuedPacket) {
	t.Helper()
	for i := range across {
		chances := int64(0) // of the trace in the window; the chance that the first packet ended in may carry others
		first := d.Capacity.firstChance(across[i].across + o.TraceStart)
		sum := 0 // of the packets after the first
		for _, c := range across[i+1:] {
			sum += c.size
			for d.Capacity.chanceTime(first+chances) <= c.across+o.TraceStart {
				chances++
			}
			if may := int(chances) * chanceBytes; sum > may {
				t.Fatalf("from packet %d at %v to %v: %d bytes instead of max %d", i, across[i].across,
					c.across, sum, may)
			}
		}
	}
}

// mahimahi simulates the same bottleneck chance by chance, for the packets that the queue accepted.
func mahimahi(d Direction, begin time.Duration, packets []packet, fates []packetResult) []queuedPacket {
	var queue []packet
	for i, p := range packets {
		if fates[i].end != tailDrop {
			queue = append(queue, p)
		}
	}
	var across []queuedPacket
	rest := 0
	for k := int64(0); len(across) < len(queue); k++ {
		at := d.Capacity.chanceTime(k) - begin
		for left := chanceBytes; left > 0 && len(across) < len(queue) && queue[len(across)].at <= at; {
			p := queue[len(across)]
			if rest == 0 {
				rest = p.size
			}
			used := min(rest, left)
			if rest, left = rest-used, left-used; rest == 0 {
				across = append(across, queuedPacket{at, p.size})
			}
		}
	}
	return across
}

// TestShares: the share of lost packets is that in the options.
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
			losses := 0
			for i, f := range travel(Options{Seed: seed, Down: Direction{Loss: p}}, directionDown, packets) {
				if f.end == lost {
					losses++
				} else if f.due != packets[i].at {
					t.Fatalf("packet %d departs at %v", i, f.due)
				}
			}
			assert.InDelta(t, p, float64(losses)/n, 5*math.Sqrt(p*(1-p)/n), what)
		}
	}
}

// TestTransparent: a transparent link changes nothing.
func TestTransparent(t *testing.T) {
	packets := traffic(seeds(5), 1000)
	for i, f := range travel(Options{}, directionUp, packets) {
		require.Equal(t, packetResult{n: uint64(i), across: packets[i].at, due: packets[i].at}, f)
	}
}

// TestCapacity: a burst leaves a narrow link packet by packet, and the queue reports the waiting bytes.
func TestCapacity(t *testing.T) {
	e := newEmulator(Options{Up: Direction{Capacity: read(t, readCapacity, "10\n"), Queue: 4500}}, directionUp)
	for i := range 3 {
		assert.Equal(t, time.Duration(i+1)*10*time.Millisecond, e.emulatePacket(0, 1500).due)
	}
	assert.Equal(t, tailDrop, e.emulatePacket(0, 1).end, "the queue is full to the last byte")
	assert.Equal(t, 4500, e.narrow.queuedBytes(0))
	assert.Equal(t, 3000, e.narrow.queuedBytes(10*time.Millisecond))
	assert.Equal(t, 40*time.Millisecond, e.emulatePacket(10*time.Millisecond, 1500).due)
	assert.Equal(t, 1010*time.Millisecond, e.emulatePacket(1001*time.Millisecond, 1500).due)
	assert.Equal(t, 2*time.Second+90*time.Millisecond, e.emulatePacket(2*time.Second, 15_000).due,
		"a single packet that is longer than the queue passes")
}

// TestQueueByDefault: without a limit in the options, 256 KiB wait for a capacity.
func TestQueueByDefault(t *testing.T) {
	e := newEmulator(Options{Down: Direction{Capacity: read(t, readCapacity, "86400000\n")}}, directionDown)
	for i := range 257 {
		assert.Equal(t, i == 256, e.emulatePacket(0, 1024).end == tailDrop, i)
	}
}

// TestRecordedRoundTrips: recorded round trips delay the way down; outages affect both ways.
func TestRecordedRoundTrips(t *testing.T) {
	trace := read(t, ReadRTT, "t_ms,rtt_ms\n0,20\n100,\n200,900\n250,40.5\n")
	o := Options{RTT: trace, Up: Direction{Delay: time.Millisecond}, Down: Direction{Delay: time.Millisecond}}
	assert.Equal(t, 300*time.Millisecond, trace.Length())
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	at := func(o Options, w directionID, t float64) any {
		f := newEmulator(o, w).emulatePacket(ms(t), 100)
		if f.end != departs {
			return f.end
		}
		return f.due - ms(t)
	}
	assert.Equal(t, ms(1), at(o, directionUp, 0))
	assert.Equal(t, ms(21), at(o, directionDown, 99.9))
	assert.Equal(t, vanished, at(o, directionDown, 100))
	assert.Equal(t, vanished, at(o, directionUp, 199))
	assert.Equal(t, ms(901), at(o, directionDown, 249))
	assert.Equal(t, ms(41.5), at(o, directionDown, 299))
	assert.Equal(t, ms(21), at(o, directionDown, 300))
	assert.Equal(t, vanished, at(o, directionDown, 1000*300+150))
	o.TraceStart = 90 * time.Millisecond
	assert.Equal(t, vanished, at(o, directionUp, 10))
	assert.Equal(t, ms(21), at(o, directionDown, 9.9))

	e := newEmulator(Options{RTT: trace}, directionDown)
	assert.Equal(t, ms(1100), e.emulatePacket(ms(200), 100).due)
	assert.Equal(t, ms(1100), e.emulatePacket(ms(250), 100).due, "no overtaking: late echoes arrive in a burst")
}
