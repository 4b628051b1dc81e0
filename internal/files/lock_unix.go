//go:build unix

package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Lock takes the lock at path, or fails with [ErrHeld]. The system releases it at the end of the process, even after a
// crash. Only the first call of unlock has an effect.
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
		if isFileAt(f, path) {
			return sync.OnceFunc(func() {
				os.Remove(path) // while locked: a process that has opened it finds another file here, or none
				f.Close()
			}), nil
		}
		f.Close() // its last holder removed it in the meantime
	}
}

func isFileAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// SyncFolder makes a rename in the file's folder durable.
func SyncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
