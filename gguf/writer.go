package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Writer writes a version 3 file front to back: first metadata ([Put], [PutArray], [Writer.PutValue]) and declarations
// of tensors ([Writer.Declare]), each in the order of the file; then the data of the tensors in the order of
// declaration ([Writer.Write] for bytes, [Writer.WriteFloats] for floats to quantise), in pieces of any size, so that
// no tensor need be in memory; then [Writer.Close]. The same calls write the same bytes. Tensor data are aligned to the
// metadata general.alignment, or to 32 bytes without it.
//
// The first error sticks: every later call that can return an error returns it, in particular Close.
type Writer struct {
	out     io.Writer
	err     error
	keys    map[string]struct{}
	names   map[string]struct{}
	pairs   []byte // metadata, encoded
	tensors []entry
	align   int
	begun   bool  // the header is written: only data may follow
	current int   // tensor being written
	written int   // bytes of its data that are written
	offset  int64 // bytes written to out
	buf     []byte
}

// Element is a Go type that one metadata value, or the elements of an array, can have.
type Element interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | bool | string
}

var (
	errOrder = errors.New("metadata and declarations come before data")
	errData  = errors.New("more data than the declared tensors have")
)

// NewWriter returns a writer of a file to out, which it does not close. Only the part before the data is buffered: out
// should be a bufio.Writer if the data come in small pieces.
func NewWriter(out io.Writer) *Writer {
	return &Writer{out: out, align: defaultAlignment, keys: make(map[string]struct{}), names: make(map[string]struct{})}
}

// Put adds a metadata pair. The Go type of v is the type in the file: a uint32 is stored as uint32. Keys must differ,
// and general.alignment must be a power of two of at least 8.
func Put[T Element](w *Writer, key string, v T) {
	w.addPair(key, Value{kind: kindOf[T](), b: appendElement(nil, v)})
}

// PutArray adds an array. Keys must differ.
func PutArray[T Element](w *Writer, key string, all []T) {
	v := Value{kind: KindArray, elem: kindOf[T](), n: len(all)}
	for _, e := range all {
		if s, ok := any(e).(string); ok {
			if len(s) > maxString {
				w.recordError(fmt.Errorf("metadata %s: %w", errs.Quote(key),
					tooManyError(uint64(len(s)), maxString, "bytes")))
				return
			}
			v.b = binary.LittleEndian.AppendUint64(v.b, uint64(len(s)))
		}
		v.b = appendElement(v.b, e)
	}
	w.addPair(key, v)
}

// PutValue adds a pair with a value of another file, whatever its type. Keys must differ.
func (w *Writer) PutValue(key string, v Value) { w.addPair(key, v) }

func (w *Writer) addPair(key string, v Value) {
	err := checkName(key, maxKeyLen)
	if _, twice := w.keys[key]; twice {
		err = ErrDuplicate
	}
	if width, ok := v.kind.byteWidth(); err == nil && (!ok || width > 0 && len(v.b) != width) {
		err = ErrType // the zero Value
	}
	if err == nil {
		err = checkValue(v)
	}
	if err == nil && key == alignmentKey {
		err = w.setAlignment(v)
	}
	if err == nil && w.begun {
		err = errOrder
	}
	if err != nil {
		w.recordError(fmt.Errorf("metadata %s: %w", errs.Quote(key), err))
		return
	}
	w.keys[key] = struct{}{}
	w.pairs = appendString(w.pairs, key)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, uint32(v.kind))
	switch v.kind {
	case KindString:
		w.pairs = binary.LittleEndian.AppendUint64(w.pairs, uint64(len(v.b)))
	case KindArray:
		w.pairs = binary.LittleEndian.AppendUint32(w.pairs, uint32(v.elem))
		w.pairs = binary.LittleEndian.AppendUint64(w.pairs, uint64(v.n))
	}
	w.pairs = append(w.pairs, v.b...)
}

// checkValue returns an error if no reader would accept v.
func checkValue(v Value) error {
	switch {
	case v.kind == KindString && len(v.b) > maxString:
		return tooManyError(uint64(len(v.b)), maxString, "bytes")
	case v.kind == KindArray && v.n > maxElements:
		return tooManyError(uint64(v.n), maxElements, "elements")
	case v.kind == KindString && !utf8.Valid(v.b):
		return ErrUTF8
	}
	return nil
}

func (w *Writer) setAlignment(v Value) error {
	n, ok := v.toInt64()
	if !ok {
		return &TypeError{alignmentKey, "integer", v.Type()}
	}
	w.align = int(n)
	return checkAlignment(n)
}

