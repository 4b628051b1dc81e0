package gguf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// largeFile makes a file of random tensors that fill about this many huge pages, and returns its bytes, too.
func largeFile(t *testing.T, pages float64) (path string, content []byte) {
	if hugemem.Size() == 0 {
		t.Skip("this system has no huge pages")
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	elems := int(pages*float64(hugemem.Size())/4) / 3
	for _, name := range []string{"a", "b", "c"} {
		w.Declare(name, F32, elems)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		v := make([]float32, elems)
		for i := range v {
			v[i] = r.Float32()
		}
		require.NoError(t, w.WriteFloats(v))
	}
	require.NoError(t, w.Close())
	path = filepath.Join(held.TempDir(t), "large.gguf")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path, b.Bytes()
}

// TestMoveToHugePages: concurrent readers always find the bytes of the file while pages are moved, also by two callers.
func TestMoveToHugePages(t *testing.T) {
	path, content := largeFile(t, 9.6)
	f := opened(t, path)
	all := f.parts[0].b
	var readers, movers sync.WaitGroup
	var over atomic.Bool
	for range 3 {
		readers.Go(func() {
			for done := false; !done; {
				done = over.Load() // the last pass begins after the move
				for at := 0; at < len(all); at += 1 << 16 {
					end := min(at+1<<16, len(all))
					if !bytes.Equal(content[at:end], all[at:end]) {
						t.Error("bytes differ from those of the file")
						return
					}
					runtime.Gosched() // the comparison is assembly, which the scheduler cannot interrupt
				}
			}
		})
	}
	for range 2 {
		movers.Go(func() { assert.NoError(t, f.MoveToHugePages(t.Context())) })
	}
	movers.Wait()
	over.Store(true)
	readers.Wait()
	p, err := f.Placement()
	require.NoError(t, err)
	assert.EqualValues(t, len(content), p.Bytes)
	assert.GreaterOrEqual(t, p.Huge+p.Small, int64(len(content)/hugemem.Size()*hugemem.Size()))
	whole := len(content) / hugemem.Size() * hugemem.Size()
	assert.Equal(t, whole>>10, smapsField(t, f, "Anonymous:"), "all whole pages are anonymous memory")
	require.NoError(t, f.Close())
	assert.ErrorIs(t, f.MoveToHugePages(t.Context()), ErrClosed)
	_, err = f.Placement()
	assert.ErrorIs(t, err, ErrClosed)
}

// smapsField returns the sum of a field in smaps over the mapping of a file, in kilobytes.
func smapsField(t *testing.T, f *File, name string) (sum int) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	ours := false
	for line := range strings.Lines(string(smaps)) {
		if lo, hi, ok := parseAddressRange(line); ok {
			ours = overlapsMapping(lo, hi, f.parts)
		} else if text, found := strings.CutPrefix(line, name); found && ours {
			n, _ := parseKilobytes(text)
			sum += int(n)
		}
	}
	return sum
}

