package cpu

import "unsafe"

// actBlock is the number of activations that share one 8-bit scale.
const actBlock = 32

// SpareTokens is the number of tokens after the last one that the kernels may read, because they read four at a time
// even if there are fewer.
const SpareTokens = 3

// interleavedTokens is the maximum number of tokens with interleaved activations.
const interleavedTokens = 8

// Acts holds the N activations of each of T tokens in the forms that the products take:
//
//	F [T, N]     as given
//	Q [T, N]     rounded: Q[i] = round(F[i]/d) in -127..127, d = max|F|/127 over the block of 32 that i is in
//	P [T, N]     Q interleaved: by four blocks, the first sixteen of each and then the last sixteen of each
//	D [T, N/32]  the d of each block
//	S [T, N/32]  d·ΣQ of each block, for the formats with a minimum in each block
//	H [T, N/16]  ΣQ of each half block, for weights that the products take with an offset
//
// F is set by [Acts.Set], or is the caller's memory ([Acts.Use]). The other fields are set by [Acts.Round], which only
// [Matrix.Quantised] matrices need; P is set only for a few tokens with a multiple of 128 activations, if the
// instruction set in use takes it. F has room for [SpareTokens] more; values after T never affect results.
type Acts struct {
	T, N int
	F    []float32
	Q, P []int8
	D, S []float32
	H    []int16

	tiled []float32 // [T/16, N/32, 2, 16] D and S of sixteen tokens side by side, if the instruction set takes them
}

// Resize sets the shape to t tokens of n activations, growing the buffers as needed and never shrinking them. The
// contents are undefined until set.
func (a *Acts) Resize(t, n int) {
	a.F = growSlice(a.F, t*n, (t+SpareTokens)*n)
	a.resizeRounded(t, n)
}

// Use sets the shape to t tokens of n activations and uses f itself, without a copy. The capacity of f must be at least
// t+[SpareTokens] tokens. The rounded form is undefined until set.
func (a *Acts) Use(f []float32, t, n int) {
	a.F = f[: t*n : (t+SpareTokens)*n]
	a.resizeRounded(t, n)
}

// resizeRounded sets the shape of all but F.
func (a *Acts) resizeRounded(t, n int) {
	a.T, a.N = t, n
	a.Q = growSlice(a.Q, t*n, t*n)
	a.D = growSlice(a.D, t*(n/actBlock), t*(n/actBlock))
	a.S = growSlice(a.S, t*(n/actBlock), t*(n/actBlock))
	a.H = growSlice(a.H, t*(n/actBlock)*2, t*(n/actBlock)*2)
	k := kernelsInUse()
	if a.usesInterleaved(k) {
		a.P = growSlice(a.P, t*n, t*n)
	}
	if a.usesTiled(k) {
		size := (t + tileTokens - 1) / tileTokens * tileTokens * 2 * (n / actBlock)
		a.tiled = growSlice(a.tiled, size, size)
	}
}

// Set copies x [N] into F of token t.
func (a *Acts) Set(t int, x []float32) {
	copy(a.F[t*a.N:(t+1)*a.N], x[:a.N])
}

// Token returns F of token t, to be written in place of [Acts.Set].
func (a *Acts) Token(t int) []float32 { return a.F[t*a.N : (t+1)*a.N : (t+1)*a.N] }

// Round rounds F of token t to 8 bits; N is a multiple of 32. Different tokens may be rounded concurrently. In a block
// with an infinity or a NaN, D and S become NaN, so that the result shows it. A block with a largest magnitude below
// 1e-36 becomes zero.
func (a *Acts) Round(t int) { a.RoundPart(t, 0, a.N) }

// RoundPart is [Acts.Round] for the columns lo to hi, which are multiples of 32.
func (a *Acts) RoundPart(t, lo, hi int) { a.RoundTokens(t, t+1, lo, hi) }

// RoundTokens is [Acts.RoundPart] for the tokens from to to. Of as many tokens after them it prefetches what is written
// next.
func (a *Acts) RoundTokens(from, to, lo, hi int) {
	if a.N%actBlock != 0 || lo%actBlock != 0 || hi%actBlock != 0 {
		panic("cpu: rounding what is no multiple of 32")
	}
	if lo >= hi {
		return
	}
	k := kernelsInUse()
	args := k.actsArgs.Get().(*actsArgs)
	args.n = hi - lo
	for t := from; t < to; t++ {
		first, last := t*a.N+lo, t*a.N+hi
		args.x, args.q = unsafe.SliceData(a.F[first:last]), unsafe.SliceData(a.Q[first:last])
		first, last = first/actBlock, last/actBlock
		args.d, args.s = unsafe.SliceData(a.D[first:last]), unsafe.SliceData(a.S[first:last])
		args.h = unsafe.SliceData(a.H[2*first : 2*last])
		if a.usesInterleaved(k) {
			args.p, args.from = unsafe.SliceData(a.P[t*a.N:(t+1)*a.N]), lo/actBlock
		}
		if a.usesTiled(k) {
			args.tiled = unsafe.SliceData(a.tiledFrom(t, lo/actBlock)[t%tileTokens:])
		}
		k.round(args)
	}
	*args = actsArgs{}
	k.actsArgs.Put(args)
	if to > from+1 {
		a.prefetchPart(to, 2*to-from, lo, hi)
	}
}

// prefetchPart prefetches F and Q of some tokens and columns.
func (a *Acts) prefetchPart(from, to, lo, hi int) {
	for t := from; t < min(to, a.T); t++ {
		first, last := t*a.N+lo, t*a.N+hi
		prefetch(bytesOf(a.F[first:last]))
		prefetch(bytesOfIntegers(a.Q[first:last]))
	}
}

// usesInterleaved reports whether k uses P of these activations.
func (a *Acts) usesInterleaved(k *kernels) bool {
	return k.interleaved && a.T <= interleavedTokens && a.N%(4*actBlock) == 0
}

// usesTiled reports whether k uses tiled of these activations.
func (a *Acts) usesTiled(k *kernels) bool {
	return k.inPasses && a.T >= k.tileLeast && a.N%actBlock == 0
}

// tiledFrom returns tiled from the tile of token t on, without the first blocks; nil if it is not used.
func (a *Acts) tiledFrom(t, first int) []float32 {
	return a.tiled[min(len(a.tiled), 2*tileTokens*(t/tileTokens*(a.N/actBlock)+first)):]
}

// roundedTokens returns Q, D, S and H of n tokens from the t-th, without the columns below c, a multiple of 32.
func (a *Acts) roundedTokens(t, n, c int) activations {
	b, first := a.N/actBlock, c/actBlock
	from, to := t*b+first, (t+n)*b // blocks
	return activations{
		a.Q[t*a.N+c : (t+n)*a.N], a.D[from:to], a.S[from:to], a.H[2*from : 2*to], a.tiledFrom(t, first),
	}
}

// tokensAfter returns what to prefetch for the tokens of a tile from the t-th: Q if all of it exceeds a cache.
func (a *Acts) tokensAfter(t int) []byte {
	if len(a.Q) <= cachedActs {
		return nil
	}
	return bytesOfIntegers(a.Q[min(t, a.T)*a.N : min(t+tileTokens, a.T)*a.N])
}

// floatTokens returns F of n tokens from the t-th, including spare tokens if necessary.
func (a *Acts) floatTokens(t, n int) []float32 { return a.F[t*a.N : (t+n)*a.N] }
