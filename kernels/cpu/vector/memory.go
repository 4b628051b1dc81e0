package vector

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
)

func readF32(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func readF16(b []byte) float32 { return block.F16ToF32(binary.LittleEndian.Uint16(b)) }

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func halfBytes(h []uint16) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(h))), 2*len(h))
}
