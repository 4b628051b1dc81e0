package gguf

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Metadata of the files of a split model.
const (
	splitCount   = "split.count"         // files
	splitNo      = "split.no"            // this file, from 0
	splitTensors = "split.tensors.count" // tensors in all files
)

// split is a file's description of the split model that it is part of.
type split struct {
	count, no, tensors int64
}

// readSplit returns the description in f; count is 0 if the file is not part of a split model.
func (f *File) readSplit() (s split, err error) {
	if s.count, err = f.readSplitInt(splitCount, 1<<16-1); errors.Is(err, ErrAbsent) {
		return split{}, nil
	}
	if err != nil || s.count <= 1 {
		return s, err
	}
	if s.no, err = f.readSplitInt(splitNo, s.count-1); err != nil {
		return s, err
	}
	s.tensors, err = f.readSplitInt(splitTensors, 1<<31-1)
	return s, err
}

// readSplitInt returns the integer of key, which must lie between 0 and limit. It wraps ErrAbsent if there is none.
func (f *File) readSplitInt(key string, limit int64) (int64, error) {
	v, err := f.Int(key)
	if errors.Is(err, ErrAbsent) {
		return 0, &FormatError{Field: key, Err: fmt.Errorf("%w: %w", ErrSplit, err)}
	}
	if err == nil && (v < 0 || v > limit) {
		err = fmt.Errorf("%d, want 0 to %d: %w", v, limit, ErrSplit)
	}
	if err != nil {
		return 0, f.meta.valueError(key, err)
	}
	return v, nil
}

// joinParts opens the other parts if f, opened from path, is one of several, and makes f the whole model: the metadata
// of the first part, the tensors of all.
func (f *File) joinParts(path string) error {
	own, err := f.readSplit()
	if err != nil || own.count <= 1 {
		return err
	}
	stem, ok := strings.CutSuffix(path, partSuffix(own))
	if !ok {
		return f.meta.valueError(splitCount, fmt.Errorf("%w: part %d of %d, but the name does not end in %s",
			ErrSplit, own.no+1, own.count, partSuffix(own)))
	}
	self := &File{contents: f.contents}
	f.contents = contents{version: self.version, parts: self.parts, index: make(map[string]int)}
	for i := range own.count {
		want := split{own.count, i, own.tensors}
		part := self
		if i != own.no {
			if part, err = f.openPart(stem+partSuffix(want), want); err != nil {
				return err
			}
		}
		if err := f.appendPart(part, i, stem+partSuffix(want)); err != nil {
			return err
		}
	}
	if int64(len(f.tensors)) != own.tensors {
		return withPath(stem+partSuffix(split{count: own.count}), f.meta.valueError(splitTensors,
			fmt.Errorf("%d, but the %d parts hold %d: %w", own.tensors, own.count, len(f.tensors), ErrSplit)))
	}
	return nil
}

func partSuffix(s split) string {
	return fmt.Sprintf("-%05d-of-%05d.gguf", s.no+1, s.count)
}

// openPart opens the part at path. Its description must equal want. f owns its mapping even on an error.
func (f *File) openPart(path string, want split) (*File, error) {
	m, err := openMapping(path)
	if err != nil {
		return nil, &FormatError{Path: path, Field: splitCount, Err: fmt.Errorf("part %d of %d, %s: %w: %w",
			want.no+1, want.count, filepath.Base(path), ErrSplit, err)}
	}
	f.parts = append(f.parts, m)
	part, err := parseFile(m.b)
	if err != nil {
		return nil, withPath(path, err)
	}
	got, err := part.readSplit()
	if err != nil {
		return nil, withPath(path, err)
	}
	if got != want {
		return nil, &FormatError{Path: path, Field: splitCount, Err: fmt.Errorf(
			"part %d of %d with %d tensors in all, want %d of %d with %d: %w",
			got.no+1, got.count, got.tensors, want.no+1, want.count, want.tensors, ErrSplit)}
	}
	return part, nil
}

func (f *File) appendPart(part *File, i int64, path string) error {
	if i == 0 {
		f.meta, f.version = part.meta, part.version
	}
	f.size += part.size
	for _, t := range part.tensors {
		if _, twice := f.index[t.Name]; twice {
			return &FormatError{Path: path, Field: "tensor",
				Err: fmt.Errorf("%s %w in the parts", errs.Quote(t.Name), ErrDuplicate)}
		}
		f.index[t.Name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
	}
	return nil
}

// withPath puts the path into a format error that has none.
func withPath(path string, err error) error {
	var fe *FormatError
	if errors.As(err, &fe) && fe.Path == "" {
		fe.Path = path
	}
	return err
}
