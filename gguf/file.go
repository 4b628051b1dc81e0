package gguf

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// File is an open GGUF file, or all files of a split model. Its methods may be called from several goroutines, also
// while another one calls [File.Close]; afterwards the file is empty, and reading metadata gives [ErrClosed].
type File struct {
	uses files.Lease // of the mapping
	contents

	hashed      sync.Once
	fingerprint string // once hashed
}

// contents is what a file holds.
type contents struct {
	version uint32
	meta    metadata
	tensors []Tensor
	index   map[string]int // name to position in tensors
	parts   []mapping
	size    int64
}

// Open maps the file at path read-only and checks it whole, tensor data excepted. If the file is part of a split
// model, whichever part, the other parts are opened too. Bytes that are no GGUF file give a [FormatError] with Path
// set, and so do parts that are missing. The file must not be cut short while it is open.
func Open(path string) (*File, error) {
	m, err := openMapping(path)
	if err != nil {
		return nil, err
	}
	f, err := parseFile(m.b)
	if err == nil {
		f.parts = []mapping{m}
		err = f.joinParts(path)
	} else {
		err = joinError(err, m.close())
	}
	return closeOnError(f, path, err)
}

// Parse makes the same checks on the bytes of a file in memory. The File aliases b, which must not change. One part
// of a split model is refused, as its siblings can only be found by name.
func Parse(b []byte) (*File, error) {
	f, err := parseFile(b)
	if err == nil {
		var s split
		if s, err = f.readSplit(); err == nil && s.count > 1 {
			err = &FormatError{Field: splitCount,
				Err: fmt.Errorf("one of %d parts, open it by its name: %w", s.count, ErrSplit)}
		}
	}
	return closeOnError(f, "", err)
}

// closeOnError returns f if err is nil, or else closes it and puts the path into the error.
func closeOnError(f *File, path string, err error) (*File, error) {
	if err == nil {
		return f, nil
	}
	err = withPath(path, err)
	if f != nil {
		err = joinError(err, f.Close())
	}
	return nil, err
}

// joinError returns err, joined with besides if that is not nil.
func joinError(err, besides error) error {
	if besides == nil {
		return err
	}
	return errors.Join(err, besides)
}

func parseFile(b []byte) (*File, error) {
	c := cursor{b: b}
	version, err := c.parseHeader()
	if err != nil {
		return nil, err
	}
	off := c.off
	tensors, err := c.readCount(minTensorBytes, "tensor_count")
	if err != nil {
		return nil, err
	}
	pairs, err := c.readCount(minPairBytes, "kv_count")
	if err != nil {
		return nil, err
	}
	if tensors > (c.remainingBytes()-pairs*minPairBytes)/minTensorBytes {
		return nil, c.fieldError(off, "tensor_count",
			fmt.Errorf("%d with %d metadata pairs: %w", tensors, pairs, ErrTooLong))
	}
	f := &File{contents: contents{version: version, size: int64(len(b))}}
	if f.meta, err = c.parseMetadata(pairs); err != nil {
		return nil, err
	}
	entries, index, err := c.parseEntries(tensors)
	if err != nil {
		return nil, err
	}
	align, err := f.readAlignment()
	if err != nil {
		return nil, err
	}
	if f.tensors, err = c.locateTensors(entries, align); err != nil {
		return nil, err
	}
	f.index = index
	return f, nil
}

func (c *cursor) parseHeader() (version uint32, err error) {
	m, err := c.readBytes(len(magic), "magic")
	if err != nil {
		return 0, err
	}
	if string(m) != magic {
		return 0, c.fieldError(0, "magic", fmt.Errorf("%q: %w", m, ErrMagic))
	}
	off := c.off
	if version, err = c.readUint32("version"); err != nil {
		return 0, err
	}
	if swapped := bits.ReverseBytes32(version); version > 0xffff && swapped <= 0xffff {
		return 0, c.fieldError(off, "version", fmt.Errorf("version %d: %w", swapped, ErrBigEndian))
	}
	if version != 2 && version != 3 {
		return 0, c.fieldError(off, "version", fmt.Errorf("version %d: %w", version, ErrVersion))
	}
	return version, nil
}

// readAlignment returns the alignment of tensor data in bytes.
func (f *File) readAlignment() (int, error) {
	v, err := f.Int(alignmentKey)
	if errors.Is(err, ErrAbsent) {
		return defaultAlignment, nil
	}
	if err == nil {
		err = checkAlignment(v)
	}
	if err != nil {
		return 0, f.meta.valueError(alignmentKey, err)
	}
	return int(v), nil
}

func checkAlignment(v int64) error {
	if v < minAlignment || v > maxAlignment || v&(v-1) != 0 {
		return fmt.Errorf("%d, want a power of two from %d to %d: %w", v, minAlignment, maxAlignment, ErrAlignment)
	}
	return nil
}

// valueError returns the error that the value of key, which exists, has cause err.
func (m *metadata) valueError(key string, err error) error {
	i := m.index[key]
	return &FormatError{Offset: int64(m.offsets[i]), Field: fmt.Sprintf("kv[%d].value", i),
		Err: fmt.Errorf("%s: %w", key, err)}
}

// Close unmaps the file. It waits for methods that read it. Tensor data, values and string arrays that came from the
// file must not be touched afterwards. A second Close does nothing.
func (f *File) Close() error {
	if !f.uses.Close() {
		return nil
	}
	var err error
	for _, m := range f.parts {
		err = errors.Join(err, m.close())
	}
	return err
}

// Size returns the bytes of the file, or of all files of a split model.
func (f *File) Size() int64 { return f.size }

// Version returns the version of the format, 2 or 3.
func (f *File) Version() uint32 { return f.version }

// Tensors returns the tensors in file order, those of a split model part after part.
func (f *File) Tensors() []Tensor {
	if !f.uses.Take() {
		return nil
	}
	defer f.uses.Give()
	return slices.Clone(f.tensors)
}

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok || !f.uses.Take() {
		return Tensor{}, false
	}
	defer f.uses.Give()
	return f.tensors[i], true
}

// Mappings returns the bytes of each file of the model, if all tensor data lie in memory-mapped pages of the files, and
// nil otherwise. They are valid until [File.Close].
func (f *File) Mappings() (all [][]byte) {
	if !f.Mapped() || !f.uses.Take() {
		return nil
	}
	defer f.uses.Give()
	for _, p := range f.parts {
		all = append(all, p.b)
	}
	return all
}

// Mapped reports whether all tensor data lie in memory-mapped pages of the file.
func (f *File) Mapped() bool {
	for _, p := range f.parts {
		if !p.mapped {
			return false
		}
	}
	return len(f.parts) > 0
}
