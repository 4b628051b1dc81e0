package cpu

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// interleaving returns plain Go with groups that take up to eight interleaved tokens, as in assembly with registers of
// four blocks.
func interleaving() *kernels {
	k := generic()
	k.name = "generic, interleaved"
	k.interleaved = true
	k.round = func(a *actsArgs) {
		roundGeneric(a)
		if a.p != nil {
			end := (a.from + a.n/actBlock + 3) / 4 * 4 * actBlock
			interleave(unsafe.Slice(a.p, end), unsafe.Slice(a.q, a.n), a.from)
		}
	}
	for f := range formats {
		k.smallGEMMs[f] = []smallGEMM{{interleavedGEMM4(k, f), 4, 1, 8}}
	}
	return k
}

// interleavedGEMM4 returns a small GEMM of four outputs that reads P.
func interleavedGEMM4(k *kernels, f format) gemm {
	return func(a *gemmArgs) {
		n, w := a.n, unsafe.Slice(a.w, a.wBytes)
		rows := len(w) / Matrix{Type: f.blockType(), Cols: n}.RowBytes()
		dst, x := unsafe.Slice(a.dst, (a.tokens-1)*a.stride+rows), activationsOf(a.q, a.d, a.s, a.h, a.tokens*n)
		q, place, numbers := make([]int8, n), make([]int8, n), make([]int8, n)
		for i := range numbers {
			numbers[i] = int8(i % 128) // of the place in four blocks
		}
		interleave(place, numbers, 0)
		for t := range a.tokens {
			for i, from := range place {
				q[i/128*128+int(from)] = x.q[t*n+i]
			}
			one := x.token(t, n)
			one.q = q
			callGEMV(k.gemv[f], dst[t*a.stride:][:rows], w, one)
		}
	}
}

// TestRoundedIsAllThatProductsTake: activations that are set and rounded, completely or in parts, after others of any
// shape, contain everything that the products of a variant need: each token gives the same result as alone, up to the
// eighth, which is the last interleaved one, and beyond.
func TestRoundedIsAllThatProductsTake(t *testing.T) {
	racing.Spare(t)
	before := chosen
	defer func() { chosen = before }()
	for _, k := range append(offeredKernels(), interleaving()) {
		chosen = func() (*kernels, error) { return k, nil }
		in := newInputs(t, 4, 0)
		for f := range formats {
			for _, g := range k.smallGEMMs[f] {
				fits := !k.interleaved || g.most <= interleavedTokens
				require.True(t, fits, "%s takes tokens that are not interleaved", k.name)
			}
		}
		var x Acts
		for _, n := range []int{256, 768, 64} {
			for _, tokens := range []int{9, 8, 7, 1, 2, 17, 8, 16, 3, 4, 5, 6} {
				x.Resize(tokens, n)
				fill(x.P[:cap(x.P)], 99)
				for i := range tokens {
					x.Set(i, in.Floats(n))
					for lo := 0; lo < n; {
						hi := min(n, lo+actBlock*(1+in.IntN(5)))
						x.RoundPart(i, lo, hi)
						lo = hi
					}
				}
				if k.interleaved && tokens <= interleavedTokens && n%128 == 0 {
					want := make([]int8, tokens*n)
					for i := range tokens {
						interleave(want[i*n:], x.Q[i*n:][:n], 0)
					}
					require.Equal(t, want, x.P, "%s: %d tokens of %d", k.name, tokens, n)
				}
				for f := range formats {
					if elems, _ := f.blockType().Block(); n%elems != 0 {
						continue
					}
					const outs = 21
					m := in.matrix(f.blockType(), outs, n)
					dst, want := make([]float32, tokens*outs), make([]float32, outs)
					MatMul(dst, outs, m, 0, outs, &x, false, &Scratch{})
					for i := range tokens {
						one := x.roundedTokens(i, 1, 0)
						one.q = slices.Clone(one.q)
						callGEMV(k.gemv[f], want, m.Data, one)
						got := dst[i*outs:][:outs]
						require.Equal(t, want, got, "%s, %v: token %d of %d", k.name, f.blockType(), i, tokens)
					}
				}
			}
		}
	}
}

// fill sets all of p.
func fill(p []int8, v int8) {
	for i := range p {
		p[i] = v
	}
}
