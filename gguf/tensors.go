package gguf

import (
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int  // 1 to 4 sizes, fastest-varying first: Shape[0] is the length of a row; must not be modified
	Data  []byte // exactly the bytes of the tensor, row after row; aliases the mapped file, must not be modified
}

// Elems returns the number of elements.
func (t Tensor) Elems() int {
	n := 1
	for _, d := range t.Shape {
		n *= d // the reader has checked that the product fits
	}
	return n
}

// entry is a tensor before its data is located.
type entry struct {
	Tensor
	size   int    // bytes of data
	offset uint64 // of the data from the start of the data section
	at     int    // where the file states offset
}

func tensorBytes(t Type, shape []int) (int, error) {
	elems, bytes := t.Block()
	if elems == 0 {
		return 0, fmt.Errorf("%s: %w", t, ErrType)
	}
	if len(shape) < 1 || len(shape) > maxDims {
		return 0, fmt.Errorf("%d dimensions, want 1 to %d: %w", len(shape), maxDims, ErrShape)
	}
	if shape[0]%elems != 0 {
		return 0, fmt.Errorf("rows of %d are no whole number of %s blocks of %d: %w", shape[0], t, elems, ErrShape)
	}
	n := uint64(1)
	for _, d := range shape {
		if d <= 0 {
			return 0, fmt.Errorf("%v: every size must be positive: %w", shape, ErrShape)
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if _, ok := toInt(lo); hi != 0 || !ok {
			return 0, fmt.Errorf("%v: number of elements: %w", shape, ErrOverflow)
		}
		n = lo
	}
	hi, lo := bits.Mul64(n/uint64(elems), uint64(bytes))
	size, ok := toInt(lo)
	if hi != 0 || !ok {
		return 0, fmt.Errorf("%v of %s: number of bytes: %w", shape, t, ErrOverflow)
	}
	return size, nil
}

// parseEntries parses the descriptions of n tensors, and returns the index of each name. It allocates nothing of size
// n.
func (c *cursor) parseEntries(n int) (all []entry, index map[string]int, err error) {
	index = make(map[string]int)
	c.list = "tensor"
	for c.index = range n {
		off := c.off
		e, err := c.parseEntry()
		if err != nil {
			return nil, nil, err
		}
		if _, twice := index[e.Name]; twice {
			return nil, nil, c.fieldError(off, "name", fmt.Errorf("%s %w", errs.Quote(e.Name), ErrDuplicate))
		}
		index[e.Name] = c.index
		all = append(all, e)
	}
	c.list = ""
	return all, index, nil
}

func (c *cursor) parseEntry() (e entry, err error) {
	if e.Name, err = c.readName("name", maxNameLen); err != nil {
		return e, err
	}
	if e.Shape, err = c.parseShape(); err != nil {
		return e, c.withName(e.Name, err)
	}
	off := c.off
	t, err := c.readUint32("type")
	if err != nil {
		return e, c.withName(e.Name, err)
	}
	e.Type = Type(t)
	if e.size, err = tensorBytes(e.Type, e.Shape); err != nil {
		return e, c.withName(e.Name, c.fieldError(off, "type", err))
	}
	e.at = c.off
	if e.offset, err = c.readUint64("offset"); err != nil {
		return e, c.withName(e.Name, err)
	}
	return e, nil
}

func (c *cursor) withName(name string, err error) error {
	if fe, ok := err.(*FormatError); ok {
		fe.Err = fmt.Errorf("%s: %w", errs.Quote(name), fe.Err)
	}
	return err
}

func (c *cursor) parseShape() ([]int, error) {
	off := c.off
	n, err := c.readUint32("dimensions")
	if err != nil {
		return nil, err
	}
	if n < 1 || n > maxDims {
		return nil, c.fieldError(off, "dimensions", fmt.Errorf("%d, want 1 to %d: %w", n, maxDims, ErrShape))
	}
	shape := make([]int, n)
	for i := range shape {
		off := c.off
		d, err := c.readUint64("shape")
		if err != nil {
			return nil, err
		}
		if d == 0 {
			return nil, c.fieldError(off, "shape", fmt.Errorf("size 0: %w", ErrShape))
		}
		var ok bool
		if shape[i], ok = toInt(d); !ok {
			return nil, c.fieldError(off, "shape", fmt.Errorf("size %d: %w", d, ErrOverflow))
		}
	}
	return shape, nil
}

// locateTensors locates the data of the tensors. The data section starts at the first multiple of align at or after c.
func (c *cursor) locateTensors(all []entry, align int) ([]Tensor, error) {
	if len(all) == 0 {
		return nil, nil
	}
	c.list = "tensor"
	start, ok := alignUp(c.off, align)
	if !ok || start > len(c.b) {
		start = len(c.b) // then no tensor fits
	}
	tensors := make([]Tensor, len(all))
	for i, e := range all {
		c.index = i
		if e.offset%uint64(align) != 0 {
			return nil, c.fieldError(e.at, "offset",
				fmt.Errorf("%s: %d is no multiple of %d: %w", errs.Quote(e.Name), e.offset, align, ErrAlignment))
		}
		if room := uint64(len(c.b) - start); e.offset > room || uint64(e.size) > room-e.offset {
			return nil, c.fieldError(e.at, "offset",
				fmt.Errorf("%s: %d bytes of data at %d, but the data section has %d; is the file cut off? %w",
					errs.Quote(e.Name), e.size, e.offset, room, io.ErrUnexpectedEOF))
		}
		from := start + int(e.offset)
		e.Data = c.b[from : from+e.size : from+e.size]
		tensors[i] = e.Tensor
	}
	return tensors, c.checkOverlap(all)
}

func (c *cursor) checkOverlap(all []entry) error {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(all[i].offset, all[j].offset), cmp.Compare(i, j))
	})
	for k := 1; k < len(order); k++ {
		a, b := all[order[k-1]], all[order[k]]
		if a.offset+uint64(a.size) > b.offset {
			c.index = order[k]
			return c.fieldError(b.at, "offset",
				fmt.Errorf("%s at %d: %w, %s", errs.Quote(b.Name), b.offset, ErrOverlap, errs.Quote(a.Name)))
		}
	}
	return nil
}
