// Package qlog logs QUIC connections to files in the format qlog (draft-ietf-quic-qlog-main-schema), which qvis and
// other programs display: packets, acknowledgements, losses, congestion. It is quic-go's log without the secrets that
// give control of a connection: tokens of stateless resets and of address validation. The data of streams is not
// logged.
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

// Folder is a folder with a file for each connection. Make one with [Open]. A nil folder logs nothing.
type Folder struct {
	path string

	mu   sync.Mutex
	open sync.WaitGroup // files
	err  error          // the first one
}

// Open creates the folder if needed. Existing files are kept.
func Open(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return &Folder{path: path}, nil
}

// Close waits until every connection has ended and its file is complete. It returns the first error.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	f.open.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// fail records the first error.
func (f *Folder) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("qlog: %w", err)
	}
}

// Tracer returns the value for [quic.Config].Tracer: nil if f is nil.
func (f *Folder) Tracer() func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace {
	if f == nil {
		return nil
	}
	return f.trace
}

// trace begins the file of a connection. If it cannot be created, the connection is not logged.
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
	go t.Run() // ends with the connection and then closes the file
	return redacted{t}
}

// create creates a file with an unused name.
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

// file is the log of a connection.
type file struct {
	f      *Folder
	to     *os.File
	buffer *bufio.Writer
}

func newFile(f *Folder, to *os.File) *file { return &file{f, to, bufio.NewWriter(to)} }

// Write implements [io.Writer]. Errors are returned by [Folder.Close].
func (w *file) Write(b []byte) (int, error) {
	_, _ = w.buffer.Write(b) // Close gets the same error from Flush
	return len(b), nil       // quic-go would print the error
}

// Close ends the file.
func (w *file) Close() error {
	defer w.f.open.Done()
	w.f.fail(errors.Join(w.buffer.Flush(), w.to.Close()))
	return nil
}
