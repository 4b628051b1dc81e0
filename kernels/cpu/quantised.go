package cpu

import "unsafe"

// fewBytes is the size of weights that stay in a first-level cache while they are multiplied with one token after the
// other.
const fewBytes = 24 << 10

// quantisedGEMV is MatMul for one token, or a weight of few rows: it reads weights as they are stored, for each token
// separately.
func (k *kernels) quantisedGEMV(
	dst []float32, stride int, m Matrix, f format, lo, hi int, x *Acts, add bool, sc *Scratch,
) {
	bytes := callBytes
	if x.T > 1 {
		bytes = fewBytes
	}
	most := max(4, bytes/m.RowBytes()&^3) // outputs at a time
	for o := lo; o < hi; o += most {
		end := min(o+most, hi)
		for t := range x.T {
			out := dst[t*stride+o : t*stride+end]
			if !add {
				k.gemvRows(out, m, f, o, x, t, sc)
				continue
			}
			sc.out = growSlice(sc.out, end-o, most)
			k.gemvRows(sc.out, m, f, o, x, t, sc)
			storeOrAdd(out, sc.out, true)
		}
	}
	sc.gemm = gemmArgs{}
}

// gemvRows sets dst[i] = Σⱼ m[o+i,j]·x[t,j].
func (k *kernels) gemvRows(dst []float32, m Matrix, f format, o int, x *Acts, t int, sc *Scratch) {
	w, a := m.rowData(o, o+len(dst)), &sc.gemm
	a.dst, a.w, a.wBytes = unsafe.SliceData(dst), unsafe.SliceData(w), len(w)
	a.setActs(x.roundedTokens(t, 1, 0), 1, x.N)
	k.gemv[f](a)
}

// quantisedSmallGEMM is MatMul for a few tokens by g, which unpacks the weights of some outputs and multiplies them
// with all tokens. Remaining outputs go through GEMV.
func (k *kernels) quantisedSmallGEMM(
	dst []float32, stride int, m Matrix, f format, g *smallGEMM, lo, hi int, x *Acts, add bool, sc *Scratch,
) {
	most := max(1, callBytes/(g.outputs*m.RowBytes())) * g.outputs
	sc.out = growSlice(sc.out, x.T*most, x.T*most)
	acts, a := x.roundedTokens(0, x.T, 0), &sc.gemm
	if k.interleaved {
		acts.q = x.P
	}
	for o := lo; o < hi; o += most {
		end := min(o+most, hi)
		whole := (end - o) / g.outputs * g.outputs
		if whole > 0 {
			w := m.rowData(o, o+whole)
			a.dst, a.stride = unsafe.SliceData(sc.out), most
			a.w, a.wBytes = unsafe.SliceData(w), len(w)
			a.setActs(acts, x.T, x.N)
			g.multiply(a)
		}
		for t := range x.T {
			out := sc.out[t*most:][:end-o]
			if whole < len(out) {
				k.gemvRows(out[whole:], m, f, o+whole, x, t, sc)
			}
			storeOrAdd(dst[t*stride+o:t*stride+end], out, add)
		}
	}
	*a = gemmArgs{}
}
