package cpu

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
)

func TestReadBandwidth(t *testing.T) {
	require.Zero(t, ReadBandwidth(2))
	require.Zero(t, ReadBandwidth(2, nil, []byte{}))
	require.Positive(t, ReadBandwidth(2, make([]byte, 3<<20+5), nil, make([]byte, 7)))
}

// TestRatesLeaveNothing: the workers of a measurement end with it.
func TestRatesLeaveNothing(t *testing.T) {
	held.Same(t, func() { Peak(2); ReadBandwidth(2, make([]byte, 1<<20)) })
}

func TestPeak(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		k.peakBytes.run(3)
		k.peakFloats.run(3)
	})
}

// TestRates: rates are bytes and multiply-adds of all threads in a second. The first pass over the memory does not
// count.
func TestRates(t *testing.T) {
	for threads := range 3 {
		threads++
		bubble.Test(t, func(t *testing.T) {
			memory, calls := make([]byte, 12<<20), atomic.Int64{}
			rate := measureBandwidth(func(p []byte) uint64 {
				took := time.Microsecond
				if calls.Add(1) <= 12 { // while pages are brought in
					took = time.Second
				}
				time.Sleep(took * time.Duration(len(p)>>10))
				return 0
			}, threads, [][]byte{memory[:6<<20], memory[6<<20:]})
			require.InEpsilon(t, float64(threads)*(1<<10)/1e-6, rate, 1e-9)
		})
		bubble.Test(t, func(t *testing.T) {
			workers := pool.New(threads)
			defer workers.Close()
			p := peak{func(n int) uint64 { time.Sleep(time.Duration(n) * time.Microsecond); return 0 }, 7}
			require.InEpsilon(t, float64(threads)*7/1e-6, p.measureRate(workers), 1e-9)
		})
	}
}

func TestPeaksTogether(t *testing.T) {
	bytes, floats := Peak(2)
	require.Positive(t, bytes)
	require.Positive(t, floats)
}
