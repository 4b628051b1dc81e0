package hugemem

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSize: the size is the one of the kernel, unless huge pages are off, too large, or not reported.
func TestSize(t *testing.T) {
	for name, c := range map[string]struct {
		enabled, size string
		want          int
	}{
		"asked for":        {"always [madvise] never\n", "2097152\n", 2 << 20},
		"always":           {"[always] madvise never\n", "33554432\n", 32 << 20},
		"off":              {"always madvise [never]\n", "2097152\n", 0},
		"too large":        {"[always] madvise never\n", "536870912\n", 0},
		"no power of two":  {"[always] madvise never\n", "3000000\n", 0},
		"less than a page": {"[always] madvise never\n", "512\n", 0},
		"no number":        {"[always] madvise never\n", "large\n", 0},
		"nothing":          {"", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.enabled != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "enabled"), []byte(c.enabled), 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(dir, "hpage_pmd_size"), []byte(c.size), 0o600))
			}
			assert.Equal(t, c.want, sizeAt(dir+"/"))
		})
	}
}

// TestAlloc: memory starts at a huge page, is zero, and can be written up to its last byte.
func TestAlloc(t *testing.T) {
	if Size() == 0 {
		t.Skip("this system has no huge pages")
	}
	for _, n := range []int{1, 4096, 4097, Size() - 1, Size(), Size() + 1, 3*Size() + 5} {
		b, err := Alloc(n)
		require.NoError(t, err)
		assert.Len(t, b, n)
		assert.Zero(t, uintptr(unsafe.Pointer(&b[0]))%uintptr(Size()))
		assert.Zero(t, b[0]|b[n-1])
		b[0], b[n-1] = 1, 1
		require.NoError(t, Free(b))
	}
	require.NoError(t, Free(nil))
	mapped := func() (pages int) {
		statm, err := os.ReadFile("/proc/self/statm")
		require.NoError(t, err)
		_, err = fmt.Sscan(string(statm), &pages)
		require.NoError(t, err)
		return pages * os.Getpagesize()
	}
	before := mapped()
	for range 256 {
		b, err := Alloc(1)
		require.NoError(t, err)
		require.NoError(t, Free(b))
	}
	assert.Less(t, mapped()-before, 128*Size(), "the rest of the addresses is given back")
}
