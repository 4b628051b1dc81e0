package held

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// TestOpenIn: openFilesIn finds the open and the mapped files of the folder, also if their names were removed, and no
// others.
func TestOpenIn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	dir := TempDir(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(a, make([]byte, 4096), 0o600))
	other, err := os.Create(dir + "2") // next to it
	require.NoError(t, err)
	defer other.Close()
	assert.Empty(t, openFilesIn(dir))
	folder, err := os.Open(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"open " + dir}, openFilesIn(dir))
	require.NoError(t, folder.Close())

	before := Descriptors()
	open, err := os.Open(a)
	require.NoError(t, err)
	assert.Equal(t, before+1, Descriptors())
	_, unmap, err := files.Map(open, 4096)
	require.NoError(t, err)
	assert.Equal(t, []string{"open " + a, "mapped " + a}, openFilesIn(dir))
	require.NoError(t, os.Rename(a, b))
	require.NoError(t, os.Remove(b))
	assert.Equal(t, []string{"open " + b + " (deleted)", "mapped " + b + " (deleted)"}, openFilesIn(dir))
	require.NoError(t, unmap())
	require.NoError(t, open.Close())
	assert.Empty(t, openFilesIn(dir))
}

// TestTempDir: a file of the folder that is open at the end of the test is an error of that test, and one that is
// closed is not.
func TestTempDir(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	for _, left := range []bool{false, true} {
		s := new(seen)
		var file *os.File
		t.Run(fmt.Sprint("left open: ", left), func(t *testing.T) {
			s.TB = t
			var err error
			file, err = os.Create(filepath.Join(TempDir(s), "a"))
			require.NoError(t, err)
			if !left {
				require.NoError(t, file.Close())
			}
		})
		file.Close()
		assert.Equal(t, left, len(s.said) > 0, s.said)
	}
}

// TestKeepGarbage: the garbage collector is off with a limit of a gigabyte, and then works as before.
func TestKeepGarbage(t *testing.T) {
	percent, limit := debug.SetGCPercent(55), debug.SetMemoryLimit(77<<30)
	collect := disableGC()
	assert.EqualValues(t, 1<<30, debug.SetMemoryLimit(-1))
	assert.Equal(t, -1, debug.SetGCPercent(-1))
	collect()
	assert.Equal(t, 55, debug.SetGCPercent(percent))
	assert.EqualValues(t, 77<<30, debug.SetMemoryLimit(limit))
}

// TestContext: what waits for the end of a context is counted, directly or through a derived context, until it stops or
// has run.
func TestContext(t *testing.T) {
	within, cancel := context.WithCancel(t.Context())
	ctx := &Context{Context: within}
	type counts struct{ waiting, ever int32 }
	now := func() counts { return counts{ctx.Waiting.Load(), ctx.Ever.Load()} }
	_, stop := context.WithCancel(ctx)
	assert.Equal(t, counts{waiting: 1, ever: 1}, now())
	stop()
	assert.Equal(t, counts{waiting: 0, ever: 1}, now())
	ran := make(chan struct{})
	context.AfterFunc(ctx, func() { close(ran) })
	assert.Equal(t, counts{waiting: 1, ever: 2}, now())
	cancel()
	<-ran
	assert.Equal(t, counts{waiting: 0, ever: 2}, now())
}

// seen records errors instead of failing.
type seen struct {
	testing.TB
	said []string
}

func (s *seen) Errorf(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

// TestSame: Same finds a descriptor, a mapping and a goroutine that each run leaves, and ignores what only the first
// run leaves.
func TestSame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	open := func() *os.File {
		file, err := os.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { file.Close() })
		return file
	}
	end := make(chan struct{})
	defer close(end)
	for want, work := range map[string]func(){
		"":     func() { open().Close() },
		"open": func() { open() },
		"mapped": func() {
			file := open()
			_, unmap, err := files.Map(file, 4096)
			require.NoError(t, errors.Join(err, file.Close()))
			t.Cleanup(func() { _ = unmap() })
		},
		"goroutines": func() {
			for range 3 {
				go func() { <-end }()
			}
		},
	} {
		s := &seen{TB: t}
		Same(s, work)
		if want == "" {
			assert.Empty(t, s.said)
			continue
		}
		require.Len(t, s.said, 1, want)
		assert.Contains(t, s.said[0], want)
	}
	once := sync.OnceValue(open)
	s := &seen{TB: t}
	Same(s, func() { once() })
	assert.Empty(t, s.said)
}
