package cpu

import "unsafe"

const (
	segment  = 1024 // columns of a panel that few rows take at a time, so that they stay in a first-level cache
	together = 16   // rows of activations that meet a panel at a time, likewise
	tilePad  = 4    // columns that interleave takes at a time
)

// panel is some rows of a weight, taken apart and interleaved: column c of row r lies where dword c/4·wide+r does, so that a register
// holds the same four columns of all rows. A pack may have another order of weights.
type panel struct {
	raw, rawDs, rawMins []uint32  // as unpacked: weights [wide, N/4], scales [wide, N/16], minima [wide, N/32]
	w, ds, mins         []uint32  // interleaved: [N/4, wide], [N/16, wide], [N/32, wide]
	acc, out            []float32 // [lanes, T, wide], [T, wide]
	wide, lanes         int
	first, size         int    // the row of the weight that is row 0 of the panel, bytes of a row
	src, next           []byte // the rows of the panel and the rows after it, as they are stored
}

func (p *panel) resize(wide, lanes, n int) {
	p.wide, p.lanes = wide, lanes
	p.w = grow(p.w, wide*n/4, wide*n/4)
	p.ds = grow(p.ds, wide*(n/16+tilePad), wide*(n/16+tilePad))
	p.mins = grow(p.mins, wide*n/32, wide*n/32)
	p.acc = grow(p.acc, lanes*together*wide, lanes*together*wide)
	p.out = grow(p.out, together*wide, together*wide)
}

// quantisedTiles is matMul for several rows of activations: a panel of weight rows is unpacked and interleaved, and meets all
// rows of activations. If those are few and the type is packed, the panel is taken by segments that stay in the first-level cache.
func (k *kernels) quantisedTiles(dst []float32, stride int, m Matrix, f format, lo, hi int, x *Acts, add bool, sc *Scratch) {
	p := &sc.panel
	p.resize(k.wide, f.lanes(), m.Cols)
	seg := m.Cols
	if x.T <= together && k.pack[f] != nil {
		seg = min(seg, segment)
	}
	for o := lo; o < hi; o += k.wide {
		end := min(o+k.wide, hi)
		p.take(m, o)
		for c := 0; c < m.Cols; c += seg {
			n := min(seg, m.Cols-c)
			k.fill(p, m, f, c, n)
			for t := 0; t < x.T; t += together {
				rows := min(together, x.T-t)
				k.meet(p, m, f, c, n, x, t, rows)
				if c+n == m.Cols {
					out := p.out[:rows*k.wide]
					k.fold(out, p.acc[:p.lanes*len(out)])
					for i := range rows {
						put(dst[(t+i)*stride+o:(t+i)*stride+end], out[i*k.wide+o-p.first:][:end-o], add)
					}
				}
			}
		}
	}
}

// meet adds to p.acc what the columns c to c+n of the panel give with some rows of x from t; for c = 0 it begins anew.
func (k *kernels) meet(p *panel, m Matrix, f format, c, n int, x *Acts, t, rows int) {
	q, d, s, h := x.rounded(t, rows)
	acc := p.acc[:p.lanes*rows*k.wide]
	if c == 0 {
		clear(acc)
	}
	var ahead []byte
	if t == 0 {
		_, ahead = p.ahead(m, c, n)
	}
	k.tile[f](acc, bytesIn(p.w)[:n*k.wide], floatsIn(p.ds), floatsIn(p.mins), q[c:], d[c/block:], s[c/block:], h[c/16:], rows, m.Cols, ahead)
}

// take makes p the panel that holds row o of m; it is full if it can be.
func (p *panel) take(m Matrix, o int) {
	p.size = m.RowBytes()
	p.first = max(0, min(o, m.Rows-p.wide))
	last := min(p.first+p.wide, m.Rows)
	p.src = m.Data[p.first*p.size : last*p.size]
	p.next = m.Data[last*p.size : min(last+p.wide, m.Rows)*p.size]
}

