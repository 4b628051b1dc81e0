package soft

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// contractSource leaves x·x + y, written as a product and a sum.
const contractSource = `
#include <metal_stdlib>
using namespace metal;
%s
kernel void square(device float *out [[buffer(0)]], device const float *in [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
	out[i] = in[0] * in[0] + in[1];
}
`

// TestContract: #pragma METAL fp contract decides whether a separate product and sum become one fma, also in the
// variant with fast arithmetic. x·x - round(x·x) is zero if each is rounded.
func TestContract(t *testing.T) {
	x := float32(1 + 1.0/(1<<12))
	square := x * x
	fused := float32(math.FMA(float64(x), float64(x), -float64(square)))
	require.NotZero(t, fused)
	for _, c := range []struct {
		variant Variant
		pragma  string
		want    float32
	}{
		{Fast, "", 0},
		{Fast, "#pragma METAL fp contract(off)", 0},
		{Fast, "#pragma METAL fp contract(fast)", fused},
		{FastMath, "", fused},
		{FastMath, "#pragma  METAL fp  contract( off )", 0},
		{FastMath, "#pragma METAL fp contract(on)", fused},
	} {
		d := open(t, Options{Variant: c.variant})
		l, err := d.NewLibrary(fmt.Sprintf(contractSource, c.pragma))
		require.NoError(t, err)
		p, err := l.NewPipeline("square")
		require.NoError(t, err)
		out := floats(t, d, 1)
		commands, err := d.NewCommands()
		require.NoError(t, err)
		commands.SetPipeline(p)
		commands.SetBuffer(0, out, 0)
		commands.SetBuffer(1, floats(t, d, x, -square), 0)
		commands.Dispatch(metal.Size{X: 1, Y: 1, Z: 1}, metal.Size{X: 1, Y: 1, Z: 1})
		commands.Commit()
		_, err = commands.Wait()
		require.NoError(t, err)
		assert.Equal(t, c.want, values(out)[0], "%s with %q", c.variant, c.pragma)
	}
}
