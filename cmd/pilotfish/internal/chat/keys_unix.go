//go:build linux || darwin || freebsd || netbsd || openbsd

package chat

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"time"

	"github.com/peterh/liner"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"golang.org/x/sys/unix"
)

// keyForwarder forwards keys to the editor. They pass through a [pasteFilter], since the editor does not support pasted
// text.
type keyForwarder struct {
	read, write *os.File // a pipe to the editor
	wake, stop  *os.File // a pipe: closing its writing end stops the forwarding
	done        chan struct{}
	unwatch     func() bool
	count       atomic.Int64 // bytes typed since the prompt
	prompting   atomic.Bool  // the editor is reading a line
	interrupts  *cli.Interrupts
	stdin       int           // the terminal
	before      *unix.Termios // its mode before the chat; nil if that is unknown
}

// newKeyForwarder starts to forward keys, until ctx ends or stopForwarding is called.
func newKeyForwarder(ctx context.Context) (*keyForwarder, error) {
	k := &keyForwarder{done: make(chan struct{}), interrupts: cli.InterruptsOf(ctx), stdin: int(os.Stdin.Fd())}
	var err error
	k.before, _ = unix.IoctlGetTermios(k.stdin, getTermios)
	if k.read, k.write, err = os.Pipe(); err != nil {
		return nil, err
	}
	if k.wake, k.stop, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, k.read.Close(), k.write.Close())
	}
	k.unwatch = context.AfterFunc(ctx, func() { k.stop.Close() })
	go k.forwardKeys(int(k.wake.Fd()))
	return k, nil
}

// newLinerState returns an editor that reads from the pipe instead of stdin. The editor only looks up stdin when it is
// created.
//
// From here until stopForwarding, Ctrl-C is a key and not a signal. The editor only does this while it reads a line, so
// that a Ctrl-C just before or after a line would end the program.
func (k *keyForwarder) newLinerState() *liner.State {
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	os.Stdin = k.read
	state := liner.NewLiner()
	if mode, err := unix.IoctlGetTermios(k.stdin, getTermios); err == nil {
		mode.Lflag &^= unix.ISIG
		_ = unix.IoctlSetTermios(k.stdin, setTermios, mode) // it is a signal again
	}
	return state
}

// forwardKeys forwards keys until the terminal or the chat ends. Then the editor reads the end of its input.
func (k *keyForwarder) forwardKeys(wake int) {
	defer close(k.done)
	defer k.write.Close()
	var paste pasteFilter
	buf := make([]byte, 4096)
	for {
		ready := []unix.PollFd{{Fd: int32(k.stdin), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil || ready[1].Revents != 0 {
			return
		}
		n, err := unix.Read(k.stdin, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil || n == 0:
			return
		}
		k.count.Add(int64(n))
		typed := slices.DeleteFunc(paste.filterBytes(buf[:n]), k.handleKey)
		if _, err := k.write.Write(typed); err != nil {
			return
		}
	}
}

// Ctrl-C and Ctrl-Z as keys.
const (
	interruptKey = 3
	suspendKey   = 26
)

// handleKey handles keys that are not for the editor, and reports whether key is one: Ctrl-Z, and Ctrl-C after the end
// of a line.
func (k *keyForwarder) handleKey(key byte) bool {
	switch key {
	case '\r', '\n':
		k.prompting.Store(false)
	case interruptKey:
		if !k.prompting.Load() {
			k.interrupts.Key()
			return true
		}
	case suspendKey:
		k.suspendProgram()
		return true
	}
	return false
}

// suspendProgram restores the mode of the terminal and stops the program until the shell continues it.
func (k *keyForwarder) suspendProgram() {
	mode, err := unix.IoctlGetTermios(k.stdin, getTermios)
	if err != nil || k.before == nil {
		return
	}
	goes := make(chan os.Signal, 1)
	signal.Notify(goes, unix.SIGCONT)
	defer signal.Stop(goes)
	prompting := k.prompting.Load()
	if prompting {
		io.WriteString(os.Stdout, pasteMarksOff)
	}
	io.WriteString(os.Stdout, "\r\n")
	_ = unix.IoctlSetTermios(k.stdin, setTermios, k.before)
	_ = unix.Kill(0, unix.SIGTSTP) // to the whole process group, as a terminal does
	select {
	case <-goes:
	case <-time.After(stopsWithin): // the system did not stop the program, so that no shell can continue it
	}
	_ = unix.IoctlSetTermios(k.stdin, setTermios, mode)
	if prompting {
		io.WriteString(os.Stdout, pasteMarksOn)
		_ = unix.Kill(unix.Getpid(), unix.SIGWINCH) // the editor redraws its line
	}
}

// stopsWithin is longer than the system needs to stop this program after the signal.
const stopsWithin = 200 * time.Millisecond

// Sequences that turn the marks around pasted text on and off.
const (
	pasteMarksOn  = "\x1b[?2004h"
	pasteMarksOff = "\x1b[?2004l"
)

// beginPrompt is called before the editor reads the first line. It makes the terminal mark pasted text: who sees that
// mark can type a line and Ctrl-C after it.
func (k *keyForwarder) beginPrompt() {
	k.count.Store(0)
	k.beginLine()
	io.WriteString(os.Stdout, pasteMarksOn) // a terminal without this feature marks nothing
}

func (k *keyForwarder) beginLine() {
	k.prompting.Store(true)
	if k.interrupts.Left() { // a Ctrl-C after the end of the answer and before this line
		_, _ = k.write.Write([]byte{interruptKey}) // fails if the chat ends
	}
}

func (k *keyForwarder) endPrompt() {
	k.prompting.Store(false)
	io.WriteString(os.Stdout, pasteMarksOff)
}

// isLineEmpty reports whether only Ctrl-C was typed since the prompt.
func (k *keyForwarder) isLineEmpty() bool { return k.count.Load() <= 1 }

func (k *keyForwarder) stopForwarding() {
	k.unwatch()
	k.stop.Close()
	k.read.Close() // also ends a blocked write
	<-k.done
	k.wake.Close()
}
