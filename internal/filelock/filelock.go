// Package filelock provides locks on files, between processes or parts of a process, and makes renames durable.
package filelock

import "errors"

// ErrHeld means that the lock is held by another process or another part of this one.
var ErrHeld = errors.New("in use by another process")
