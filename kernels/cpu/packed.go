package cpu

import "unsafe"

const (
	segment       = 1024    // columns of a panel for few tokens at a time, so that they stay in a first-level cache
	tileTokens    = 16      // tokens of a tile, likewise
	cachedActs    = 1 << 20 // bytes of rounded activations that stay in a second-level cache
	cachedOutputs = 64      // outputs that stay, as panels, in a second-level cache for the next tokens
)

// panel is some rows of a weight, unpacked and interleaved in parts of a [Scratch]: column c of row r is in dword
// c/4·outputs+r, so that a register holds the same four columns of all rows. A pack may use another order of weights.
type panel struct {
	w, ds, mins  []uint32 // interleaved: [N/4, outputs], [N/16, outputs], [N/32, outputs]
	outputs      int
	accumulators int    // of each result
	first, size  int    // the row of the weight that is row 0 of the panel, bytes of a row
	src, next    []byte // the rows of the panel and the rows after it, as they are stored
}

// setPanels makes room for most panels of n columns, one directly after the other.
func (sc *Scratch) setPanels(most, outputs, accumulators, n int) {
	w, ds, mins := outputs*n/4, outputs*n/16, outputs*n/32
	sc.w, sc.ds = growSlice(sc.w, most*w, most*w), growSlice(sc.ds, most*ds, most*ds)
	sc.mins = growSlice(sc.mins, most*mins, most*mins)
	for len(sc.panels) < most {
		sc.panels = append(sc.panels, panel{})
	}
	for i := range most {
		p := &sc.panels[i]
		p.outputs, p.accumulators = outputs, accumulators
		p.w, p.ds, p.mins = sc.w[i*w:(i+1)*w], sc.ds[i*ds:(i+1)*ds], sc.mins[i*mins:(i+1)*mins]
	}
}

// packedGEMM is MatMul for several tokens and quantised weights: it packs rows to panels and multiplies them with all
// tokens.
func (k *kernels) packedGEMM(
	dst []float32, stride int, m Matrix, f format, lo, hi int, x *Acts, add bool, sc *Scratch,
) {
	outputs := k.panelOutputs
	most := max(1, cachedOutputs/outputs)
	sums := most * f.accumulatorCount() * tileTokens * outputs
	sc.acc, sc.out = growSlice(sc.acc, sums, sums), growSlice(sc.out, tileTokens*outputs, tileTokens*outputs)
	if x.T <= tileTokens {
		most = 1
	}
	sc.setPanels(most, outputs, f.accumulatorCount(), m.Cols)
	for o := lo; o < hi; o += most * outputs {
		end := min(o+most*outputs, hi)
		if most == 1 {
			k.panelForFew(dst, stride, m, f, o, end, x, add, sc)
		} else {
			k.panelsForMany(dst, stride, m, f, o, end, x, add, sc)
		}
	}
	sc.pack, sc.tile, sc.sum = packArgs{}, tileArgs{}, sumArgs{}
}

// panelForFew computes the outputs o to end of one panel, in segments that stay in the first-level cache. Half of the
// next panel's memory is prefetched while a segment is packed, half while it is multiplied.
func (k *kernels) panelForFew(
	dst []float32, stride int, m Matrix, f format, o, end int, x *Acts, add bool, sc *Scratch,
) {
	p := &sc.panels[0]
	p.setRows(m, o)
	finish := k.finishes(f, m.Cols, x.T)
	if finish {
		k.setResults(dst[o:], stride, p, o, end, x.T, add, sc)
	} else {
		clear(sc.acc[:p.accumulators*x.T*p.outputs])
	}
	for c := 0; c < m.Cols; {
		n := segment
		if m.Cols-c-n < 256 { // as the last segment needs a block for every accumulator
			n = m.Cols - c
		}
		next := p.next[len(p.next)*c/m.Cols : len(p.next)*(c+n)/m.Cols]
		k.packColumns(p, m, f, c, n, next[:len(next)/2], sc)
		k.multiplySegment(p, f, c, n, x, next[len(next)/2:], finish, sc)
		c += n
	}
	if finish {
		k.storeParts(dst[o:], stride, p, o, end, x.T, add, sc)
	} else {
		k.storePanelSums(dst[o:], stride, sc.acc, p, o, end, x.T, add, sc)
	}
}