// TestNothingIsLeft: a closed file leaves no mapping and no descriptor, and a move that ends early leaves no mapping.
func TestNothingIsLeft(t *testing.T) {
	racing.Spare(t)
	path, _ := largeFile(t, 8)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	taken := func() (pages, files int) {
		statm, err := os.ReadFile("/proc/self/statm")
		require.NoError(t, err)
		_, err = fmt.Sscan(string(statm), &pages)
		require.NoError(t, err)
		open, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return pages, len(open)
	}
	pages, files := taken()
	for range 100 {
		f := opened(t, path)
		assert.ErrorIs(t, f.MoveToHugePages(ctx), context.Canceled)
		_, err := f.Placement()
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	pagesAfter, filesAfter := taken()
	assert.Equal(t, files, filesAfter)
	assert.Less(t, (pagesAfter-pages)*os.Getpagesize(), 40*8*hugemem.Size(), "less than some of the hundred")
}

// TestMoveHoldsNothingTwice: at most one page of the file is held twice: resident memory never exceeds the file by
// more, while all of it is read continuously.
func TestMoveHoldsNothingTwice(t *testing.T) {
	path, content := largeFile(t, 8)
	f := opened(t, path)
	m, size := f.parts[0], hugemem.Size()
	page, err := hugemem.Alloc(size)
	require.NoError(t, err)
	resident := func() int { return smapsField(t, f, "Rss:") }
	require.True(t, bytes.Equal(content, m.b))
	assert.InDelta(t, len(content)>>10, resident(), 8)
	require.NoError(t, m.replacePage(3*size, page))
	assert.InDelta(t, len(content)>>10, resident(), 8)
	require.True(t, bytes.Equal(content, m.b))
	require.NoError(t, f.MoveToHugePages(t.Context()))
	require.True(t, bytes.Equal(content, m.b))
	assert.InDelta(t, len(content)>>10, resident(), 8)
}

// TestMoveEnds: the move ends with its context, with the file, and at the end of a truncated file; moved pages stay,
// and the rest does not change.
func TestMoveEnds(t *testing.T) {
	t.Run("context", func(t *testing.T) {
		path, content := largeFile(t, 4)
		f := opened(t, path)
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		assert.ErrorIs(t, f.MoveToHugePages(ctx), why)
		assert.True(t, bytes.Equal(content, f.parts[0].b))
		p, err := f.Placement()
		require.NoError(t, err)
		assert.Zero(t, p.Small)
	})
	t.Run("cut short", func(t *testing.T) {
		path, content := largeFile(t, 8)
		f := opened(t, path)
		left := 3*hugemem.Size() + 100
		require.NoError(t, os.Truncate(path, int64(left)))
		err := f.MoveToHugePages(t.Context())
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.ErrorContains(t, err, path)
		assert.True(t, bytes.Equal(content[:left], f.parts[0].b[:left]))
		require.NoError(t, os.WriteFile(path, content, 0o600))
		assert.True(t, bytes.Equal(content, f.parts[0].b), "the rest is still the file")
	})
	t.Run("closed", func(t *testing.T) {
		path, _ := largeFile(t, 16)
		f := opened(t, path)
		var moving sync.WaitGroup
		moving.Go(func() {
			if err := f.MoveToHugePages(t.Context()); err != nil {
				assert.ErrorIs(t, err, ErrClosed)
			}
		})
		require.NoError(t, f.Close())
		moving.Wait()
	})
}

// TestMoveNothing: memory that is not mapped cannot be moved, and a small file has no whole huge pages.
func TestMoveNothing(t *testing.T) {
	path, content := largeFile(t, 0.5)
	f, err := Parse(content)
	require.NoError(t, err)
	assert.ErrorIs(t, f.MoveToHugePages(t.Context()), ErrHugePages)
	p, err := f.Placement()
	require.NoError(t, err)
	assert.Equal(t, Placement{Bytes: int64(len(content))}, p)
	f = opened(t, path)
	assert.ErrorIs(t, f.MoveToHugePages(t.Context()), ErrHugePages)
	assert.True(t, bytes.Equal(content, f.parts[0].b))
}

// TestMoveSplit: of a split model the parts that fill huge pages are moved, whatever the other parts contain.
func TestMoveSplit(t *testing.T) {
	if hugemem.Size() == 0 {
		t.Skip("this system has no huge pages")
	}
	dir := held.TempDir(t)
	var first string
	for part, elems := range []int{1, 3 * hugemem.Size() / 4, 2} {
		path := save(t, dir, fmt.Sprintf("m-%05d-of-00003.gguf", part+1), written(t, func(w *Writer) {
			splitKeys(w, 3, part, 3)
			w.Declare(fmt.Sprint("t", part), F32, elems)
			require.NoError(t, w.WriteFloats(make([]float32, elems)))
		}))
		first = cmp.Or(first, path)
	}
	f := opened(t, first)
	require.NoError(t, f.MoveToHugePages(t.Context()))
	assert.Equal(t, 3*hugemem.Size()>>10, smapsField(t, f, "Anonymous:"))
}

// TestMovedIsReadOnly: memory that replaced the pages of a file is read-only, like these.
func TestMovedIsReadOnly(t *testing.T) {
	path, _ := largeFile(t, 3)
	f := opened(t, path)
	require.NoError(t, f.MoveToHugePages(t.Context()))
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	entries := 0
	for line := range strings.Lines(string(smaps)) {
		if lo, hi, ok := parseAddressRange(line); ok && overlapsMapping(lo, hi, f.parts) {
			entries++
			assert.Contains(t, line, " r--", "%s", line)
		}
	}
	assert.GreaterOrEqual(t, entries, 2)
}

// TestPipe: a pipe is refused without waiting for a writer.
func TestPipe(t *testing.T) {
	path := filepath.Join(held.TempDir(t), "pipe.gguf")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	both, err := os.OpenFile(path, os.O_RDWR, 0) // so that the test ends even if Open waits for a writer
	require.NoError(t, err)
	defer both.Close()
	_, err = Open(path)
	require.ErrorContains(t, err, path+": not a regular file")
}

// TestPlacement: other mappings in smaps are not counted.
func TestPlacement(t *testing.T) {
	if hugemem.Size() == 0 {
		t.Skip("this system has no huge pages")
	}
	b, err := hugemem.Alloc(3 << 12)
	require.NoError(t, err)
	defer hugemem.Free(b)
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	at := func(lo, hi int) string {
		return fmt.Sprintf("%x-%x r--s 00000000 fd:00 1 /a:b\n", base+uintptr(lo), base+uintptr(hi))
	}
	smaps := at(0, 4096) +
		"Anonymous:        100 kB\nAnonHugePages:     40 kB\nFilePmdMapped:      0 kB\nVmFlags: rd mr\n" +
		at(4096, 8192) + "Anonymous:          0 kB\nAnonHugePages:      0 kB\nFilePmdMapped:      7 kB\n" +
		at(3<<12, 4<<12) + "Anonymous:        900 kB\nAnonHugePages:    900 kB\nFilePmdMapped:    900 kB\n" +
		at(-4096, 0) + "Anonymous:        900 kB\n"
	var p Placement
	require.NoError(t, p.addSmaps(strings.NewReader(smaps), []mapping{{b: b}}))
	assert.Equal(t, Placement{Huge: 47 << 10, Small: 60 << 10}, p)
}
