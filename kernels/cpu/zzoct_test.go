package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type octLeaf func(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)

var zzocts = map[format]octLeaf{q8_0: octQ8_0VNNI, q4_0: octQ4_0VNNI, q5_0: octQ5_0VNNI}

func TestOct(t *testing.T) {
	k := avx512vnni()
	for f, oct := range zzocts {
		for _, n := range []int{128, 256, 896, 4864} {
			for acts := 1; acts <= 8; acts++ {
				rows := 24
				in := newInputs(t, 1, 0)
				w := in.weights(f, rows, n, in.small)
				q, d, s, h := in.acts(acts, n, in.small)
				dst := make([]float32, acts*rows)
				oct(dst, rows, w, q, d, s, h, acts, n)
				want := make([]float32, rows)
				for i := range acts {
					k.rows[f](want, w, q[i*n:][:n], d[i*n/block:][:n/block], s[i*n/block:][:n/block], h[i*n/16:][:n/16])
					require.Equal(t, want, dst[i*rows:][:rows], "activations %d of %d", i, acts)
				}
			}
		}
	}
}

func BenchmarkOct(b *testing.B) {
	k := kernelsInUse()
	for _, f := range []format{q8_0, q5_0, q4_0} {
		if zzocts[f] == nil {
			continue
		}
		for _, mem := range []bool{false, true} {
			for _, cols := range []int{1024} {
				b.Run(fmt.Sprintf("%v/%d/%v", f.typeOf(), cols, mem), func(b *testing.B) {
					in := newInputs(b, 1, 0)
					rows := 4 << 20 / cols &^ 7
					if !mem {
						rows = 1 << 17 / cols &^ 7
					}
					m := in.matrix(f.typeOf(), rows, cols)
					all := []Matrix{m}
					if mem {
						all = far(m)
					}
					x := in.input(8, cols)
					dst := make([]float32, 8*rows)
					batches := []int{1, 2, 3, 4, 5, 6, 8}
					took := [2][]([]float64){make([][]float64, len(batches)), make([][]float64, len(batches))}
					i := 0
					var sc Scratch
					for b.Loop() {
						for l := range 2 {
							for bi, acts := range batches {
								m := all[i%len(all)]
								i++
								xx := *x
								xx.T = acts
								q, d, s, h := x.rounded(0, acts)
								start := time.Now()
								for range max(1, 1<<20/cols/rows) {
									if l == 0 {
										k.matMul(dst, rows, m, 0, rows, &xx, false, &sc)
									} else {
										n := max(8, leafBytes/m.RowBytes()&^7)
										for o := 0; o < rows; o += n {
											end := min(o+n, rows)
											zzocts[f](dst[o:], rows, m.rows(o, end), q, d, s, h, acts, cols)
										}
									}
								}
								took[l][bi] = append(took[l][bi], float64(time.Since(start).Nanoseconds())/float64(max(1, 1<<20/cols/rows)))
							}
						}
					}
					for l, name := range []string{"old", "oct"} {
						out := name
						for bi, acts := range batches {
							v := took[l][bi]
							slices.Sort(v)
							t := v[len(v)/4]
							out += fmt.Sprintf("  %d: %.1f", acts, t*4.1/(float64(rows*cols)/512))
						}
						b.Log("cycles/512 " + out)
					}
				})
			}
		}
	}
}
