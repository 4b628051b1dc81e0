package cpu

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
)

// checkTile compares pack, tile and horizontalSum with gemv: a panel of rows of n weights in format f is multiplied
// with some tokens, and every sum has the same bits.
func checkTile(t *testing.T, k *kernels, f format, in *inputs, n, tokens int) {
	elems, size := f.blockType().Block()
	rowBytes := n / elems * size
	w := in.weights(f, k.panelOutputs, n, in.small)
	x := in.acts(tokens, n, in.small)

	pw, intactW := kerneltest.Guarded[uint32](t, k.panelOutputs*n/4, in.Off&^3)
	pds, intactDs := kerneltest.Guarded[uint32](t, k.panelOutputs*n/16, in.Off&^3)
	pmins, intactMins := kerneltest.Guarded[uint32](t, k.panelOutputs*n/32, in.Off&^3)
	callPack(k.pack[f], pw, pds, pmins, n, w, rowBytes, w[:len(w)/2])
	intactW()
	intactDs()
	intactMins()

	acc, intactAcc := kerneltest.Guarded[float32](t, f.accumulatorCount()*tokens*k.panelOutputs, in.Off&^3)
	clear(acc)
	callTile(k.tileOf(f, tokens), acc, pw, pds, pmins, x, tokens, n, w[len(w)/2:])
	intactAcc()
	out, intactOut := kerneltest.Guarded[float32](t, tokens*k.panelOutputs, in.Off&^3)
	sumUp(k, out, acc)
	intactOut()
	want := make([]float32, len(out))
	callSum(horizontalSumGeneric, want, acc)
	require.Equal(t, want, out)

	one := make([]float32, k.panelOutputs)
	for i := range tokens {
		callGEMV(k.gemv[f], one, w, x.token(i, n))
		got := out[i*k.panelOutputs:][:k.panelOutputs]
		require.Equal(t, one, got, "%v of %d, token %d of %d", f.blockType(), n, i, tokens)
	}
}

// sumUp sets out to the sums of its accumulators, computed by k.
func sumUp(k *kernels, out, acc []float32) {
	if k.epilogue == nil {
		callSum(k.horizontalSum, out, acc)
		return
	}
	tokens := len(out) / k.panelOutputs
	callEpilogue(k.epilogue, out, k.panelOutputs, slices.Clone(acc), len(acc)/len(out), tokens, false)
}

func TestTile(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			for _, n := range []int{1, 64, 96, 256, 512, 896, 2336} {
				for _, tokens := range []int{1, 2, 5, 7, tileTokens} {
					checkTile(t, k, f, newInputs(t, uint64(n), n%7), multiple(f, n), tokens)
				}
			}
			for i := range tileTokens {
				checkTile(t, k, f, newInputs(t, uint64(i), i), multiple(f, 160), i+1)
			}
		}
	})
}

// FuzzTile compares panels with gemv at any shape and alignment, in every variant.
func FuzzTile(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(3), uint8(28), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, form, tokens, blocks, off uint8) {
		ff := format(form) % formats
		for _, k := range offeredKernels() {
			n := multiple(ff, int(blocks%64)*32)
			checkTile(t, k, ff, newInputs(t, seed, int(off%64)), n, 1+int(tokens%tileTokens))
		}
	})
}

// TestEpilogue compares the epilogue of a tile with horizontalSumGeneric.
func TestEpilogue(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		if k.epilogue == nil {
			return
		}
		for _, accumulators := range []int{4, 8} {
			for tokens := 1; tokens <= tileTokens; tokens++ {
				in := newInputs(t, uint64(tokens), 0)
				acc := slices.Clone(in.Floats(accumulators * tokens * k.panelOutputs))
				out := make([]float32, tokens*k.panelOutputs)
				stride := k.panelOutputs + tokens%3
				callSum(horizontalSumGeneric, out, acc)
				for _, add := range []bool{false, true} {
					dst, intact := kerneltest.Guarded[float32](t, (tokens-1)*stride+k.panelOutputs, 0)
					before := in.Floats(len(dst))
					copy(dst, before)
					all := slices.Clone(acc)
					callEpilogue(k.epilogue, dst, stride, all, accumulators, tokens, add)
					intact()
					require.Equal(t, make([]float32, len(all)), all, "elements outside the results")
					for i, v := range dst {
						want := before[i]
						if t, c := i/stride, i%stride; c < k.panelOutputs && add {
							want = before[i] + out[t*k.panelOutputs+c]
						} else if c < k.panelOutputs {
							want = out[t*k.panelOutputs+c]
						}
						require.Equal(t, want, v)
					}
				}
			}
		}
	})
}

// TestPrefetch: prefetching does not fault, even at the end of a page before an unreadable one.
func TestPrefetch(t *testing.T) {
	for n := 1; n < 300; n++ {
		p, intact := kerneltest.Guarded[byte](t, n, 0)
		prefetch(p)
		intact()
	}
	prefetch(nil)
}
