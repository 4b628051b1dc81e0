// Package files locks files between processes or parts of a process, makes renames durable, returns the bytes of a file
// as read-only memory (mapped if the system supports it), and counts the users of what is to be closed.
package files

import "errors"

// ErrHeld means that the lock is held by another process or another part of this one.
var ErrHeld = errors.New("in use by another process")
