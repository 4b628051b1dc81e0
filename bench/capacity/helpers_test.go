package capacity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// linear returns the costs of a pass that takes a fixed time plus a time for each row and each head after the first, in
// milliseconds.
func linear(pass, row, head float64) Costs {
	c := Costs{Threads: 2, Depth: 100}
	for _, n := range []int{1, 2, 16, 128} {
		ms := pass + row*float64(n)
		c.Passes = append(c.Passes, Pass{n, ms, ms + head*float64(n-1)})
	}
	return c
}

// usual returns a workload like that of short questions.
func usual() Workload {
	return Workload{Prompt: 130, Tokens: 25, Think: 30 * time.Second, RTT: 100 * time.Millisecond, EdgeTPS: 50,
		Budget: 0.07, Turned: 0.1}
}

// ms returns x milliseconds.
func ms(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }

// simulated runs a simulation that must succeed.
func simulated(t testing.TB, w Workload, c Costs, mode Mode, devices, gateways int, window Window) Point {
	t.Helper()
	p, err := simulate(t.Context(), &w, &c, mode, devices, gateways, window)
	require.NoError(t, err)
	return p
}
