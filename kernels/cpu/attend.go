package cpu

import (
	"encoding/binary"
	"math"
)

// Attention takes eight queries at a time, the heads that share a key head, so that keys and values are read and converted once for
// all of them. Keys lie by sixteens, transposed, so that a register holds one element of each: a score is a chain of products in one
// lane, and no register is ever summed up.
const (
	Queries    = 8  // queries that [ScoresF16] and [MixF16] take
	KeyBlock   = 16 // keys that lie together: element i of key j of a block at 16·i + j
	SoftmaxPad = 32 // [Softmax] takes a multiple of so many
)

// scoresLeaf sets dst[g·stride+16b+j] = Σᵢ q[i,g]·k[b,i,j], i ascending, for eight queries q [Dh, 8] and blocks of sixteen keys [Dh, 16]
// that begin step bytes apart.
type scoresLeaf func(dst []float32, stride int, q []float32, k []byte, step, blocks int)

// mixLeaf adds Σⱼ p[g·stride+j]·v[j,i], j ascending to n, to acc[g,i] of [8, Dh] for values of Dh elements that begin step bytes
// apart. Assembly wants Dh to be a multiple of 8.
type mixLeaf func(acc, p []float32, stride, n int, v []byte, step int)

// ScoresF16 sets dst[g·stride+16b+j] to the product of query g and key j of block b, for [Queries] queries, given as q [Dh, Queries], and
// blocks of [KeyBlock] keys [Dh, KeyBlock] in half precision that begin step elements apart. The sum is in float32, by rising element.
func ScoresF16(dst []float32, stride int, q []float32, k []uint16, step, blocks int) {
	if scoresFit(len(dst), stride, len(q), len(k), step, blocks) {
		kernelsInUse().scoresF16(dst, stride, q, halfBytes(k), 2*step, blocks)
	}
}

// ScoresF32 is [ScoresF16] for keys in float32.
func ScoresF32(dst []float32, stride int, q, k []float32, step, blocks int) {
	if scoresFit(len(dst), stride, len(q), len(k), step, blocks) {
		kernelsInUse().scoresF32(dst, stride, q, bytesOf(k), 4*step, blocks)
	}
}

func scoresFit(dst, stride, q, k, step, blocks int) bool {
	if blocks <= 0 || q == 0 {
		return false
	}
	if q%Queries != 0 || stride < 0 || step < 0 || (Queries-1)*stride+KeyBlock*blocks > dst || (blocks-1)*step+KeyBlock*(q/Queries) > k {
		panic("cpu: scores reach beyond a slice")
	}
	return true
}

// MixF16 adds Σⱼ p[g·stride+j]·v[j·step+i], by rising j < n, to acc[g,i], where acc is [Queries, Dh]: the weighted sums of values in half
// precision that begin step elements apart.
func MixF16(acc, p []float32, stride, n int, v []uint16, step int) {
	if k := kernelsInUse(); mixFits(len(acc), len(p), stride, n, len(v), step) {
		k.mixLeaf(k.mixF16, mixF16Generic, len(acc))(acc, p, stride, n, halfBytes(v), 2*step)
	}
}

// MixF32 is [MixF16] for values in float32.
func MixF32(acc, p []float32, stride, n int, v []float32, step int) {
	if k := kernelsInUse(); mixFits(len(acc), len(p), stride, n, len(v), step) {
		k.mixLeaf(k.mixF32, mixF32Generic, len(acc))(acc, p, stride, n, bytesOf(v), 4*step)
	}
}

// mixLeaf is best where it can take acc elements of all sums, plain otherwise.
func (k *kernels) mixLeaf(best, plain mixLeaf, acc int) mixLeaf {
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
		panic("cpu: values reach beyond a slice")
	}
	return true
}

// Softmax sets x[i] = exp(x[i]-top) for top = max x and returns top and the sum, in float32. The length of x is a multiple of [SoftmaxPad];
// entries of -Inf at its end give 0. A NaN in x makes the sum NaN.
func Softmax(x []float32) (top, sum float32) {
	if len(x)%SoftmaxPad != 0 {
		panic("cpu: softmax of a length that is not padded")
	}
	if len(x) == 0 {
		return float32(math.Inf(-1)), 0
	}
	return kernelsInUse().softmax(x)
}

// WeightedSum sets dst[i] = Σⱼ p[j]·v[j·stride+i], by rising j.
func WeightedSum(dst, p, v []float32, stride int) {
	clear(dst)
	if len(p) == 0 || len(dst) == 0 {
		return
	}
	if stride < 0 || (len(p)-1)*stride+len(dst) > len(v) {
		panic("cpu: rows reach beyond the slice")
	}
	kernelsInUse().axpyF32(dst, p, bytesOf(v), 4*stride)
}

func scoresF16Generic(dst []float32, stride int, q []float32, k []byte, step, blocks int) {
	scoresGeneric(dst, stride, q, k, step, blocks, 2, f16)
}

func scoresF32Generic(dst []float32, stride int, q []float32, k []byte, step, blocks int) {
	scoresGeneric(dst, stride, q, k, step, blocks, 4, f32)
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
	mixGeneric(acc, p, stride, n, v, step, 2, f16)
}

func mixF32Generic(acc, p []float32, stride, n int, v []byte, step int) {
	mixGeneric(acc, p, stride, n, v, step, 4, f32)
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

func softmaxGeneric(x []float32) (top, sum float32) { return softmaxBy(expGeneric, x) }

// softmaxBy is [Softmax] with the exponentials of exp.
func softmaxBy(exp func(dst, x []float32, bias float32), x []float32) (top, sum float32) {
	top = Max(x)
	exp(x, x, top)
	var s [4]float32
	for ; len(x) > 0; x = x[4:] {
		s[0], s[1], s[2], s[3] = s[0]+x[0], s[1]+x[1], s[2]+x[2], s[3]+x[3]
	}
	return top, (s[0] + s[2]) + (s[1] + s[3])
}

func f32(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
