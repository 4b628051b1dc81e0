package cpu

import "unsafe"

const (
	segment   = 1024 // columns of a panel that few rows take at a time, so that they stay in a first-level cache
	together  = 16   // rows of activations that meet a panel at a time, likewise
	panelRows = 64   // rows of weights that wait, as panels, in a second-level cache for the next rows of activations
)

// panel is some rows of a weight, taken apart and interleaved in parts of a [Scratch]: column c of row r lies where dword c/4·wide+r does,
// so that a register holds the same four columns of all rows. A pack may have another order of weights.
type panel struct {
	w, ds, mins []uint32 // interleaved: [N/4, wide], [N/16, wide], [N/32, wide]
	wide, lanes int
	first, size int    // the row of the weight that is row 0 of the panel, bytes of a row
	src, next   []byte // the rows of the panel and the rows after it, as they are stored
}

// setPanels makes room for most panels of n columns, which lie behind each other.
func (sc *Scratch) setPanels(most, wide, lanes, n int) {
	w, ds, mins := wide*n/4, wide*n/16, wide*n/32
	sc.w, sc.ds, sc.mins = grow(sc.w, most*w, most*w), grow(sc.ds, most*ds, most*ds), grow(sc.mins, most*mins, most*mins)
	for len(sc.panels) < most {
		sc.panels = append(sc.panels, panel{})
	}
	for i := range most {
		p := &sc.panels[i]
		p.wide, p.lanes = wide, lanes
		p.w, p.ds, p.mins = sc.w[i*w:(i+1)*w], sc.ds[i*ds:(i+1)*ds], sc.mins[i*mins:(i+1)*mins]
	}
}

// quantisedTiles is matMul for several rows of activations: panels of weight rows are taken apart and meet all of them.
func (k *kernels) quantisedTiles(dst []float32, stride int, m Matrix, f format, lo, hi int, x *Acts, add bool, sc *Scratch) {
	sums := 2 * f.lanes() * together * k.wide
	sc.acc, sc.out = grow(sc.acc, sums, sums), grow(sc.out, together*k.wide, together*k.wide)
	most := max(1, panelRows/k.wide)
	if x.T <= together {
		most = 1
	}
	sc.setPanels(most, k.wide, f.lanes(), m.Cols)
	for o := lo; o < hi; o += most * k.wide {
		end := min(o+most*k.wide, hi)
		if most == 1 {
			k.panelOfFew(dst, stride, m, f, o, end, x, add, sc)
		} else {
			k.panelsOfMany(dst, stride, m, f, o, end, x, add, sc)
		}
	}
}

// panelOfFew takes the panel of rows o to end, by segments that stay in the first-level cache. Half of the next panel is fetched while one
// is filled, half while it meets the activations.
func (k *kernels) panelOfFew(dst []float32, stride int, m Matrix, f format, o, end int, x *Acts, add bool, sc *Scratch) {
	p := &sc.panels[0]
	p.take(m, o)
	for c := 0; c < m.Cols; c += segment {
		n := min(segment, m.Cols-c)
		next := p.next[len(p.next)*c/m.Cols : len(p.next)*(c+n)/m.Cols]
		k.fill(p, m, f, c, n, next[:len(next)/2])
		k.meet(sc.acc, p, m, f, c, n, x, 0, x.T, next[len(next)/2:])
	}
	k.putTile(dst[o:], stride, sc.acc, p, o, end, x.T, add, sc)
}

// panelsOfMany takes all panels of rows o to end: every [together] rows of activations meet one after the other. Meanwhile the rows after
// them are fetched.
func (k *kernels) panelsOfMany(dst []float32, stride int, m Matrix, f format, o, end int, x *Acts, add bool, sc *Scratch) {
	for i, at := 0, o; at < end; i, at = i+1, at+k.wide {
		sc.panels[i].take(m, at)
		k.fill(&sc.panels[i], m, f, 0, m.Cols, sc.panels[i].next)
	}
	next := m.Data[end*m.RowBytes() : min(2*end-o, m.Rows)*m.RowBytes()]
	clear(sc.acc)
	for t := 0; t < x.T; t += together {
		rows := min(together, x.T-t)
		fetch(next[len(next)*t/x.T : len(next)*(t+rows)/x.T])
		for i, at := 0, o; at < end; {
			n := 1
			if k.twoTiles[f] != nil && at+k.wide < end {
				n = 2
			}
			k.meetAll(sc, i, n, f, x, t, rows)
			for j := range n {
				acc := sc.acc[j*f.lanes()*rows*k.wide:][:f.lanes()*rows*k.wide]
				k.settleTile(dst[t*stride+at:], stride, acc, &sc.panels[i], at, min(at+k.wide, end), rows, add, sc)
				i, at = i+1, at+k.wide
			}
		}
	}
}

