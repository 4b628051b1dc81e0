package cpu

import "slices"

// tilePasses are the passes of a tile of AMX, and as many after them as the tile loads in advance.
type tilePasses []tilePass

const (
	passBlocks      = 32 // blocks in a segment, whose activations stay in a first-level cache
	tilePassesAfter = 3

	tiledBytes = 4 * 2 * tileTokens // of a block in tiled of [Acts]
)

// tileWork is what a tile of AMX computes with one call: the products of some panels of n columns with some tokens, or
// with some groups of as many tokens.
type tileWork struct {
	panels, n, accumulators, tokens, groups int
	stride                                  int  // of the results of groups after the first
	first, last                             bool // whether these are the first columns of a weight, and the last ones
}

// merge is an accumulator that is complete, and those that are added to it then, the last one first. From then on it
// stands for all of them.
type merge struct {
	accumulator int
	add         []int
}

// mergeOrder returns 4 or 8 accumulators in the order in which they are completed. The last one is then the sum of all,
// in the order of accumulators.sum.
func mergeOrder(accumulators int) []merge {
	if accumulators == 4 {
		return []merge{{0, nil}, {2, []int{0}}, {1, nil}, {3, []int{2, 1}}}
	}
	return []merge{
		{0, nil}, {4, []int{0}}, {2, nil}, {6, []int{4, 2}}, {1, nil}, {5, []int{1}}, {3, nil}, {7, []int{6, 5, 3}},
	}
}

// appendPasses appends the passes of the work: for each group and segment of columns, panel after panel. The last
// segment has a block for every accumulator if the work has.
func (p tilePasses) appendPasses(w tileWork) tilePasses {
	blocks := w.n / actBlock
	for group := range w.groups {
		for from := 0; from < blocks; {
			to := from + passBlocks
			if blocks-to <= passBlocks/2 {
				to = blocks
			}
			for panel := range w.panels {
				p = p.appendPanel(w, group, panel, from, to)
			}
			from = to
		}
	}
	after := p[0]
	after.qEnd = after.q + actBlock*w.accumulators
	for range tilePassesAfter {
		p = append(p, after)
	}
	return p
}

// appendPanel appends the passes of a panel with a group for the blocks from to to. Groups use the same accumulators.
func (p tilePasses) appendPanel(w tileWork, group, panel, from, to int) tilePasses {
	const outputs = 16
	blocks, token := w.n/actBlock, group*w.tokens
	acc := func(a int) int { return 4 * outputs * w.tokens * (panel*w.accumulators + a) }
	for i, m := range mergeOrder(w.accumulators) {
		// Block 0 is that of accumulator 0, here and in the whole weight.
		first := from + m.accumulator
		if first >= to {
			continue
		}
		at := panel*blocks + first
		pass := tilePass{
			q: token*w.n + actBlock*first, tiled: 4*2*token*blocks + tiledBytes*first,
			w: actBlock * outputs * at, ds: 8 * outputs * at, mins: 4 * outputs * at,
			acc: acc(m.accumulator), dst: 4 * (token*w.stride + outputs*panel),
			first: w.first && from == 0,
		}
		next := (to - first + w.accumulators - 1) / w.accumulators * w.accumulators // blocks after the pass
		pass.qEnd, pass.tiledEnd = pass.q+actBlock*next, pass.tiled+tiledBytes*next
		if w.last && to == blocks {
			pass.last = i == w.accumulators-1
			pass.adds = len(m.add)
			for j, a := range m.add {
				pass.add[j] = acc(a)
			}
		}
		p = append(p, pass)
	}
	return p
}

// finishes reports whether a call for some tokens and whole weights of n columns computes results and not the sums of
// accumulators. That takes a block for every accumulator.
func (k *kernels) finishes(f format, n, tokens int) bool {
	return k.inPasses && tokens >= k.tileLeast && n/actBlock >= f.accumulatorCount()
}

// passCache holds the passes of the last few works: a weight has different ones for its first segment, the next ones
// and the last, and for fewer panels or tokens at its end.
type passCache struct {
	works  [6]tileWork
	passes [6]tilePasses
	oldest int
}

func (c *passCache) passesOf(w tileWork) tilePasses {
	i := slices.Index(c.works[:], w)
	if i < 0 {
		i = c.oldest
		c.oldest = (i + 1) % len(c.works)
		c.works[i], c.passes[i] = w, c.passes[i][:0].appendPasses(w)
	}
	return c.passes[i]
}

// tiledScales returns tiled of [Acts] for up to [tileTokens] tokens, from D and S.
func tiledScales(d, s []float32, tokens int) []float32 {
	blocks := len(d) / tokens
	tiled := make([]float32, 2*tileTokens*blocks)
	for t := range tokens {
		for b := range blocks {
			tiled[2*tileTokens*b+t], tiled[tileTokens*(2*b+1)+t] = d[t*blocks+b], s[t*blocks+b]
		}
	}
	return tiled
}
