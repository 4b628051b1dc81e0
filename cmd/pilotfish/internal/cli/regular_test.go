package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestReadLimits: a file of the maximum length is read completely, a longer one is refused, and one that has no end is
// not read to its end. What is refused is closed.
func TestReadLimits(t *testing.T) {
	dir := held.TempDir(t)
	for name, read := range map[string]func(path string, most int64) ([]byte, error){
		"regular": ReadRegular, "small": ReadSmall,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
		for most, want := range map[int64]string{6: "12345", 5: "12345", 4: "", 0: ""} {
			b, err := read(path, most)
			assert.Equal(t, want, string(b))
			assert.Equal(t, want == "", err != nil, "%s of at most %d", name, most)
		}
	}
	if runtime.GOOS != "windows" {
		_, err := ReadSmall("/dev/zero", 1000)
		assert.ErrorContains(t, err, "/dev/zero")
		_, err = ReadRegular("/dev/zero", 1000)
		assert.ErrorContains(t, err, "a device, not a regular file")
	}
	_, err := ReadRegular(dir, 1000)
	assert.ErrorContains(t, err, "a folder, not a regular file")
	config := filepath.Join(dir, "config")
	require.NoError(t, os.WriteFile(config, []byte(strings.Repeat("#", 1<<20)), 0o600))
	b, err := ReadConfigBytes(config)
	require.NoError(t, err)
	assert.Len(t, b, 1<<20)
	require.NoError(t, os.WriteFile(config, []byte(strings.Repeat("#", 1<<20+1)), 0o600))
	_, err = ReadConfigBytes(config)
	assert.ErrorContains(t, err, config)
}

// TestReplaceFile: a file is replaced completely, or not at all.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"one", "two two"} {
		require.NoError(t, ReplaceFile(path, []byte(text), 0o640))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(got))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode())
	err = ReplaceFileBy(path, 0o600, func(w io.Writer) error {
		_, err := w.Write([]byte("half"))
		return errors.Join(err, &os.PathError{Op: "read", Path: "other", Err: io.ErrUnexpectedEOF})
	})
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "two two", string(got))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "no file is left over")
	absent := filepath.Join(dir, "absent", "file")
	assert.EqualError(t, ReplaceFile(absent, nil, 0o600), "write "+absent+": there is no folder "+
		filepath.Join(dir, "absent")+": create it, or choose another place")
	assert.EqualError(t, ReplaceFile(filepath.Join(path, "file"), nil, 0o600), "write "+filepath.Join(path, "file")+
		": no file can be created in the folder: not a directory")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	assert.EqualError(t, ReplaceFile(filepath.Join(dir, "folder"), nil, 0o600),
		"write "+filepath.Join(dir, "folder")+": file exists")
}
