// Package qlog writes what happens on QUIC connections to files in the format qlog (draft-ietf-quic-qlog-main-schema),
// which qvis and others show: packets, acknowledgements, losses, congestion. It is quic-go's log without what gives
// power over a connection: tokens of stateless resets and of address validation. What streams carry is never in it.
package qlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Folder is where each connection has a file of its own. Make one with [Open]. A nil folder takes nothing.
type Folder struct {
	path string

	mu   sync.Mutex
	open sync.WaitGroup // files
	err  error          // the first one
}

// Open makes the folder where it does not exist. Files that are there stay as they are.
func Open(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return &Folder{path: path}, nil
}

// Close waits until every connection has ended and its file is whole, and returns what went wrong first.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	f.open.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// fail notes the first error.
func (f *Folder) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("qlog: %w", err)
	}
}

// Tracer returns what [quic.Config].Tracer is to be: nil where f is.
func (f *Folder) Tracer() func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace {
	if f == nil {
		return nil
	}
	return f.trace
}

// trace begins the file of a connection. Where there can be none, the connection goes on without.
func (f *Folder) trace(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	side := "server"
	if isClient {
		side = "client"
	}
	to, err := f.create(fmt.Sprintf("%s_%s", id, side))
	if err != nil {
		f.fail(err)
		return nil
	}
	f.open.Add(1)
	t := qlogwriter.NewConnectionFileSeq(newFile(f, to), isClient, id)
	go t.Run() // it ends with the connection, which then closes the file
	return redacted{t}
}

// create makes a file under a name that is not taken.
func (f *Folder) create(name string) (*os.File, error) {
	const most = 1000
	for n := 1; ; n++ {
		full := name + ".sqlog"
		if n > 1 {
			full = fmt.Sprintf("%s-%d.sqlog", name, n)
		}
		to, err := os.OpenFile(filepath.Join(f.path, full), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) || n == most {
			return to, err
		}
	}
}

// file is the file of a connection.
type file struct {
	f      *Folder
	to     *os.File
	buffer *bufio.Writer
}

func newFile(f *Folder, to *os.File) *file { return &file{f, to, bufio.NewWriter(to)} }

// Write implements [io.Writer]. That a file cannot be written is told by [Folder.Close]: there is nobody else.
func (w *file) Write(b []byte) (int, error) {
	_, err := w.buffer.Write(b)
	w.f.fail(err)
	return len(b), nil // quic-go would print the error
}

// Close ends the file.
func (w *file) Close() error {
	defer w.f.open.Done()
	w.f.fail(errors.Join(w.buffer.Flush(), w.to.Close()))
	return nil
}
