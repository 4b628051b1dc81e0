package cpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTilePasses: the passes of a work add every block of every panel and group to its accumulator once, in ascending
// order, and the accumulators of a result in the order of horizontalSum.
func TestTilePasses(t *testing.T) {
	for _, accumulators := range []int{4, 8} {
		for _, blocks := range []int{8, 9, 31, 32, 33, 48, 49, 71, 152, 280} {
			for _, w := range []tileWork{
				{panels: 1, groups: 1, tokens: 7},
				{panels: 4, groups: 1, tokens: 16, first: true, last: true},
				{panels: 3, groups: 2, tokens: 16, first: true, last: true},
				{panels: 1, groups: 1, tokens: 6, first: true},
				{panels: 1, groups: 1, tokens: 6, last: true},
			} {
				w.n, w.accumulators, w.stride = blocks*actBlock, accumulators, 100
				t.Run(fmt.Sprintf("%+v", w), func(t *testing.T) { checkPasses(t, w) })
			}
		}
	}
}

// checkPasses computes with numbers in place of products: one for each block of a panel and group.
func checkPasses(t *testing.T, w tileWork) {
	in := newInputs(t, 1, 0)
	blocks := w.n / actBlock
	products, before := in.Floats(w.groups*w.panels*blocks), in.Floats(w.panels*w.accumulators)
	acc := append([]float32(nil), before...)
	got := map[int]float32{}
	passes := tilePasses{}.appendPasses(w)
	for _, p := range passes[:len(passes)-tilePassesAfter] {
		place := p.acc / (4 * 16 * w.tokens)
		sum := acc[place]
		if p.first {
			sum = 0
		}
		group := p.q / (w.tokens * w.n)
		for q := p.q; q < p.qEnd; q += actBlock * w.accumulators {
			block := (q - group*w.tokens*w.n) / actBlock
			offset := (q - p.q) / actBlock
			require.Equal(t, place%w.accumulators, block%w.accumulators)
			require.Equal(t, tiledBytes*(group*w.tokens/tileTokens*blocks+block), p.tiled+tiledBytes*offset)
			panel := (p.w/(16*actBlock) + offset - block) / blocks
			require.Equal(t, place/w.accumulators, panel)
			require.Equal(t, []int{8 * 16 * (panel*blocks + block), 4 * 16 * (panel*blocks + block)},
				[]int{p.ds + 8*16*offset, p.mins + 4*16*offset})
			sum += products[(group*w.panels+panel)*blocks+block]
		}
		require.Equal(t, (p.qEnd-p.q)/actBlock*tiledBytes, p.tiledEnd-p.tiled)
		for i := p.adds - 1; i >= 0; i-- {
			sum += acc[p.add[i]/(4*16*w.tokens)]
		}
		if acc[place] = sum; p.last {
			got[p.dst] = sum
		}
	}
	want := map[int]float32{}
	for group := range w.groups {
		sums := append([]float32(nil), before...)
		for panel := range w.panels {
			of := sums[panel*w.accumulators:][:w.accumulators]
			if w.first {
				clear(of)
			}
			for b := range blocks {
				of[b%w.accumulators] += products[(group*w.panels+panel)*blocks+b]
			}
			var out [1]float32
			sumAccumulators(out[:], of)
			want[4*(group*w.tokens*w.stride+16*panel)] = out[0]
		}
		before = sums
	}
	if w.last {
		require.Equal(t, want, got)
		return
	}
	require.Equal(t, before, acc)
}

// TestManyTokens: tiles of tokens, with one call or more, and the tokens that are left give the bits of gemv, however
// many columns the last segment has.
func TestManyTokens(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			for _, n := range []int{32, 160, 1056, 1600} {
				for _, tokens := range []int{11, 37, 48, 70} {
					n := multiple(f, n)
					in := newInputs(t, uint64(n), 0)
					const rows = 69
					m, x := in.matrix(f.blockType(), rows, n), in.input(tokens, n)
					dst, one := make([]float32, tokens*rows), make([]float32, rows)
					k.matMul(dst, rows, m, 0, rows, x, false, &Scratch{})
					for i := range tokens {
						callGEMV(k.gemv[f], one, m.Data, x.roundedTokens(i, 1, 0))
						require.Equal(t, one, dst[i*rows:][:rows], "%v of %d: token %d of %d", m.Type, n, i, tokens)
					}
				}
			}
		}
	})
}
