//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"

	"github.com/peterh/liner"
	"golang.org/x/sys/unix"
)

// keys carries what is typed to the editor, which knows nothing of pasted text, through a [pasteFilter].
type keys struct {
	read, write *os.File // a pipe to the editor
	wake, stop  *os.File // a pipe that ends the carrying when its writing end is closed
	done        chan struct{}
	unwatch     func() bool
	count       atomic.Int64 // bytes typed since the prompt
}

// newKeys begins to carry keys, until ctx ends or close is called.
func newKeys(ctx context.Context) (*keys, error) {
	k := &keys{done: make(chan struct{})}
	var err error
	if k.read, k.write, err = os.Pipe(); err != nil {
		return nil, err
	}
	if k.wake, k.stop, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, k.read.Close(), k.write.Close())
	}
	k.unwatch = context.AfterFunc(ctx, func() { k.stop.Close() })
	go k.carry(int(os.Stdin.Fd()), int(k.wake.Fd()))
	return k, nil
}

// newState returns the editor, reading from the pipe in place of stdin. It looks for stdin only when it is made.
func (k *keys) newState() *liner.State {
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	os.Stdin = k.read
	return liner.NewLiner()
}

// carry carries keys until the terminal or the chat ends. The editor then sees the end of its input.
func (k *keys) carry(stdin, wake int) {
	defer close(k.done)
	defer k.write.Close()
	var paste pasteFilter
	buf := make([]byte, 4096)
	for {
		ready := []unix.PollFd{{Fd: int32(stdin), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil || ready[1].Revents != 0 {
			return
		}
		n, err := unix.Read(stdin, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil || n == 0:
			return
		}
		k.count.Add(int64(n))
		if _, err := k.write.Write(paste.filter(buf[:n])); err != nil {
			return
		}
	}
}

// begin asks the terminal to mark what is pasted.
func (k *keys) begin() {
	k.count.Store(0)
	io.WriteString(os.Stdout, "\x1b[?2004h") // where it cannot be asked, nothing is marked
}

// end takes that back.
func (k *keys) end() { io.WriteString(os.Stdout, "\x1b[?2004l") }

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
