package cpu

// block is how many activations share one 8-bit scale.
const actBlock = 32

// SpareRows is how many rows the kernels may read past the last one, as they take four at a time where there are fewer.
const SpareRows = 3

// spreadMost is up to how many rows of activations are spread.
const spreadMost = 8

// Acts holds T rows of N activations in the forms that the products take:
//
//	F [T, N]     as given
//	Q [T, N]     rounded: Q[i] = round(F[i]/d) in -127..127, d = max|F|/127 over the block of 32 that i is in
//	P [T, N]     Q spread: by four blocks, the first sixteen of each and then the last sixteen of each
//	D [T, N/32]  the d of each block
//	S [T, N/32]  d·ΣQ of each block, for the types whose blocks have a minimum
//	H [T, N/16]  ΣQ of each half block, for weights that the products take with an offset
//
// F is filled by [Acts.Set], or is memory of the caller's ([Acts.Use]); the others are filled by [Acts.Round], which only matrices that
// are [Matrix.Quantised] need, and P of them only for a few rows of a multiple of 128, if the variant in use takes it. F has room for
// [SpareRows] more; what lies past T is never looked at in results.
type Acts struct {
	T, N int
	F    []float32
	Q, P []int8
	D, S []float32
	H    []int16
}

// Resize sets the shape to t rows of n activations, growing the buffers as needed and never shrinking them. The contents
// are undefined until set.
func (a *Acts) Resize(t, n int) {
	a.F = grow(a.F, t*n, (t+SpareRows)*n)
	a.resize(t, n)
}

// Use sets the shape to t rows of n activations, which are f itself: no copy. Its capacity is at least t+[SpareRows] rows. The rounded
// form is undefined until set.
func (a *Acts) Use(f []float32, t, n int) {
	a.F = f[: t*n : (t+SpareRows)*n]
	a.resize(t, n)
}

// resize sets the shape of all but F.
func (a *Acts) resize(t, n int) {
	a.T, a.N = t, n
	a.Q = grow(a.Q, t*n, t*n)
	a.D = grow(a.D, t*(n/actBlock), t*(n/actBlock))
	a.S = grow(a.S, t*(n/actBlock), t*(n/actBlock))
	a.H = grow(a.H, t*(n/actBlock)*2, t*(n/actBlock)*2)
	if a.spreads(kernelsInUse()) {
		a.P = grow(a.P, t*n, t*n)
	}
}

// grow returns s with length n and a capacity of at least c ≥ n.
func grow[E any](s []E, n, c int) []E {
	if cap(s) < c {
		s = make([]E, c)
	}
	return s[:n]
}

// Set copies x [N] into row t of F.
func (a *Acts) Set(t int, x []float32) {
	copy(a.F[t*a.N:(t+1)*a.N], x[:a.N])
}

// Row returns row t of F, to be written in place of [Acts.Set].
func (a *Acts) Row(t int) []float32 { return a.F[t*a.N : (t+1)*a.N : (t+1)*a.N] }

// Round rounds row t of F to 8 bits; N is a multiple of 32. Different rows may be rounded concurrently. A block that holds an
// infinity or a NaN gets D and S of NaN, so that it shows in the result; a block whose largest magnitude is below 1e-36 is zero.
func (a *Acts) Round(t int) { a.RoundPart(t, 0, a.N) }

// RoundPart is [Acts.Round] for the columns lo to hi, which are multiples of 32.
func (a *Acts) RoundPart(t, lo, hi int) {
	if a.N%actBlock != 0 || lo%actBlock != 0 || hi%actBlock != 0 {
		panic("cpu: rounding what is no multiple of 32")
	}
	if lo >= hi {
		return
	}
	from, to := t*a.N+lo, t*a.N+hi
	k := kernelsInUse()
	k.round(a.Q[from:to], a.D[from/actBlock:to/actBlock], a.S[from/actBlock:to/actBlock], a.H[2*from/actBlock:2*to/actBlock], a.F[from:to])
	if a.spreads(k) {
		k.spread(a.P[t*a.N:], a.Q[from:to], lo/actBlock)
	}
}

// spreads reports whether k wants P of these activations.
func (a *Acts) spreads(k *kernels) bool {
	return k.spread != nil && a.T <= spreadMost && a.N%(4*actBlock) == 0
}

// rounded returns Q, D, S and H of n rows from t.
func (a *Acts) rounded(t, n int) (q []int8, d, s []float32, h []int16) {
	b := a.N / actBlock
	return a.Q[t*a.N : (t+n)*a.N], a.D[t*b : (t+n)*b], a.S[t*b : (t+n)*b], a.H[2*t*b : 2*(t+n)*b]
}

// floats returns F of n rows from t, reaching into the spare rows if need be.
func (a *Acts) floats(t, n int) []float32 { return a.F[t*a.N : (t+n)*a.N] }
