package result

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPacked: a file with the extension .gz is unpacked; a truncated file or another format is an error.
func TestPacked(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, good+"\n"+good+"\n")
	require.NoError(t, err)
	require.NoError(t, z.Close())
	path := filepath.Join(t.TempDir(), "r.jsonl.gz")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	all, err := ReadFile(path)
	require.NoError(t, err)
	assert.Len(t, all, 2)
	require.NoError(t, os.WriteFile(path, b.Bytes()[:b.Len()-9], 0o600))
	_, err = ReadFile(path)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, os.WriteFile(path, []byte(good), 0o600))
	_, err = ReadFile(path)
	assert.ErrorIs(t, err, ErrFormat)
}

func TestUnpackedLimit(t *testing.T) {
	for most, ok := range map[int]bool{len(good) - 1: false, len(good): true, len(good) + 1: true} {
		all, err := readLimited(strings.NewReader(good), "x", int64(most))
		assert.Equal(t, ok, err == nil, most)
		if ok {
			assert.Len(t, all, 1)
			continue
		}
		assert.ErrorIs(t, err, ErrFormat)
		assert.ErrorContains(t, err, "it unpacks to more than")
	}
}
