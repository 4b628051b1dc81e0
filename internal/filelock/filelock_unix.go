//go:build unix

package filelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Lock takes the lock that path stands for, or fails with [ErrHeld]. The system lets go of it when the process ends,
// however it ends.
func Lock(path string) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = ErrHeld
			}
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if isAt(f, path) {
			return func() {
				os.Remove(path) // while it is locked: whoever opened it meanwhile finds another file here, or none
				f.Close()
			}, nil
		}
		f.Close() // its last holder removed it in between
	}
}

// isAt reports whether f is still the file at path.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// SyncFolder makes a rename in the file's folder last through a power cut.
func SyncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