// settleTile is putTile that leaves zeros in acc.
func (k *kernels) settleTile(dst []float32, stride int, acc []float32, p *panel, o, end, rows int, add bool, sc *Scratch) {
	if k.settle != nil && o == p.first && end-o == k.wide {
		k.settle(dst, stride, acc, rows, add)
		return
	}
	k.putTile(dst, stride, acc, p, o, end, rows, add, sc)
	clear(acc)
}

// meetAll adds to sc.acc what n panels from the i-th, one or two, give with some rows of x from t.
func (k *kernels) meetAll(sc *Scratch, i, n int, f format, x *Acts, t, rows int) {
	p := &sc.panels[i]
	q, d, s, h := x.rounded(t, rows)
	acc := sc.acc[:n*p.lanes*rows*k.wide]
	leaf := k.tileOf(f, rows)
	if n == 2 {
		leaf = k.twoTiles[f]
	}
	w, ds, mins := sc.w[i*len(p.w):][:n*len(p.w)], sc.ds[i*len(p.ds):][:n*len(p.ds)], sc.mins[i*len(p.mins):][:n*len(p.mins)]
	leaf(acc, bytesIn(w), floatsIn(ds), floatsIn(mins), q, d, s, h, rows, x.N, nil)
}

// meet adds to acc what the columns c to c+n of the panel give with some rows of x from t; for c = 0 it begins anew.
func (k *kernels) meet(acc []float32, p *panel, m Matrix, f format, c, n int, x *Acts, t, rows int, ahead []byte) {
	q, d, s, h := x.rounded(t, rows)
	acc = acc[:p.lanes*rows*k.wide]
	if c == 0 {
		clear(acc)
	}
	w, ds, mins := bytesIn(p.w)[:n*k.wide], floatsIn(p.ds), floatsIn(p.mins)
	k.tileOf(f, rows)(acc, w, ds, mins, q[c:], d[c/actBlock:], s[c/actBlock:], h[c/16:], rows, m.Cols, ahead)
}

// putTile sums up the lanes of some rows of activations, acc, and puts rows o to end of the weight at dst, or adds them.
func (k *kernels) putTile(dst []float32, stride int, acc []float32, p *panel, o, end, rows int, add bool, sc *Scratch) {
	out := sc.out[:rows*k.wide]
	k.fold(out, acc[:p.lanes*len(out)])
	for t := range rows {
		put(dst[t*stride:][:end-o], out[t*k.wide+o-p.first:][:end-o], add)
	}
}

// take makes p the panel that holds row o of m, which has rows enough to fill one.
func (p *panel) take(m Matrix, o int) {
	p.size = m.RowBytes()
	p.first = min(o, m.Rows-p.wide)
	last := p.first + p.wide
	p.src = m.Data[p.first*p.size : last*p.size]
	p.next = m.Data[last*p.size : min((last+p.wide)*p.size, len(m.Data))]
}

// fill takes columns c to c+n of the panel apart and fetches what is ahead.
func (k *kernels) fill(p *panel, m Matrix, f format, c, n int, ahead []byte) {
	elems, size := m.Type.Block()
	k.pack[f](bytesIn(p.w)[:n*p.wide], floatsIn(p.ds), floatsIn(p.mins), p.src[c/elems*size:], p.size, ahead)
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
	var u [actBlock]int8
	for b := range len(w) / wide / actBlock {
		lane := acc[b%f.lanes()*rows*wide:][:rows*wide]
		for r := range wide {
			for i := range u {
				u[i] = w[((b*actBlock+i)/4*wide+r)*4+i%4]
			}
			scales := [2]float32{ds[2*b*wide+r], ds[(2*b+1)*wide+r]}
			for t := range rows {
				at := t*n/actBlock + b
				sum := addBlock(lane[t*wide+r], u[:], scales, q[at*actBlock:][:actBlock], d[at])
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

// packGeneric takes a panel of wideGeneric rows in format f apart, which begin stride bytes apart in src: column c of row r to dword
// c/4·wide+r of w, byte c mod 4, and the scale of c, or its minimum, to ds[c/16·wide+r], or mins[c/32·wide+r].
func packGeneric(f format, w []int8, ds, mins []float32, src []byte, stride int) {
	const wide = wideGeneric
	elems, size := f.typeOf().Block()
	var u [256]int8
	var scales [16]float32
	var minima [8]float32
	for r := range wide {
		for b := range len(w) / wide / elems {
			unpackBlock(f, u[:elems], scales[:elems/16], minima[:elems/32], src[r*stride+b*size:][:size])
			for i, v := range u[:elems] {
				w[((b*elems+i)/4*wide+r)*4+i%4] = v
			}
			for i, v := range scales[:elems/16] {
				ds[(b*elems/16+i)*wide+r] = v
			}
			for i, v := range minima[:elems/32] {
				mins[(b*elems/32+i)*wide+r] = v
			}
		}
	}
}
