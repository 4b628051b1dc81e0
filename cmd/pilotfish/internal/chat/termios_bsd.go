//go:build darwin || freebsd || netbsd || openbsd

package chat

import "golang.org/x/sys/unix"

// System calls for the mode of a terminal.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)
