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
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"golang.org/x/sys/unix"
)

// keys carries what is typed to the editor, which knows nothing of pasted text, through a [pasteFilter].
type keys struct {
	read, write *os.File // a pipe to the editor
	wake, stop  *os.File // a pipe that ends the carrying when its writing end is closed
	done        chan struct{}
	unwatch     func() bool
	count       atomic.Int64 // bytes typed since the prompt
	prompting   atomic.Bool  // the editor reads a line, whose end has not come
	interrupts  *cli.Interrupts
	stdin       int           // the terminal
	before      *unix.Termios // its mode before the chat; nil where that is not known
}

// newKeys begins to carry keys, until ctx ends or close is called.
func newKeys(ctx context.Context) (*keys, error) {
	k := &keys{done: make(chan struct{}), interrupts: cli.InterruptsOf(ctx), stdin: int(os.Stdin.Fd())}
	var err error
	k.before, _ = unix.IoctlGetTermios(k.stdin, getTermios)
	if k.read, k.write, err = os.Pipe(); err != nil {
		return nil, err
	}
	if k.wake, k.stop, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, k.read.Close(), k.write.Close())
	}
	k.unwatch = context.AfterFunc(ctx, func() { k.stop.Close() })
	go k.carry(int(k.wake.Fd()))
	return k, nil
}

// newState returns the editor, reading from the pipe in place of stdin. It looks for stdin only when it is made.
//
// From here until it is closed, Ctrl-C is a key and no signal: the editor itself changes that for each line only, and a
// Ctrl-C just before or behind one would end the program.
func (k *keys) newState() *liner.State {
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	os.Stdin = k.read
	state := liner.NewLiner()
	if mode, err := unix.IoctlGetTermios(k.stdin, getTermios); err == nil {
		mode.Lflag &^= unix.ISIG
		_ = unix.IoctlSetTermios(k.stdin, setTermios, mode) // it is a signal then, as it was
	}
	return state
}

// carry carries keys until the terminal or the chat ends. The editor then sees the end of its input.
func (k *keys) carry(wake int) {
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
		typed := slices.DeleteFunc(paste.filter(buf[:n]), k.taken)
		if _, err := k.write.Write(typed); err != nil {
			return
		}
	}
}

// What Ctrl-C and Ctrl-Z are as keys.
const (
	interruptKey = 3
	suspendKey   = 26
)

// taken reports whether a key is for somebody else than the editor: Ctrl-Z is, and Ctrl-C once a line has ended.
func (k *keys) taken(key byte) bool {
	switch key {
	case '\r', '\n':
		k.prompting.Store(false)
	case interruptKey:
		if !k.prompting.Load() {
			k.interrupts.Key()
			return true
		}
	case suspendKey:
		k.suspend()
		return true
	}
	return false
}

// suspend stops the program, with the terminal as it was before the chat, until the shell has it go on.
func (k *keys) suspend() {
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
	_ = unix.Kill(0, unix.SIGTSTP) // to all that the shell has started with it, as a terminal sends it
	select {
	case <-goes:
	case <-time.After(stopsWithin): // nobody could have it go on: the system has not stopped it
	}
	_ = unix.IoctlSetTermios(k.stdin, setTermios, mode)
	if prompting {
		io.WriteString(os.Stdout, pasteMarksOn)
		_ = unix.Kill(unix.Getpid(), unix.SIGWINCH) // the editor draws its line anew
	}
}

// stopsWithin is more than it takes until a signal to stop has stopped this program.
const stopsWithin = 200 * time.Millisecond

// What asks a terminal to mark what is pasted, and what takes that back.
const (
	pasteMarksOn  = "\x1b[?2004h"
	pasteMarksOff = "\x1b[?2004l"
)

// begin asks the terminal to mark what is pasted.
func (k *keys) begin() {
	k.count.Store(0)
	k.prompting.Store(true)
	if k.interrupts.Left() { // one that came too late for an answer, and too soon for this line
		_, _ = k.write.Write([]byte{interruptKey}) // fails where the chat ends
	}
	io.WriteString(os.Stdout, pasteMarksOn) // where it cannot be asked, nothing is marked
}

// end takes that back.
func (k *keys) end() {
	k.prompting.Store(false)
	io.WriteString(os.Stdout, pasteMarksOff)
}

// none reports whether nothing but Ctrl-C was typed since the prompt.
func (k *keys) none() bool { return k.count.Load() <= 1 }

// close ends the carrying.
func (k *keys) close() {
	k.unwatch()
	k.stop.Close()
	k.read.Close() // a write that waits ends, too
	<-k.done
	k.wake.Close()
}
