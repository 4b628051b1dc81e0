package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"sort"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// Set is a file of traces, open for reading by any number of goroutines. The file is mapped: it must not be truncated
// while it is open.
type Set struct {
	contents
	hash    string
	release func() error
}

// Open maps a file and checks every byte of it. Errors name the file and what is wrong. If prompts are missing the
// error is [ErrIncomplete].
func Open(path string) (*Set, error) {
	b, release, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parseContents(b)
	if err == nil && len(c.prompts) < c.settings.Prompts {
		err = fmt.Errorf("%d prompts of %d: %w", len(c.prompts), c.settings.Prompts, ErrIncomplete)
	}
	if err != nil {
		release() // the file was only read
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.Sum256(b)
	return &Set{contents: *c, hash: hex.EncodeToString(sum[:]), release: release}, nil
}

var errEmpty = fmt.Errorf("it is empty: %w", ErrFormat)

// mapFile returns the bytes of a regular file that is not empty.
func mapFile(path string) ([]byte, func() error, error) {
	info, err := os.Stat(path) // before opening: opening a pipe would wait for a writer
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	switch size := info.Size(); {
	case size == 0:
		return nil, nil, fmt.Errorf("%s: %w", path, errEmpty)
	case int64(int(size)) != size:
		return nil, nil, fmt.Errorf("%s: %d bytes: %w", path, size, ErrValue)
	}
	b, release, err := files.Map(f, int(info.Size()))
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return b, release, nil
}

// Close unmaps the file. No other method but Settings and Hash may run meanwhile or afterwards.
func (s *Set) Close() error {
	release := s.release
	*s = Set{contents: contents{settings: s.settings}, hash: s.hash}
	if release == nil {
		return nil
	}
	return release()
}

// Settings returns the settings of the set.
func (s *Set) Settings() Settings { return s.settings }

// Hash identifies the set: the SHA-256 of the file, in hexadecimal digits.
func (s *Set) Hash() string { return s.hash }

// Bytes returns the size of the file.
func (s *Set) Bytes() int64 { return int64(len(s.b)) }

// Len returns the number of positions.
func (s *Set) Len() int { return s.start[len(s.start)-1] }

// Width returns the width of the hidden states.
func (s *Set) Width() int { return s.settings.Width }

// Prompts returns the number of prompts.
func (s *Set) Prompts() int { return s.settings.Prompts }

// promptRecordOf returns the positions and hidden states of the prompt of position i, and its number among them. A
// position outside the set is a bug and panics.
func (s *Set) promptRecordOf(i int) (positions, hidden []byte, at int) {
	if i < 0 || i >= s.Len() {
		panic(fmt.Sprintf("trace: position %d of %d", i, s.Len()))
	}
	p := sort.Search(len(s.prompts), func(p int) bool { return s.start[p+1] > i })
	positions = s.b[s.at[p]:]
	return positions, positions[(s.start[p+1]-s.start[p])*positionBytes:], i - s.start[p]
}

// At returns position i, 0 to [Set.Len], in the order of the prompts.
func (s *Set) At(i int) Position {
	positions, _, at := s.promptRecordOf(i)
	return positionAt(positions, at)
}

// Hidden fills dst [Width] with the hidden state of position i.
func (s *Set) Hidden(dst []float32, i int) {
	_, h, at := s.promptRecordOf(i)
	if len(dst) != s.settings.Width {
		panic(fmt.Sprintf("trace: room for %d of a hidden state of %d", len(dst), s.settings.Width))
	}
	h = h[2*at*len(dst):]
	for j := range dst {
		dst[j] = gguf.F16ToF32(order.Uint16(h[2*j:]))
	}
}

// Prompt returns the description of prompt p, 0 to [Set.Prompts], and its positions: from up to, not including, to.
func (s *Set) Prompt(p int) (about Prompt, from, to int) {
	return s.prompts[p], s.start[p], s.start[p+1]
}
