package cpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// spreading is plain Go with groups that take up to eight rows of activations spread, as assembly has them where a
// register holds four blocks.
func spreading() *kernels {
	k := generic()
	k.name, k.spread = "generic, spread", spread
	for f := range formats {
		k.groups[f] = []group{{spreadQuad(k, f), 4, 1, 8}}
	}
	return k
}

// spreadQuad is a leaf for four rows of weights that reads P.
func spreadQuad(k *kernels, f format) groupLeaf {
	return func(dst []float32, stride int, w []byte, x form, rows, n int) {
		size := Matrix{Type: f.typeOf(), Cols: n}.RowBytes()
		q, place, numbers := make([]int8, n), make([]int8, n), make([]int8, n)
		for i := range numbers {
			numbers[i] = int8(i % 128) // of the place in four blocks
		}
		spread(place, numbers, 0)
		for t := range rows {
			for i, from := range place {
				q[i/128*128+int(from)] = x.q[t*n+i]
			}
			b := t * n / actBlock
			end := b + n/actBlock
			k.rows[f](dst[t*stride:][:len(w)/size], w, q, x.d[b:end], x.s[b:end], x.h[2*b:2*end])
		}
	}
}

// TestRoundedIsAllThatProductsTake: activations that are set and rounded, whole or in parts, after others of any shape,
// hold all that the products of a variant take of them: each row gives what it gives alone, up to the eighth, which is
// the last that is spread, and beyond.
func TestRoundedIsAllThatProductsTake(t *testing.T) {
	racing.Spare(t)
	before := chosen
	defer func() { chosen = before }()
	for _, k := range append(variants(), spreading()) {
		chosen = func() (*kernels, error) { return k, nil }
		in := newInputs(t, 4, 0)
		for f := range formats {
			for _, g := range k.groups[f] {
				require.True(t, k.spread == nil || g.most <= spreadMost, "%s: groups take what is not spread", k.name)
			}
		}
		var x Acts
		for _, n := range []int{256, 768, 64} {
			for _, rows := range []int{9, 8, 7, 1, 2, 17, 8, 16, 3, 4, 5, 6} {
				x.Resize(rows, n)
				fill(x.P[:cap(x.P)], 99)
				for r := range rows {
					x.Set(r, in.Floats(n))
					for lo := 0; lo < n; {
						hi := min(n, lo+actBlock*(1+in.IntN(5)))
						x.RoundPart(r, lo, hi)
						lo = hi
					}
				}
				if k.spread != nil && rows <= spreadMost && n%128 == 0 {
					want := make([]int8, rows*n)
					for r := range rows {
						spread(want[r*n:], x.Q[r*n:][:n], 0)
					}
					require.Equal(t, want, x.P, "%s: %d rows of %d", k.name, rows, n)
				}
				for f := range formats {
					if elems, _ := f.typeOf().Block(); n%elems != 0 {
						continue
					}
					const outs = 21
					m := in.matrix(f.typeOf(), outs, n)
					dst, want := make([]float32, rows*outs), make([]float32, outs)
					MatMul(dst, outs, m, 0, outs, &x, false, &Scratch{})
					for r := range rows {
						q, d, s, h := x.rounded(r, 1)
						k.rows[f](want, m.Data, slices.Clone(q), d, s, h)
						require.Equal(t, want, dst[r*outs:][:outs], fmt.Sprintf("%s, %v: row %d of %d", k.name, f.typeOf(), r, rows))
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
