package cpu

import "unsafe"

// panelGeneric is the number of rows of a panel in plain Go.
const panelGeneric = 4

// tileGeneric adds to acc[b mod accumulators, t, r], for every block b of 32 columns, token t and row r of the panel,
//
//	Σᵢ (ds[i/16,r]·w[i,r] - mins[i/32,r])·x[t,i]   over the columns i of b
//
// for tokens of n activations. mins are those of Q4_K and Q5_K.
func tileGeneric(f format, a *tileArgs) {
	const outputs = panelGeneric
	acc, w, tokens, n := unsafe.Slice(a.acc, a.accBytes/4), unsafe.Slice(a.w, a.wBytes), a.tokens, a.n
	ds, mins := unsafe.Slice(a.ds, a.dsBytes/4), unsafe.Slice(a.mins, a.minsBytes/4)
	x := activationsOf(a.q, a.d, a.s, a.h, (tokens-1)*n+len(w)/outputs)
	var u [actBlock]int8
	for b := range len(w) / outputs / actBlock {
		sums := acc[b%f.accumulatorCount()*tokens*outputs:][:tokens*outputs]
		for r := range outputs {
			for i := range u {
				u[i] = w[((b*actBlock+i)/4*outputs+r)*4+i%4]
			}
			scales := [2]float32{ds[2*b*outputs+r], ds[(2*b+1)*outputs+r]}
			for t := range tokens {
				at := t*n/actBlock + b
				sum := addBlock(sums[t*outputs+r], u[:], scales, x.q[at*actBlock:][:actBlock], x.d[at])
				if f == q4_K || f == q5_K {
					sum -= float32(mins[b*outputs+r] * x.s[at])
				}
				sums[t*outputs+r] = sum
			}
		}
	}
}

// horizontalSumGeneric sets dst[i] to the sum of the accumulators of acc [4 or 8, n].
func horizontalSumGeneric(a *sumArgs) {
	sumAccumulators(unsafe.Slice(a.dst, a.n), unsafe.Slice(a.acc, a.accumulators*a.n))
}

// sumAccumulators sets out[i] to the sum of the accumulators of acc [4 or 8, len(out)], in the order of
// accumulators.sum.
func sumAccumulators(out, acc []float32) {
	n := len(out)
	for i := range out {
		var a [4]float32
		for l := range a {
			a[l] = acc[l*n+i]
			if len(acc) == 8*n {
				a[l] += acc[(l+4)*n+i]
			}
		}
		out[i] = (a[0] + a[2]) + (a[1] + a[3])
	}
}

// packGeneric packs a panel of panelGeneric rows in format f, which begin stride bytes apart in src: column c of row r
// to dword c/4·outputs+r of w, byte c mod 4, and the scale of c, or its minimum, to ds[c/16·outputs+r], or
// mins[c/32·outputs+r].
func packGeneric(f format, a *packArgs) {
	const outputs = panelGeneric
	elems, size := f.blockType().Block()
	w, blocks := unsafe.Slice(a.w, a.columns*outputs), a.columns/elems
	ds, mins := unsafe.Slice(a.ds, len(w)/16), unsafe.Slice(a.mins, len(w)/32)
	src := unsafe.Slice(a.src, (outputs-1)*a.stride+blocks*size)
	var u [256]int8
	var scales [16]float32
	var minima [8]float32
	for r := range outputs {
		for b := range blocks {
			unpackBlock(f, u[:elems], scales[:elems/16], minima[:elems/32], src[r*a.stride+b*size:][:size])
			for i, v := range u[:elems] {
				w[((b*elems+i)/4*outputs+r)*4+i%4] = v
			}
			for i, v := range scales[:elems/16] {
				ds[(b*elems/16+i)*outputs+r] = v
			}
			for i, v := range minima[:elems/32] {
				mins[(b*elems/32+i)*outputs+r] = v
			}
		}
	}
}
