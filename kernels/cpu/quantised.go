package cpu

// fewBytes is the weights that stay in a first-level cache while they are multiplied with one token after the other.
const fewBytes = 24 << 10

// quantisedGEMV is matMul for one token, or a weight of few rows: weights as they are stored, with each token by
// itself.
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
			acts := x.rounded(t, 1, 0)
			out := dst[t*stride+o : t*stride+end]
			if !add {
				k.gemv[f](out, m.rows(o, end), acts)
				continue
			}
			sc.out = grow(sc.out, end-o, most)
			k.gemv[f](sc.out, m.rows(o, end), acts)
			put(out, sc.out, true)
		}
	}
}

// quantisedSmallGEMM is matMul for a few tokens by g, which unpacks the weights of some outputs and multiplies them
// with all tokens. Outputs that are left over go through GEMV.
func (k *kernels) quantisedSmallGEMM(
	dst []float32, stride int, m Matrix, f format, g *smallGEMM, lo, hi int, x *Acts, add bool, sc *Scratch,
) {
	most := max(1, callBytes/(g.outputs*m.RowBytes())) * g.outputs
	sc.out = grow(sc.out, x.T*most, x.T*most)
	acts := x.rounded(0, x.T, 0)
	if k.interleave != nil {
		acts.q = x.P
	}
	for o := lo; o < hi; o += most {
		end := min(o+most, hi)
		whole := (end - o) / g.outputs * g.outputs
		if whole > 0 {
			g.multiply(sc.out, most, m.rows(o, o+whole), acts, x.T, x.N)
		}
		for t := range x.T {
			out := sc.out[t*most:][:end-o]
			if whole < len(out) {
				k.gemv[f](out[whole:], m.rows(o+whole, end), x.rounded(t, 1, 0))
			}
			put(dst[t*stride+o:t*stride+end], out, add)
		}
	}
}
