package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// OpenRegular opens a file for reading. It refuses folders, pipes and devices without blocking on them. The file is
// opened before it is checked, so that it cannot be replaced in between.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s, not a regular file", path, fileKind(info.Mode()))
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// ReadRegular reads a file that [OpenRegular] accepts, of at most the given number of bytes.
func ReadRegular(path string, most int64) ([]byte, error) {
	f, _, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, path, most)
}

func readAtMost(f *os.File, path string, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes: is it the right file?", path, most)
	}
	return b, nil
}

func fileKind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// ReadConfigBytes reads a file that is not longer than a configuration can be. Files that the shell or the system
// opened for the program, such as /dev/stdin and <(…), may be pipes, since they have a writer.
func ReadConfigBytes(name string) ([]byte, error) {
	const longest = 1 << 20
	if !strings.HasPrefix(name, "/dev/") {
		return ReadRegular(name, longest)
	}
	return ReadSmall(name, longest)
}

// ReplaceFile writes a file completely or not at all. Errors contain its name, and not that of the temporary file.
func ReplaceFile(path string, content []byte, mode fs.FileMode) error {
	return ReplaceFileBy(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// checkTargetPath returns an error if no file can be at path: there is no folder for it, or something else is there,
// which must not be replaced.
func checkTargetPath(path string) error {
	dir := filepath.Dir(path)
	if at, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !at.IsDir() {
		return fmt.Errorf("there is no folder %s: create it, or choose another place", dir)
	} else if err != nil {
		return fmt.Errorf("no file can be created in %s: %w", dir, unwrapPathError(err))
	}
	if at, err := os.Stat(path); err == nil && !at.Mode().IsRegular() {
		return fmt.Errorf("that is %s, not a file", fileKind(at.Mode()))
	}
	return nil
}

// CheckPlace returns an error if the file of a flag could not be written later; call it before long work. Without a
// path it returns nil.
func CheckPlace(flag, path string) error {
	if path == "" {
		return nil
	}
	if err := checkTargetPath(path); err != nil {
		return Usagef("%s %s: %w", flag, path, err)
	}
	return nil
}

// ReplaceFileBy is [ReplaceFile] for content that a function writes.
func ReplaceFileBy(path string, mode fs.FileMode, write func(io.Writer) error) error {
	if err := checkTargetPath(path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: no file can be created in the folder: %w", path, unwrapPathError(err))
	}
	defer os.Remove(f.Name()) // has no effect after the rename
	to := bufio.NewWriterSize(f, 1<<20)
	err = write(to)
	if err = errors.Join(unwrapPathError(err), unwrapPathError(to.Flush()), unwrapPathError(f.Chmod(mode)),
		unwrapPathError(f.Sync()), unwrapPathError(f.Close())); err == nil {
		err = unwrapPathError(os.Rename(f.Name(), path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// MaxSecrets is the maximum size of a file with secrets, in bytes.
const MaxSecrets = 1 << 20

// ReadSmall reads a file of at most the given number of bytes. It may be a pipe.
func ReadSmall(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, path, most)
}

// CacheFolder returns the folder for data that can be computed again.
func CacheFolder() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "pilotfish"), err
}

func unwrapPathError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
