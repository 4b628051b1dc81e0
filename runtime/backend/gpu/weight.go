package gpu

import (
	"fmt"
	"math"
	"os"
	"slices"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// weight is a matrix in device memory.
type weight struct {
	kind       gguf.Type // a type that the kernels support
	rows, cols int
	rowBytes   int
	buffer     metal.Buffer
	offset     int          // of the first row
	bias       metal.Buffer // nil or [rows] float32
}

func (w *weight) Shape() (out, in int) { return w.rows, w.cols }

func hasKernels(t gguf.Type) bool {
	return slices.Contains(kernels.Types(), t.String())
}

// LoadWeight implements [backend.Device]. Types that the kernels support are used without a copy, in the pages of a
// file of Options.Mapped. IQ4_NL and Q3_K are repacked as Q8_0 and Q6_K, which hold the same weights; other types
// become F16, or F32 if a weight is too large for F16.
func (d *Device) LoadWeight(m gguf.Tensor, bias *gguf.Tensor) (backend.Weight, error) {
	if len(m.Shape) != 2 {
		return nil, fmt.Errorf("tensor %q: %d dimensions, a matrix has 2", m.Name, len(m.Shape))
	}
	w := &weight{kind: m.Type, rows: m.Shape[1], cols: m.Shape[0]}
	elems, size := m.Type.Block()
	var err error
	switch {
	case m.Type == gguf.IQ4_NL:
		err = d.repackBlocks(w, m, gguf.Q8_0, repackIQ4NL)
	case m.Type == gguf.Q3_K:
		err = d.repackBlocks(w, m, gguf.Q6_K, repackQ3K)
	case !hasKernels(m.Type):
		err = d.convertWeight(w, m)
	case elems == 1 && w.cols%4 != 0:
		err = d.padColumns(w, m.Data, size)
	default:
		w.rowBytes = w.cols / elems * size
		w.buffer, w.offset, err = d.mapOrCopy(m.Data)
	}
	if err == nil {
		if _, err = d.kernelLibrary(w.kind.String()); err == nil {
			d.preparePipelines()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", m.Name, err)
	}
	if w.rowBytes > math.MaxInt32 || w.rows > math.MaxInt32 {
		return nil, fmt.Errorf("tensor %q: %d × %d is too large for the kernels", m.Name, w.rows, w.cols)
	}
	if bias == nil {
		return w, nil
	}
	if w.bias, err = d.loadVector(*bias); err != nil {
		return nil, err
	}
	if bias.Shape[0] != w.rows {
		return nil, fmt.Errorf("tensor %q: %d elements, the matrix has %d rows", bias.Name, bias.Shape[0], w.rows)
	}
	return w, nil
}

// mapping is a memory-mapped file.
type mapping struct {
	bytes  []byte
	buffer metal.Buffer // of the whole file; nil before first use
}

func (m *mapping) findOffset(data []byte) (begin int, found bool) {
	first, at := addressOf(m.bytes), addressOf(data)
	if len(data) == 0 || at < first || at+uintptr(len(data)) > first+uintptr(len(m.bytes)) {
		return 0, false
	}
	return int(at - first), true
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// mapOrCopy makes data readable by kernels, without a copy if it lies in a mapped file.
func (d *Device) mapOrCopy(data []byte) (b metal.Buffer, offset int, err error) {
	for i := range d.mapped {
		m := &d.mapped[i]
		begin, found := m.findOffset(data)
		if !found {
			continue
		}
		if d.canWrap(m.bytes) {
			if m.buffer == nil {
				m.buffer, err = d.wrapPages(m.bytes)
			}
			return m.buffer, begin, err
		}
		page := d.limits.PageSize // the file is too large for one buffer, or begins within a page of the device
		if offset = begin % page; d.canWrap(m.bytes[begin-offset : begin+len(data)]) {
			b, err = d.wrapPages(m.bytes[begin-offset : begin+len(data)])
			return b, offset, err
		}
	}
	if b, err = d.newBuffer(len(data)); err == nil {
		copy(b.Bytes(), data)
	}
	return b, 0, err
}

// canWrap reports whether the pages of mapped bytes can be passed to the device: they begin on a page of the device,
// and the last page of the device is not larger than a page of the system, after which there may be no memory.
func (d *Device) canWrap(bytes []byte) bool {
	page := d.limits.PageSize
	return addressOf(bytes)%uintptr(page) == 0 && ceilDiv(len(bytes), page)*page <= d.limits.BufferLength &&
		ceilDiv(len(bytes), page)*page <= ceilDiv(len(bytes), os.Getpagesize())*os.Getpagesize()
}

func (d *Device) wrapPages(bytes []byte) (metal.Buffer, error) {
	pages := unsafe.Slice(unsafe.SliceData(bytes), ceilDiv(len(bytes), d.limits.PageSize)*d.limits.PageSize)
	b, err := d.metal.WrapBuffer(pages)
	if err == nil {
		d.buffers = append(d.buffers, b)
	}
	return b, err
}

// padColumns copies rows of floats and adds zeros up to a multiple of 4 columns.
func (d *Device) padColumns(w *weight, data []byte, size int) (err error) {
	w.rowBytes = ceilDiv(w.cols, 4) * 4 * size
	if w.buffer, err = d.newBuffer(w.rows * w.rowBytes); err != nil {
		return err
	}
	clear(w.buffer.Bytes())
	for i := range w.rows {
		copy(w.buffer.Bytes()[i*w.rowBytes:], data[i*w.cols*size:(i+1)*w.cols*size])
	}
	return nil
}

// convertWeight stores a matrix of an unsupported type as F16, or as F32 if a weight is too large for F16.
func (d *Device) convertWeight(w *weight, m gguf.Tensor) (err error) {
	elems, size := m.Type.Block()
	from := w.cols / elems * size
	row := make([]float32, w.cols)
	largest := float32(0)
	for i := range w.rows {
		m.Type.Dequantize(row, m.Data[i*from:(i+1)*from])
		for _, v := range row {
			largest = max(largest, v, -v)
		}
	}
	w.kind = gguf.F16
	const maxF16 = 65504
	if !(largest <= maxF16) {
		w.kind = gguf.F32
	}
	_, size = w.kind.Block()
	w.rowBytes = w.cols * size // blocks are multiples of 4
	if w.buffer, err = d.newBuffer(w.rows * w.rowBytes); err != nil {
		return err
	}
	for i := range w.rows {
		m.Type.Dequantize(row, m.Data[i*from:(i+1)*from])
		to := w.buffer.Bytes()[i*w.rowBytes:]
		if w.kind == gguf.F32 {
			copy(sliceAs[float32](to), row)
			continue
		}
		halves := sliceAs[uint16](to)
		for j, v := range row {
			halves[j] = gguf.F32ToF16(v)
		}
	}
	return nil
}

func (d *Device) repackBlocks(w *weight, m gguf.Tensor, to gguf.Type, block func(to, from []byte)) (err error) {
	elems, old := m.Type.Block()
	_, size := to.Block()
	w.kind, w.rowBytes = to, w.cols/elems*size
	if w.buffer, err = d.newBuffer(w.rows * w.rowBytes); err != nil {
		return err
	}
	out := w.buffer.Bytes()
	for from := m.Data; len(from) > 0; from, out = from[old:], out[size:] {
		block(out[:size], from[:old])
	}
	return nil
}

// repackIQ4NL makes of d f16 and nibbles [16] for values of a table d and the values themselves, which are int8.
func repackIQ4NL(to, from []byte) {
	values := [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	copy(to, from[:2])
	for j, v := range from[2:18] {
		to[2+j], to[18+j] = byte(values[v&15]), byte(values[v>>4])
	}
}

// repackQ3K makes of d·scale·q, q in -4 to 3 and a scale for each 16, Q6_K, which has the same with q in -32 to 31.
// Third bits h [32] (byte l, bit i/2 for group i of 16), 2-bit q [64] (in each half of 128, byte l of 32 holds l, l+32,
// l+64, l+96), 12 bytes of scales (low nibbles, then pairs of high bits; 32 less), d f16.
func repackQ3K(to, from []byte) {
	h, q, scales := from[:32], from[32:96], from[96:108]
	clear(to)
	copy(to[208:], from[108:110])
	for i := range 16 {
		low, high := scales[i%8]>>(i/8*4)&15, scales[8+i%4]>>(i/4*2)&3
		to[192+i] = (low | high<<4) - 32
	}
	for e := range 256 {
		n, k, l := e/128, e%128/32, e%32
		v := q[32*n+l]>>(2*k)&3 | h[l]>>(4*n+k)&1<<2 // 4 more than q
		v += 32 - 4
		to[64*n+k%2*32+l] |= v & 15 << (k / 2 * 4)
		to[128+32*n+l] |= v >> 4 << (2 * k)
	}
}

// norm is the gain vector of an RMSNorm.
type norm struct {
	n     int
	gains metal.Buffer
	eps   float32
}

func (n *norm) Len() int { return n.n }

// LoadNorm implements [backend.Device].
func (d *Device) LoadNorm(gains gguf.Tensor, eps float32) (backend.Norm, error) {
	b, err := d.loadVector(gains)
	if err != nil {
		return nil, err
	}
	return &norm{n: gains.Shape[0], gains: b, eps: eps}, nil
}

func (d *Device) loadVector(t gguf.Tensor) (metal.Buffer, error) {
	if len(t.Shape) != 1 {
		return nil, fmt.Errorf("tensor %q: %d dimensions, a vector has 1", t.Name, len(t.Shape))
	}
	b, err := d.newBuffer(4 * t.Shape[0])
	if err != nil {
		return nil, err
	}
	t.Type.Dequantize(sliceAs[float32](b.Bytes())[:t.Shape[0]], t.Data)
	return b, nil
}

// sliceAs returns b as a slice of another type. Device memory is aligned for all of them.
func sliceAs[E uint16 | uint32 | float32](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}