// panelsForMany computes the outputs o to end, of several panels, for [tileTokens] tokens at a time or several times as
// many. Meanwhile the rows after them are prefetched.
func (k *kernels) panelsForMany(
	dst []float32, stride int, m Matrix, f format, o, end int, x *Acts, add bool, sc *Scratch,
) {
	outputs := k.panelOutputs
	for i, at := 0, o; at < end; i, at = i+1, at+outputs {
		sc.panels[i].setRows(m, at)
		k.packColumns(&sc.panels[i], m, f, 0, m.Cols, sc.panels[i].next, sc)
	}
	next := m.Data[end*m.RowBytes() : min((2*end-o)*m.RowBytes(), len(m.Data))]
	clear(sc.acc)
	for t, tokens := 0, 0; t < x.T; t += tokens {
		tokens = min(tileTokens, x.T-t)
		finish := k.finishes(f, m.Cols, tokens)
		if finish {
			tokens *= max(1, min((x.T-t)/tileTokens, callProducts/(tileTokens*(end-o)*m.Cols)))
		}
		next, dst := next[len(next)*t/x.T:len(next)*(t+tokens)/x.T], dst[t*stride+o:]
		if finish {
			sc.tile.setPrefetch(next, x.tokensAfter(t+tokens))
			k.finishPanels(dst, stride, f, o, end, x, t, tokens, add, sc)
		} else {
			prefetch(next)
			k.sumPanels(dst, stride, f, o, end, x, t, tokens, add, sc)
		}
	}
}

// sumPanels computes the outputs o to end for the tokens of a tile from t, one or two panels at a time. Output o of
// token t goes to the beginning of dst.
func (k *kernels) sumPanels(
	dst []float32, stride int, f format, o, end int, x *Acts, t, tokens int, add bool, sc *Scratch,
) {
	if k.inPasses {
		clear(sc.acc) // finishPanels leaves sums there
	}
	sc.tile.setPrefetch(nil, nil)
	sums := f.accumulatorCount() * tokens * k.panelOutputs
	for i, at := 0, o; at < end; {
		n := 1
		if k.twoPanels[f] != nil && at+k.panelOutputs < end {
			n = 2
		}
		k.multiplyPanels(sc, i, n, f, x, t, tokens, false)
		for j := range n {
			last := min(at+k.panelOutputs, end)
			k.storePanelSums(dst[at-o:], stride, sc.acc[j*sums:], &sc.panels[i], at, last, tokens, add, sc)
			i, at = i+1, at+k.panelOutputs
		}
	}
}

// finishPanels is sumPanels by a tile that computes results, for the tokens of a tile or several times as many: with
// one call the outputs of all panels that are needed as a whole, then the others.
func (k *kernels) finishPanels(
	dst []float32, stride int, f format, o, end int, x *Acts, t, tokens int, add bool, sc *Scratch,
) {
	whole := (end - o) / k.panelOutputs
	if whole > 0 {
		k.setResults(dst, stride, &sc.panels[0], o, o+whole*k.panelOutputs, tokens, add, sc)
		k.multiplyPanels(sc, 0, whole, f, x, t, tokens, true)
	}
	part := whole * k.panelOutputs
	if o+part == end {
		return
	}
	for i := 0; i < tokens; i += tileTokens {
		p, dst, tokens := &sc.panels[whole], dst[i*stride+part:], min(tileTokens, tokens-i)
		k.setResults(dst, stride, p, o+part, end, tokens, add, sc)
		k.multiplyPanels(sc, whole, 1, f, x, t+i, tokens, true)
		k.storeParts(dst, stride, p, o+part, end, tokens, add, sc)
	}
}

// setResults sets the destination of the results of sc.tile: dst, or sc.out if the outputs o to end are a part of p.
func (k *kernels) setResults(dst []float32, stride int, p *panel, o, end, tokens int, add bool, sc *Scratch) {
	a := &sc.tile
	if o == p.first && end-o >= p.outputs {
		a.dst, a.stride, a.add = unsafe.SliceData(dst[:(tokens-1)*stride+end-o]), stride, add
	} else {
		a.dst, a.stride, a.add = unsafe.SliceData(sc.out[:tokens*p.outputs]), p.outputs, false
	}
}

// storeParts stores the outputs o to end of sc.out, if setResults chose that, in dst, or adds them.
func (k *kernels) storeParts(dst []float32, stride int, p *panel, o, end, tokens int, add bool, sc *Scratch) {
	if o == p.first && end-o >= p.outputs {
		return
	}
	for t := range tokens {
		storeOrAdd(dst[t*stride:][:end-o], sc.out[t*p.outputs+o-p.first:][:end-o], add)
	}
}

