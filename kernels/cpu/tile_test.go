package cpu

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
)

// checkTile holds the leaves for several rows of activations against those for one: a panel of rows of n weights in format f meets
// t rows, and every sum has the same bits.
func checkTile(t *testing.T, k *kernels, f format, in *inputs, n, rows int) {
	elems, size := f.typeOf().Block()
	rowBytes := n / elems * size
	w := in.weights(f, k.wide, n, in.small)
	q, d, s, h := in.acts(rows, n, in.small)

	pw, intactW := kerneltest.Guarded[uint32](t, k.wide*n/4, in.Off&^3)
	pds, intactDs := kerneltest.Guarded[uint32](t, k.wide*n/16, in.Off&^3)
	pmins, intactMins := kerneltest.Guarded[uint32](t, k.wide*n/32, in.Off&^3)
	k.pack[f](bytesIn(pw), floatsIn(pds), floatsIn(pmins), w, rowBytes, w[:len(w)/2])
	intactW()
	intactDs()
	intactMins()

	acc, intactAcc := kerneltest.Guarded[float32](t, f.lanes()*rows*k.wide, in.Off&^3)
	clear(acc)
	k.tileOf(f, rows)(acc, bytesIn(pw), floatsIn(pds), floatsIn(pmins), q, d, s, h, rows, n, nil)
	intactAcc()
	out, intactOut := kerneltest.Guarded[float32](t, rows*k.wide, in.Off&^3)
	k.fold(out, acc)
	intactOut()
	want := make([]float32, len(out))
	foldGeneric(want, acc)
	require.Equal(t, want, out)

	one := make([]float32, k.wide)
	for i := range rows {
		b := n / actBlock
		k.rows[f](one, w, q[i*n:][:n], d[i*b:][:b], s[i*b:][:b], h[2*i*b:][:2*b])
		require.Equal(t, one, out[i*k.wide:][:k.wide], "%v of %d, row %d of %d", f.typeOf(), n, i, rows)
	}
}

func TestTile(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			for _, n := range []int{1, 64, 96, 256, 512, 896, 2336} {
				for _, rows := range []int{1, 2, 5, 7, together} {
					checkTile(t, k, f, newInputs(t, uint64(n), n%7), multiple(f, n), rows)
				}
			}
			for i := range together {
				checkTile(t, k, f, newInputs(t, uint64(i), i), multiple(f, 160), i+1)
			}
		}
	})
}

// FuzzTile holds panels against single rows at any shape and alignment, in every variant.
func FuzzTile(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(3), uint8(28), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, form, rows, blocks, off uint8) {
		ff := format(form) % formats
		for _, k := range variants() {
			checkTile(t, k, ff, newInputs(t, seed, int(off%64)), multiple(ff, int(blocks%64)*32), 1+int(rows%together))
		}
	})
}

// TestSettle holds the leaf that sums up the lanes of a tile where they belong against fold.
func TestSettle(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		if k.settle == nil {
			return
		}
		for _, lanes := range []int{4, 8} {
			for rows := 1; rows <= together; rows++ {
				in := newInputs(t, uint64(rows), 0)
				acc, out := slices.Clone(in.Floats(lanes*rows*k.wide)), make([]float32, rows*k.wide)
				stride := k.wide + rows%3
				k.fold(out, acc)
				for _, add := range []bool{false, true} {
					dst, intact := kerneltest.Guarded[float32](t, (rows-1)*stride+k.wide, 0)
					before := in.Floats(len(dst))
					copy(dst, before)
					all := slices.Clone(acc)
					k.settle(dst, stride, all, rows, add)
					intact()
					require.Equal(t, make([]float32, len(all)), all, "what is left")
					for i, v := range dst {
						want := before[i]
						if row, c := i/stride, i%stride; c < k.wide && add {
							want = before[i] + out[row*k.wide+c]
						} else if c < k.wide {
							want = out[row*k.wide+c]
						}
						require.Equal(t, want, v)
					}
				}
			}
		}
	})
}

// Fetching reads nothing: the end of a page that cannot be read is as good as any.
func TestFetch(t *testing.T) {
	for n := 1; n < 300; n++ {
		p, intact := kerneltest.Guarded[byte](t, n, 0)
		fetch(p)
		intact()
	}
	fetch(nil)
}
