package files

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Lock takes the lock at path, or fails with [ErrHeld]: the file is opened without sharing, and is deleted when it is
// closed, also at the end of the process. Only the first call of unlock has an effect.
func Lock(path string) (unlock func(), err error) {
	const (
		deleteAccess           = 0x00010000
		deleteOnClose          = 0x04000000
		errorSharingViolation  = syscall.Errno(32)
		errorDeletePendingFile = syscall.Errno(303)
	)
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_WRITE|deleteAccess, 0, nil, syscall.OPEN_ALWAYS,
		syscall.FILE_ATTRIBUTE_NORMAL|deleteOnClose, 0)
	if errors.Is(err, errorSharingViolation) || errors.Is(err, errorDeletePendingFile) {
		return nil, fmt.Errorf("%s: %w", path, ErrHeld)
	}
	if err != nil {
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return sync.OnceFunc(func() { syscall.CloseHandle(h) }), nil
}

// SyncFolder does nothing: Windows cannot flush a folder.
func SyncFolder(string) error { return nil }
