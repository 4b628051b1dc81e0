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
	kind       gguf.Type // one that the kernels have
	rows, cols int
	rowBytes   int
	buffer     metal.Buffer
	offset     int          // of the first row
	bias       metal.Buffer // nil or [rows] float32
}

// Shape implements [backend.Weight].
func (w *weight) Shape() (out, in int) { return w.rows, w.cols }

// hasKernels reports whether the kernels read weights of type t as they are.
func hasKernels(t gguf.Type) bool {
	return slices.Contains(kernels.Types(), t.String())
}

// LoadWeight implements [backend.Device]. Types that the kernels have stay as they are, in the pages of the file where
// Options.Mapped says that there are some; the rest becomes F16, or F32 where a weight is too large for that.
func (d *Device) LoadWeight(m gguf.Tensor, bias *gguf.Tensor) (backend.Weight, error) {
	if len(m.Shape) != 2 {
		return nil, fmt.Errorf("tensor %q: %d dimensions, a matrix has 2", m.Name, len(m.Shape))
	}
	w := &weight{kind: m.Type, rows: m.Shape[1], cols: m.Shape[0]}
	elems, size := m.Type.Block()
	var err error
	switch {
	case !hasKernels(m.Type):
		err = d.convert(w, m)
	case elems == 1 && w.cols%4 != 0:
		err = d.pad(w, m.Data, size)
	default:
		w.rowBytes = w.cols / elems * size
		w.buffer, w.offset, err = d.place(m.Data)
	}
	if err == nil {
		_, err = d.library(w.kind.String())
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
	if w.bias, err = d.vector(*bias); err != nil {
		return nil, err
	}
	if bias.Shape[0] != w.rows {
		return nil, fmt.Errorf("tensor %q: %d elements, the matrix has %d rows", bias.Name, bias.Shape[0], w.rows)
	}
	return w, nil
}

// place makes data readable for kernels, without a copy if it lies in mapped pages.
func (d *Device) place(data []byte) (b metal.Buffer, offset int, err error) {
	page := d.limits.PageSize
	// Pages of the device that are larger than those of the system could reach beyond the mapping.
	if d.mapped && len(data) > 0 && page <= os.Getpagesize() {
		first := unsafe.Pointer(unsafe.SliceData(data))
		offset = int(uintptr(first) % uintptr(page))
		length := ceil(offset+len(data), page) * page
		if length <= d.limits.BufferLength {
			b, err = d.metal.WrapBuffer(unsafe.Slice((*byte)(unsafe.Add(first, -offset)), length))
			if err == nil {
				d.buffers = append(d.buffers, b)
			}
			return b, offset, err
		}
	}
	if b, err = d.newBuffer(ceil(len(data), 16) * 16); err != nil { // mat-vecs fetch 16 bytes at a time
		return nil, 0, err
	}
	copy(b.Bytes(), data)
	return b, 0, nil
}

// pad copies rows of floats with a number of columns that is no multiple of 4, with zeros up to one.
func (d *Device) pad(w *weight, data []byte, size int) (err error) {
	w.rowBytes = ceil(w.cols, 4) * 4 * size
	if w.buffer, err = d.newBuffer(w.rows * w.rowBytes); err != nil {
		return err
	}
	for i := range w.rows {
		copy(w.buffer.Bytes()[i*w.rowBytes:], data[i*w.cols*size:(i+1)*w.cols*size])
	}
	return nil
}

// convert stores a matrix of a type that the kernels lack as F16, or as F32 if a weight is beyond F16.
func (d *Device) convert(w *weight, m gguf.Tensor) (err error) {
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
			copy(words[float32](to), row)
			continue
		}
		halves := words[uint16](to)
		for j, v := range row {
			halves[j] = gguf.F32ToF16(v)
		}
	}
	return nil
}

// norm is the gain vector of an RMSNorm.
type norm struct {
	n     int
	gains metal.Buffer
	eps   float32
}

// Len implements [backend.Norm].
func (n *norm) Len() int { return n.n }

// LoadNorm implements [backend.Device].
func (d *Device) LoadNorm(gains gguf.Tensor, eps float32) (backend.Norm, error) {
	b, err := d.vector(gains)
	if err != nil {
		return nil, err
	}
	return &norm{n: gains.Shape[0], gains: b, eps: eps}, nil
}

// vector copies a one-dimensional tensor of any type as float32.
func (d *Device) vector(t gguf.Tensor) (metal.Buffer, error) {
	if len(t.Shape) != 1 {
		return nil, fmt.Errorf("tensor %q: %d dimensions, a vector has 1", t.Name, len(t.Shape))
	}
	b, err := d.newBuffer(4 * t.Shape[0])
	if err != nil {
		return nil, err
	}
	t.Type.Dequantize(words[float32](b.Bytes())[:t.Shape[0]], t.Data)
	return b, nil
}

// words is b as a slice of another type. Memory of a device is aligned for all of them.
func words[E uint16 | uint32 | float32](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}