// Declare adds a tensor; shape is as in [Tensor], the length of a row first. Names must differ.
func (w *Writer) Declare(name string, t Type, shape ...int) {
	err := checkName(name, maxNameLen)
	if _, twice := w.names[name]; twice {
		err = ErrDuplicate
	}
	size, sizeErr := tensorBytes(t, shape)
	if err == nil {
		err = sizeErr
	}
	if err == nil && w.begun {
		err = errOrder
	}
	if err != nil {
		w.recordError(fmt.Errorf("tensor %s: %w", errs.Quote(name), err))
		return
	}
	w.names[name] = struct{}{}
	w.tensors = append(w.tensors,
		entry{Tensor: Tensor{Name: name, Type: t, Shape: append([]int(nil), shape...)}, size: size})
}

// Write writes the next bytes of tensor data: p may be part of a tensor or continue into the next one.
func (w *Writer) Write(p []byte) (n int, err error) {
	w.writeHeader()
	for len(p) > 0 && w.err == nil {
		if w.current == len(w.tensors) {
			w.recordError(errData)
			break
		}
		chunk := p[:min(len(p), w.tensors[w.current].size-w.written)]
		w.writeOut(chunk)
		if w.err == nil {
			n += len(chunk)
			p = p[len(chunk):]
			w.advanceTensor(len(chunk))
		}
	}
	return n, w.err
}

// advanceTensor records that n more bytes of the current tensor are written, and pads its end.
func (w *Writer) advanceTensor(n int) {
	w.written += n
	if w.written == w.tensors[w.current].size {
		w.writePadding()
		w.current, w.written = w.current+1, 0
	}
}

// WriteFloats quantises x to the type of the tensor being written and writes it: x is all of that tensor or its next
// whole number of blocks, and must not continue into the next tensor.
func (w *Writer) WriteFloats(x []float32) error {
	w.writeHeader()
	if w.err == nil && w.current == len(w.tensors) {
		w.recordError(errData)
	}
	if w.err != nil {
		return w.err
	}
	t := w.tensors[w.current]
	elems, bytes := t.Type.Block()
	if len(x)%elems != 0 || len(x)/elems > (t.size-w.written)/bytes {
		return w.recordError(fmt.Errorf("tensor %s: %d floats with %d of its %d bytes written: %w",
			errs.Quote(t.Name), len(x), w.written, t.size, errData))
	}
	const blocks = 1 << 10
	for len(x) > 0 && w.err == nil {
		n := min(len(x)/elems, blocks)
		if cap(w.buf) < n*bytes {
			w.buf = make([]byte, n*bytes)
		}
		b := w.buf[:n*bytes]
		if err := t.Type.Quantize(b, x[:n*elems]); err != nil {
			return w.recordError(fmt.Errorf("tensor %s: %w", errs.Quote(t.Name), err))
		}
		_, _ = w.Write(b) // its error sticks
		x = x[n*elems:]
	}
	return w.err
}

// Close completes a file without tensors, and returns the first error of the writer; missing tensor data are an error.
// It does not close the underlying writer.
func (w *Writer) Close() error {
	w.writeHeader()
	if w.err == nil && w.current < len(w.tensors) {
		t := w.tensors[w.current]
		w.recordError(fmt.Errorf("tensor %s: %d of %d bytes were written: %w", errs.Quote(t.Name), w.written, t.size,
			io.ErrUnexpectedEOF))
	}
	return w.err
}

// writeHeader writes everything before the data, once.
func (w *Writer) writeHeader() {
	if w.begun || w.err != nil {
		return
	}
	w.begun = true
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint32(b, versionWritten)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.keys)))
	w.writeOut(b)
	w.writeOut(w.pairs)
	w.pairs = nil
	b = b[:0]
	var offset uint64
	for _, t := range w.tensors {
		b = appendString(b, t.Name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
		for _, d := range t.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(t.Type))
		b = binary.LittleEndian.AppendUint64(b, offset)
		offset += (uint64(t.size) + uint64(w.align) - 1) &^ (uint64(w.align) - 1)
	}
	w.writeOut(b)
	w.writePadding()
}

func (w *Writer) writeOut(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	n, err := w.out.Write(b)
	w.offset += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.recordError(fmt.Errorf("write at %d: %w", w.offset, err))
	}
}

func (w *Writer) writePadding() {
	if n := int(-w.offset & int64(w.align-1)); n > 0 {
		w.writeOut(make([]byte, n))
	}
}

// recordError records err if it is the first error, and returns the first error.
func (w *Writer) recordError(err error) error {
	if w.err == nil {
		w.err = fmt.Errorf("write gguf: %w", err)
	}
	return w.err
}

// appendElement appends a number, or the bytes of a string.
func appendElement[T Element](b []byte, v T) []byte {
	if s, ok := any(v).(string); ok {
		return append(b, s...)
	}
	b, _ = binary.Append(b, binary.LittleEndian, v) // every other Element has a size
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
