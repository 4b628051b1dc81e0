//go:build seeded

package bubble

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	_ "unsafe" // for go:linkname
)

// Exact reports whether all that happens in Seeded follows from its seed.
const Exact = true

//go:linkname setBubbleSeed runtime.setBubbleSeed
func setBubbleSeed(seed uint64)

// Seeded runs f in a bubble, like Test. All that happens there follows from the seed, if nothing else ran in the
// process before, and nothing runs beside it: random numbers, also those of package crypto, and which goroutine runs
// when. It needs one thread, and no garbage collection. The test must not be parallel.
func Seeded(t *testing.T, seed uint64, f func(*testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30)) // rather than an exhausted machine
	cryptotest.SetGlobalRandom(t, seed)
	setBubbleSeed(seed*2 + 1) // 0 means that there is none
	defer setBubbleSeed(0)
	Test(t, f)
}
