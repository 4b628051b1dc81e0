package vector

// Attention computes eight queries at a time, those of a GQA group (the heads that share a key head), so that keys and
// values are read and converted once for all of them. Keys are stored in blocks of sixteen, transposed, so that a
// register holds one element of each: a score is a chain of products in one lane of a register, without a horizontal
// sum.
const (
	Queries  = 8  // queries that [ScoresF16] and [MixF16] take
	KeyBlock = 16 // keys in a block: element i of key j is at 16·i + j
)

// scores sets dst[g·stride+16b+j] = Σᵢ q[i,g]·k[b,i,j], i ascending, for eight queries q [Dh, 8] and blocks of sixteen
// keys [Dh, 16] that begin step bytes apart.
type scores func(dst []float32, stride int, q []float32, k []byte, step, blocks int)

// mix adds Σⱼ p[g·stride+j]·v[j,i], j ascending to n, to acc[g,i] of [8, Dh] for values of Dh elements that begin step
// bytes apart. Assembly requires Dh to be a multiple of 8.
type mix func(acc, p []float32, stride, n int, v []byte, step int)

// ScoresF16 sets dst[g·stride+16b+j] to the product of query g and key j of block b, for [Queries] queries, given as q
// [Dh, Queries], and blocks of [KeyBlock] keys [Dh, KeyBlock] in half precision that begin step elements apart. Sums
// are in float32, in the order of the elements.
func ScoresF16(dst []float32, stride int, q []float32, k []uint16, step, blocks int) {
	if scoresFit(len(dst), stride, len(q), len(k), step, blocks) {
		inUse().scoresF16(dst, stride, q, halfBytes(k), 2*step, blocks)
	}
}

// PairScoresF16 is [ScoresF16] of the first two queries, as of a group of two. The scores of the others are undefined.
func PairScoresF16(dst []float32, stride int, q []float32, k []uint16, step, blocks int) {
	if scoresFit(len(dst), stride, len(q), len(k), step, blocks) {
		f := inUse().pairScoresF16
		if f == nil {
			f = inUse().scoresF16
		}
		f(dst, stride, q, halfBytes(k), 2*step, blocks)
	}
}

// ScoresF32 is [ScoresF16] for keys in float32.
func ScoresF32(dst []float32, stride int, q, k []float32, step, blocks int) {
	if scoresFit(len(dst), stride, len(q), len(k), step, blocks) {
		inUse().scoresF32(dst, stride, q, bytesOf(k), 4*step, blocks)
	}
}

func scoresFit(dst, stride, q, k, step, blocks int) bool {
	if blocks <= 0 || q == 0 {
		return false
	}
	if q%Queries != 0 || stride < 0 || step < 0 ||
		(Queries-1)*stride+KeyBlock*blocks > dst || (blocks-1)*step+KeyBlock*(q/Queries) > k {
		panic("vector: scores reach beyond a slice")
	}
	return true
}

// MixF16 adds Σⱼ p[g·stride+j]·v[j·step+i], in ascending order of j < n, to acc[g,i], where acc is [Queries, Dh]: the
// weighted sums of values in half precision that begin step elements apart.
func MixF16(acc, p []float32, stride, n int, v []uint16, step int) {
	if mixFits(len(acc), len(p), stride, n, len(v), step) {
		mixFor(inUse().mixF16, mixF16Generic, len(acc))(acc, p, stride, n, halfBytes(v), 2*step)
	}
}

// PairMixF16 is [MixF16] for the sums of the first two queries. Those of the others are undefined.
func PairMixF16(acc, p []float32, stride, n int, v []uint16, step int) {
	f := inUse().pairMixF16
	if f == nil || len(acc)%(64*Queries) != 0 {
		MixF16(acc, p, stride, n, v, step)
	} else if mixFits(len(acc), len(p), stride, n, len(v), step) {
		f(acc, p, stride, n, halfBytes(v), 2*step)
	}
}

// MixF32 is [MixF16] for values in float32.
func MixF32(acc, p []float32, stride, n int, v []float32, step int) {
	if mixFits(len(acc), len(p), stride, n, len(v), step) {
		mixFor(inUse().mixF32, mixF32Generic, len(acc))(acc, p, stride, n, bytesOf(v), 4*step)
	}
}

// PairMixF32 is [PairMixF16] for values in float32.
func PairMixF32(acc, p []float32, stride, n int, v []float32, step int) {
	f := inUse().pairMixF32
	if f == nil || len(acc)%(64*Queries) != 0 {
		MixF32(acc, p, stride, n, v, step)
	} else if mixFits(len(acc), len(p), stride, n, len(v), step) {
		f(acc, p, stride, n, bytesOf(v), 4*step)
	}
}

// mixFor returns best if it supports acc elements of all sums, otherwise plain.
func mixFor(best, plain mix, acc int) mix {
	if acc%(8*Queries) != 0 {
		return plain
	}
	return best
}

func mixFits(acc, p, stride, n, v, step int) bool {
	if n <= 0 || acc == 0 {
		return false
	}
	if acc%Queries != 0 || stride < 0 || step < 0 || (Queries-1)*stride+n > p || (n-1)*step+acc/Queries > v {
		panic("vector: values reach beyond a slice")
	}
	return true
}

func scoresF16Generic(dst []float32, stride int, q []float32, k []byte, step, blocks int) {
	scoresGeneric(dst, stride, q, k, step, blocks, 2, readF16)
}

func scoresF32Generic(dst []float32, stride int, q []float32, k []byte, step, blocks int) {
	scoresGeneric(dst, stride, q, k, step, blocks, 4, readF32)
}

func scoresGeneric(dst []float32, stride int, q []float32, k []byte, step, blocks, size int, at func([]byte) float32) {
	for b := range blocks {
		for j := range KeyBlock {
			var sum [Queries]float32
			for i := range len(q) / Queries {
				key := at(k[b*step+(i*KeyBlock+j)*size:])
				for g := range sum {
					sum[g] += q[i*Queries+g] * key
				}
			}
			for g, v := range sum {
				dst[g*stride+b*KeyBlock+j] = v
			}
		}
	}
}

func mixF16Generic(acc, p []float32, stride, n int, v []byte, step int) {
	mixGeneric(acc, p, stride, n, v, step, 2, readF16)
}

func mixF32Generic(acc, p []float32, stride, n int, v []byte, step int) {
	mixGeneric(acc, p, stride, n, v, step, 4, readF32)
}

func mixGeneric(acc, p []float32, stride, n int, v []byte, step, size int, at func([]byte) float32) {
	dh := len(acc) / Queries
	for j := range n {
		for i := range dh {
			value := at(v[j*step+i*size:])
			for g := range Queries {
				acc[g*dh+i] += p[g*stride+j] * value
			}
		}
	}
}