// ahead returns the parts of the next rows that are to be fetched while columns c to c+n of the panel are worked on: one by fill,
// one by the tile.
func (p *panel) ahead(m Matrix, c, n int) (fill, tile []byte) {
	part := p.next
	if n < m.Cols {
		part = part[len(part)*c/m.Cols : len(part)*(c+n)/m.Cols]
	}
	return part[:len(part)/2], part[len(part)/2:]
}

// fill unpacks columns c to c+n of the panel. If m has fewer rows than that the rest is left as it was, and of no consequence.
func (k *kernels) fill(p *panel, m Matrix, f format, c, n int) {
	elems, size := m.Type.Block()
	rows := len(p.src) / p.size
	if pack := k.pack[f]; pack != nil {
		ahead, _ := p.ahead(m, c, n)
		pack(bytesIn(p.w)[:n*p.wide], floatsIn(p.ds), floatsIn(p.mins), p.src[c/elems*size:], p.size, ahead)
		return
	}
	p.raw = grow(p.raw, p.wide*n/4, p.wide*n/4)
	p.rawDs = grow(p.rawDs, p.wide*n/16+tilePad, p.wide*n/16+tilePad)
	p.rawMins = grow(p.rawMins, p.wide*n/32, p.wide*n/32)
	for r := range rows {
		src := p.src[r*p.size+c/elems*size:][:n/elems*size]
		k.unpack[f](bytesIn(p.raw)[r*n:][:n], floatsIn(p.rawDs)[r*n/16:][:n/16], floatsIn(p.rawMins)[r*n/32:][:n/32], src)
	}
	k.interleave(p.w, p.raw, n/4, n/4)
	k.interleave(p.ds, p.rawDs, n/16, n/16)
	if p.lanes == 8 {
		k.interleave(p.mins, p.rawMins, n/32, n/32)
	}
}

// bytesIn returns the memory of w as signed bytes.
func bytesIn(w []uint32) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
}

// floatsIn returns the memory of w as float32 numbers.
func floatsIn(w []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(w))), len(w))
}

// wideGeneric is how many rows a panel of the plain Go variant holds.
const wideGeneric = 4

// tileGeneric adds to acc[b mod lanes, t, r], for every block b of 32 columns, row t of the activations and row r of the panel,
//
//	Σᵢ (ds[i/16,r]·w[i,r] - mins[i/32,r])·x[t,i]   over the columns i of b
//
// where the rows of x, of n columns, lie behind each other in q, d, s and h. mins are those of Q4_K and Q5_K.
func tileGeneric(f format, acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, rows, n int) {
	const wide = wideGeneric
	var u [block]int8
	for b := range len(w) / wide / block {
		lane := acc[b%f.lanes()*rows*wide:][:rows*wide]
		for r := range wide {
			for i := range u {
				u[i] = w[((b*block+i)/4*wide+r)*4+i%4]
			}
			scales := [2]float32{ds[2*b*wide+r], ds[(2*b+1)*wide+r]}
			for t := range rows {
				at := t*n/block + b
				sum := addBlock(lane[t*wide+r], u[:], scales, q[at*block:][:block], d[at])
				if f == q4_K || f == q5_K {
					sum -= float32(mins[b*wide+r] * s[at])
				}
				lane[t*wide+r] = sum
			}
		}
	}
}

// foldGeneric sets out[i] to the sum of the lanes of acc [lanes, len(out)], four or eight, in the order of lanes.sum.
func foldGeneric(out, acc []float32) {
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

// interleaveGeneric sets dst[c·wide+r] = src[r·stride+c] for the rows of a panel and cols columns. Other variants take columns by
// four, and so read and write up to three more.
func interleaveGeneric(dst, src []uint32, stride, cols int) {
	for c := range cols {
		for r := range wideGeneric {
			dst[c*wideGeneric+r] = src[r*stride+c]
		}
	}
}
