package host

import (
	"encoding/binary"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
)

// elements are numbers as a KV store holds them.
type elements interface {
	// store sets the elements from the first on to x, and rounds x to what is stored; load returns it.
	store(first int, x []float32)
	load(dst []float32, first int)
	// encode appends all elements to b, decode sets them from the beginning of b and returns the rest.
	encode(b []byte) []byte
	decode(b []byte) []byte
}

func newElements(t gguf.Type, n int) elements {
	if t == gguf.F16 {
		return halves(make([]uint16, n))
	}
	return floats(make([]float32, n))
}

type halves []uint16

func (e halves) store(first int, x []float32) {
	to := e[first : first+len(x)]
	vector.ToF16(to, x)
	vector.FromF16(x, to)
}

func (e halves) load(dst []float32, first int) { vector.FromF16(dst, e[first:first+len(dst)]) }

func (e halves) encode(b []byte) []byte { return appendLittleEndian(b, []uint16(e)) }

func (e halves) decode(b []byte) []byte { return decodeLittleEndian(b, []uint16(e)) }

type floats []float32

func (e floats) store(first int, x []float32) { copy(e[first:], x) }

func (e floats) load(dst []float32, first int) { copy(dst, e[first:]) }

func (e floats) encode(b []byte) []byte { return appendLittleEndian(b, []float32(e)) }

func (e floats) decode(b []byte) []byte { return decodeLittleEndian(b, []float32(e)) }

func appendLittleEndian(b []byte, numbers any) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, numbers) // a slice of numbers has a size
	return b
}

func decodeLittleEndian(b []byte, numbers any) []byte {
	n, _ := binary.Decode(b, binary.LittleEndian, numbers) // likewise, and b is long enough
	return b[n:]
}
