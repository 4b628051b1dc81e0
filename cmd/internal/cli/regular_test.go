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
	}
	assert.EqualError(t, ReplaceFileBy(path, 0o600, func(w io.Writer) error {
		_, err := w.Write([]byte("half"))
		return errors.Join(err, io.ErrUnexpectedEOF)
	}), "write "+path+": unexpected EOF")
	got, err := ReadSmall(path, 99)
	require.NoError(t, err)
	assert.Equal(t, "two two", string(got))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "no file is left over")
	info, err := left[0].Info()
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode())
}

// TestPlaces: a file is only written, and a flag only accepted, where a folder is and nothing but a file; a device is
// not replaced.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	file, device := filepath.Join(dir, "file"), filepath.Join(dir, "device")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(os.DevNull, device))
	require.NoError(t, CheckPlace("-o", ""))
	for path, want := range map[string]string{
		file: "", filepath.Join(dir, "new"): "",
		filepath.Join(dir, "absent", "x"): "there is no folder " + filepath.Join(dir, "absent") + ": create it",
		filepath.Join(file, "x"):          "there is no folder " + file,
		filepath.Join(file, "x", "x"):     filepath.Join(file, "x") + ": ",
		dir:                               "that is a folder, not a file",
		device:                            "that is a device, not a file",
	} {
		checked, written := CheckPlace("-o", path), ReplaceFile(path, nil, 0o600)
		if want == "" {
			assert.NoError(t, errors.Join(checked, written))
			continue
		}
		assert.ErrorContains(t, checked, "-o "+path+": ")
		assert.ErrorContains(t, checked, want)
		assert.ErrorAs(t, checked, new(*UsageError))
		assert.ErrorContains(t, written, "write "+path+": ")
		assert.ErrorContains(t, written, want)
	}
}
