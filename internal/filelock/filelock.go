// Package filelock keeps two processes, or two parts of one, from writing the same files, and makes renames last.
package filelock

import "errors"

// ErrHeld is returned where somebody else has the lock.
var ErrHeld = errors.New("somebody else is at work on it")
