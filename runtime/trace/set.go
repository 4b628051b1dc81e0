package trace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"sync"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// Set is a folder of traces, open for reading by any number of goroutines. Its files are mapped: they must not be
// truncated while it is open.
type Set struct {
	settings Settings
	shards   []*shard
	start    []int // the first position of each shard, and the number of positions at the end
	release  []func() error
	hash     string
}

// Open maps all shards of a folder and checks every byte of them. Errors name file and field. If shards are missing the
// error is [ErrIncomplete].
func Open(dir string) (*Set, error) {
	settings, manifest, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	n := settings.Shards()
	for i := range n { // before allocating anything for each of them
		if _, err := os.Stat(shardPath(dir, i)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: shard %d of %d: %w", dir, i, n, ErrIncomplete)
		} else if err != nil {
			return nil, err
		}
	}
	s := &Set{settings: *settings, shards: make([]*shard, n), start: make([]int, n+1), release: make([]func() error, n)}
	if err := s.load(dir, manifest); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	sum := sha256.New()
	for i, part := range s.shards {
		s.start[i+1] = s.start[i] + part.positions
		sum.Write(part.section(part.checksum))
	}
	s.hash = hexOf([32]byte(sum.Sum(nil)))
	return s, nil
}

// load opens the shards, as many at a time as there are processors.
func (s *Set) load(dir string, manifest [32]byte) error {
	errs := make([]error, len(s.shards))
	var all sync.WaitGroup
	next := make(chan int)
	for range min(runtime.GOMAXPROCS(0), len(s.shards)) {
		all.Go(func() {
			for i := range next {
				s.shards[i], s.release[i], errs[i] = openShard(dir, i, &s.settings, manifest)
			}
		})
	}
	for i := range s.shards {
		next <- i
	}
	close(next)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// shardPath returns the path of a shard's file.
func shardPath(dir string, shard int) string {
	return filepath.Join(dir, fmt.Sprintf("shard-%05d.trace", shard))
}

// openShard maps and checks one file, which must have these settings and that number.
func openShard(dir string, number int, settings *Settings, manifest [32]byte) (*shard, func() error, error) {
	path := shardPath(dir, number)
	b, release, err := mapped(path)
	if err != nil {
		return nil, nil, err
	}
	s, err := parse(b)
	if err == nil {
		err = s.belongs(settings, number)
	}
	if err == nil && [32]byte(s.section(s.manifest)) != manifest {
		err = fail("manifest", ErrManifest)
	}
	if err == nil {
		return s, release, nil
	}
	if e, ok := errors.AsType[*FormatError](err); ok {
		e.Path = path
	}
	return nil, nil, errors.Join(err, release())
}

// mapped returns the bytes of a regular file.
func mapped(path string) ([]byte, func() error, error) {
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
	case size < headerBytes:
		return nil, nil, &FormatError{path, "header", io.ErrUnexpectedEOF}
	case int64(int(size)) != size:
		return nil, nil, &FormatError{path, "size", fmt.Errorf("%d bytes: %w", size, ErrValue)}
	}
	b, release, err := files.Map(f, int(info.Size()))
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return b, release, nil
}

// Close unmaps the files. No other method may run meanwhile or afterwards.
func (s *Set) Close() error {
	var err error
	for _, release := range s.release {
		if release != nil {
			err = errors.Join(err, release())
		}
	}
	*s = Set{settings: s.settings, hash: s.hash}
	return err
}

// Settings returns the settings of the set.
func (s *Set) Settings() Settings { return s.settings }

// Hash identifies the set: the SHA-256, in hexadecimal digits, of the checksums of its shards, which include the
// manifest.
func (s *Set) Hash() string { return s.hash }

// Bytes returns the size of all shards.
func (s *Set) Bytes() (sum int64) {
	for _, part := range s.shards {
		sum += int64(len(part.b))
	}
	return sum
}

// Len returns the number of positions.
func (s *Set) Len() int { return s.start[len(s.start)-1] }

// Width returns the width of the hidden states.
func (s *Set) Width() int { return s.settings.Width }

// Prompts returns the number of prompts.
func (s *Set) Prompts() int { return s.settings.Prompts }

// shardOf returns the shard of a position, and the position's number in it. A position outside the set is a bug and
// panics.
func (s *Set) shardOf(i int) (*shard, int) {
	if i < 0 || i >= s.Len() {
		panic(fmt.Sprintf("trace: position %d of %d", i, s.Len()))
	}
	n := sort.Search(len(s.shards), func(n int) bool { return s.start[n+1] > i })
	return s.shards[n], i - s.start[n]
}

// At returns position i, 0 to [Set.Len], in the order of the prompts.
func (s *Set) At(i int) Position {
	part, at := s.shardOf(i)
	p := part.at(at)
	prompt := part.promptOf(at)
	p.Prompt = int32(part.first + prompt)
	p.Pos = int32(part.promptAt(prompt).Tokens + at - part.start[prompt])
	return p
}

// Hidden fills dst [Width] with the hidden state of position i.
func (s *Set) Hidden(dst []float32, i int) {
	part, at := s.shardOf(i)
	h := part.halves(at)
	if len(dst) != part.width {
		panic(fmt.Sprintf("trace: room for %d of a hidden state of %d", len(dst), part.width))
	}
	for j := range dst {
		dst[j] = gguf.F16ToF32(order.Uint16(h[2*j:]))
	}
}

// Prompt returns the description of prompt p, 0 to [Set.Prompts], and its positions: from up to, not including, to.
func (s *Set) Prompt(p int) (about Prompt, from, to int) {
	if p < 0 || p >= s.settings.Prompts {
		panic(fmt.Sprintf("trace: prompt %d of %d", p, s.settings.Prompts))
	}
	n := p / s.settings.ShardPrompts
	part := s.shards[n]
	at := p - part.first
	return part.promptAt(at), s.start[n] + part.start[at], s.start[n] + part.start[at+1]
}
