package link

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seeds returns a source of random numbers for the seed n.
func seeds(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 0x11)) }

// capacityText returns a trace of n chances, with gaps and with several chances in one millisecond.
func capacityText(r *rand.Rand, n int) string {
	var b strings.Builder
	ms := 0
	for range n {
		if r.IntN(3) > 0 {
			ms += r.IntN(8)
		}
		if r.IntN(50) == 0 {
			ms += r.IntN(300)
		}
		fmt.Fprintln(&b, ms)
	}
	fmt.Fprintln(&b, ms+1)
	return b.String()
}

// rttText returns a trace of n round trips, some of them long, a few lost.
func rttText(r *rand.Rand, n int) string {
	var b strings.Builder
	b.WriteString("speed_mps,t_ms,rtt_ms\n")
	ms := r.IntN(20)
	for range n {
		rtt := fmt.Sprint(10 + r.IntN(30))
		switch r.IntN(20) {
		case 0:
			rtt = ""
		case 1:
			rtt = "812.5"
		}
		fmt.Fprintf(&b, "0,%d,%s\n", ms, rtt)
		ms += 1 + r.IntN(60)
	}
	return b.String()
}

// read parses a valid trace.
func read[T any](t testing.TB, f func(io.Reader, string) (*T, error), text string) *T {
	t.Helper()
	trace, err := f(strings.NewReader(text), "own")
	require.NoError(t, err)
	return trace
}

// some returns a random time below limit, and often 0.
func some(r *rand.Rand, limit time.Duration) time.Duration {
	if r.IntN(3) == 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(limit)))
}

// share returns a random number in [0, limit), and often 0.
func share(r *rand.Rand, limit float64) float64 {
	if r.IntN(3) == 0 {
		return 0
	}
	return r.Float64() * limit
}

// anyDirection returns random valid options.
func anyDirection(t testing.TB, r *rand.Rand) Direction {
	d := Direction{
		Delay: some(r, 300*time.Millisecond), Loss: share(r, 0.3), Queue: 3000 + r.IntN(100_000),
	}
	if r.IntN(2) == 0 {
		d.Capacity = read(t, readCapacity, capacityText(r, 1+r.IntN(300)))
	}
	return d
}

// anyOptions returns random valid options.
func anyOptions(t testing.TB, r *rand.Rand) Options {
	o := Options{Target: "127.0.0.1:1", Seed: r.Uint64(), Up: anyDirection(t, r), Down: anyDirection(t, r),
		TraceStart: some(r, 10*time.Second)}
	if r.IntN(2) == 0 {
		o.RTT = read(t, ReadRTT, rttText(r, 2+r.IntN(200)))
	}
	return o
}

// packet arrives at an emulator.
type packet struct {
	at   time.Duration
	size int
}

// traffic returns random packets: single ones, and bursts.
func traffic(r *rand.Rand, n int) []packet {
	packets := make([]packet, n)
	at := time.Duration(0)
	for i := range packets {
		if r.IntN(4) > 0 {
			at += time.Duration(r.ExpFloat64() * float64(4*time.Millisecond))
		}
		packets[i] = packet{at, headerBytes + r.IntN(1473)}
	}
	return packets
}

// travel sends packets through one direction of a link.
func travel(o Options, w directionID, packets []packet) []packetResult {
	e := newEmulator(o, w)
	fates := make([]packetResult, len(packets))
	for i, p := range packets {
		fates[i] = e.emulatePacket(p.at, p.size)
	}
	return fates
}