// multiplyPanels adds to sc.acc the products of n panels from the i-th, one or two, with some tokens of x from t; or if
// finish is true, it computes the results of any number of them.
func (k *kernels) multiplyPanels(sc *Scratch, i, n int, f format, x *Acts, t, tokens int, finish bool) {
	p := &sc.panels[i]
	multiply := k.tileOf(f, tokens)
	if n == 2 && k.twoPanels[f] != nil {
		multiply = k.twoPanels[f]
	}
	a := &sc.tile
	w, ds, mins := sc.w[i*len(p.w):], sc.ds[i*len(p.ds):], sc.mins[i*len(p.mins):]
	a.setPanel(w[:n*len(p.w)], ds[:n*len(p.ds)], mins[:n*len(p.mins)])
	groups := max(1, tokens/tileTokens)
	tokens /= groups
	a.setAcc(sc.acc[:n*p.accumulators*tokens*p.outputs])
	a.setActs(x.roundedTokens(t, groups*tokens, 0), tokens, x.N)
	if k.inPasses {
		a.setPasses(sc.passes.passesOf(tileWork{n, x.N, p.accumulators, tokens, groups, a.stride, finish, finish}))
	}
	multiply(a)
}

// multiplySegment adds to sc.acc the products of the columns c to c+n of the panel with all tokens of x. If finish is
// true, the last segment computes results.
func (k *kernels) multiplySegment(
	p *panel, f format, c, n int, x *Acts, prefetch []byte, finish bool, sc *Scratch,
) {
	a := &sc.tile
	a.setPanel(p.w[:n*p.outputs/4], p.ds, p.mins)
	a.setAcc(sc.acc[:p.accumulators*x.T*p.outputs])
	a.setActs(x.roundedTokens(0, x.T, c), x.T, x.N)
	a.setPrefetch(prefetch, nil)
	if k.inPasses {
		work := tileWork{1, n, p.accumulators, x.T, 1, 0, finish && c == 0, finish && c+n == x.N}
		a.setPasses(sc.passes.passesOf(work))
	}
	k.tileOf(f, x.T)(a)
}

// storePanelSums puts the sums of acc for the outputs o to end and some tokens at dst, or adds them, and leaves zeros
// in acc.
func (k *kernels) storePanelSums(
	dst []float32, stride int, acc []float32, p *panel, o, end, tokens int, add bool, sc *Scratch,
) {
	a := &sc.sum
	a.n, a.tokens = tokens*p.outputs, tokens
	acc = acc[:p.accumulators*a.n]
	a.acc, a.accumulators = unsafe.SliceData(acc), p.accumulators
	if k.epilogue != nil && o == p.first && end-o == p.outputs {
		a.dst, a.stride, a.add = unsafe.SliceData(dst[:(tokens-1)*stride+p.outputs]), stride, add
		k.epilogue(a)
		return
	}
	out := sc.out[:a.n]
	a.dst, a.stride, a.add = unsafe.SliceData(out), p.outputs, false
	if k.epilogue != nil {
		k.epilogue(a)
	} else {
		k.horizontalSum(a)
		clear(acc)
	}
	for t := range tokens {
		storeOrAdd(dst[t*stride:][:end-o], out[t*p.outputs+o-p.first:][:end-o], add)
	}
}

// setRows sets p to the panel with row o of m. m has enough rows to fill a panel.
func (p *panel) setRows(m Matrix, o int) {
	p.size = m.RowBytes()
	p.first = min(o, m.Rows-p.outputs)
	last := p.first + p.outputs
	p.src = m.Data[p.first*p.size : last*p.size]
	p.next = m.Data[last*p.size : min((last+p.outputs)*p.size, len(m.Data))]
}

func (k *kernels) packColumns(p *panel, m Matrix, f format, c, n int, prefetch []byte, sc *Scratch) {
	elems, size := m.Type.Block()
	a := &sc.pack
	a.w, a.columns = bytesIn(p.w[:n*p.outputs/4]), n
	a.ds, a.mins = floatsIn(p.ds), floatsIn(p.mins)
	a.src, a.stride = unsafe.SliceData(p.src[c/elems*size:]), p.size
	a.setPrefetch(prefetch)
	k.pack[f](a)
}
