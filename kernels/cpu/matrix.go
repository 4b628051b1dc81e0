package cpu

import (
	"slices"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
)

// Matrix is a weight of shape [Rows, Cols]: row-major, each row a whole number of blocks of Type, as a GGUF file stores
// it. Data holds at least Rows·RowBytes bytes and is only read; it may lie at any alignment.
type Matrix struct {
	Type       block.Type
	Rows, Cols int
	Data       []byte
}

// Floats returns a matrix that uses the float32 numbers of f, [rows, cols], without a copy. Every machine that the
// products run on has the byte order of a GGUF file.
func Floats(f []float32, rows, cols int) Matrix {
	return Matrix{Type: block.F32, Rows: rows, Cols: cols, Data: bytesOf(f[:rows*cols])}
}

// RowBytes returns the bytes of one row.
func (m Matrix) RowBytes() int {
	elems, bytes := m.Type.Block()
	return m.Cols / elems * bytes
}

// Quantised reports whether [MatMul] takes the activations rounded to 8 bits ([Acts.Round]) for this weight, rather
// than in float32.
func (m Matrix) Quantised() bool { return formatOf(m.Type) >= 0 }

// Part returns rows lo to hi as a matrix. The rows after them may be prefetched.
func (m Matrix) Part(lo, hi int) Matrix {
	return Matrix{Type: m.Type, Rows: hi - lo, Cols: m.Cols, Data: m.Data[lo*m.RowBytes():]}
}

func (m Matrix) rowData(lo, hi int) []byte {
	n := m.RowBytes()
	return m.Data[lo*n : hi*n]
}

// format numbers the quantised types that have an integer dot product.
type format int

const (
	q8_0 format = iota
	q4_0
	q5_0
	q4_K
	q5_K
	q6_K
	formats
)

// stored are the types of the formats.
var stored = [formats]block.Type{block.Q8_0, block.Q4_0, block.Q5_0, block.Q4_K, block.Q5_K, block.Q6_K}

// formatOf returns the format of t, -1 if t has none.
func formatOf(t block.Type) format { return format(slices.Index(stored[:], t)) }

// accumulatorCount returns the number of partial sums of a product: block b is added to accumulator b mod accumulators.
func (f format) accumulatorCount() int {
	if elems, _ := f.blockType().Block(); elems == actBlock {
		return 4
	}
	return 8
}

// blockType is the inverse of formatOf.
func (f format) blockType() block.Type { return stored[f] }
