package cpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
)

// checkRound compares the rounding of x with that of plain Go, bit by bit.
func checkRound(t *testing.T, k *kernels, in *inputs, x []float32) {
	n := len(x)
	q, intactQ := kerneltest.Guarded[int8](t, n, in.Off)
	d, intactD := kerneltest.Guarded[float32](t, n/actBlock, in.Off&^3)
	s, intactS := kerneltest.Guarded[float32](t, n/actBlock, in.Off&^3)
	h, intactH := kerneltest.Guarded[int16](t, n/16, in.Off&^1)
	callRound(k.round, q, d, s, h, x)
	intactQ()
	intactD()
	intactS()
	intactH()
	wantQ, wantD, wantS := make([]int8, n), make([]float32, n/actBlock), make([]float32, n/actBlock)
	wantH := make([]int16, n/16)
	callRound(roundGeneric, wantQ, wantD, wantS, wantH, x)
	require.Equal(t, wantH, h)
	require.Equal(t, wantQ, q)
	for b := range d {
		if wantD[b] != wantD[b] {
			require.True(t, d[b] != d[b] && s[b] != s[b])
			continue
		}
		require.Equal(t, wantD[b], d[b])
		require.Equal(t, wantS[b], s[b])
		for i := range actBlock {
			v := x[b*actBlock+i]
			require.InDelta(t, v, float64(d[b])*float64(q[b*actBlock+i]), math.Abs(float64(d[b]))*0.50001+tiny)
			require.NotEqual(t, int8(-128), q[b*actBlock+i])
		}
	}
}

func TestRound(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, v := range []float32{
			0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, tiny, -tiny,
			math.Nextafter32(tiny, 0), tiny / 2, math.SmallestNonzeroFloat32,
			1e-38, 127, 63.5, nan, inf, -inf,
		} {
			x := make([]float32, 96)
			in := newInputs(t, 1, 0)
			for i := range x {
				x[i] = v * in.Float32()
			}
			x[40] = v
			checkRound(t, k, in, x)
		}
		for i := range uint64(50) {
			in := newInputs(t, i, int(i))
			x := in.Floats(128)
			for j := range x {
				x[j] = float32(math.Ldexp(float64(x[j]), in.IntN(200)-100))
			}
			checkRound(t, k, in, x)
		}
	})
}
