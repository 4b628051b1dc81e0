package link

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Causes of a [TraceError], for errors.Is.
var (
	ErrNumber  = errors.New("not a number of milliseconds in the range")
	ErrOrder   = errors.New("time goes backwards")
	ErrColumn  = errors.New("column is missing")
	ErrEmpty   = errors.New("the trace is too short: round trips need two rows, a capacity needs a time after 0 ms")
	ErrTooLong = errors.New("line is too long")
)

// ErrTraceName means that a name has none of the endings of traces, and that NAME.up and NAME.down do not exist either.
var ErrTraceName = errors.New("there is no such trace: " +
	"give NAME.rtt.csv, NAME.up or NAME.down, or a NAME of which the last two exist")

// maxTrace is the latest time in a trace, and maxRTT the longest round trip.
const (
	maxTrace = 24 * time.Hour
	maxRTT   = time.Hour
)

// TraceError reports that a file is not a valid trace, and where.
type TraceError struct {
	Path string // file, or the reader's name
	Line int    // from 1; 0 if the error concerns no line
	Err  error  // one of the causes above, or the reader's error
}

// Error returns file, line and cause.
func (e *TraceError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *TraceError) Unwrap() error { return e.Err }

// AddTrace reads a recorded trace into the options. The name of the file determines its kind: NAME.rtt.csv becomes RTT,
// NAME.up and NAME.down become the Capacity of their direction, and a NAME with none of these endings means NAME.up and
// NAME.down, of which one may be absent. It replaces a trace of the same kind.
func (o *Options) AddTrace(path string) error {
	switch {
	case strings.HasSuffix(path, ".rtt.csv"):
		return load(path, ReadRTT, &o.RTT)
	case strings.HasSuffix(path, ".up"):
		return load(path, readCapacity, &o.Up.Capacity)
	case strings.HasSuffix(path, ".down"):
		return load(path, readCapacity, &o.Down.Capacity)
	}
	up := load(path+".up", readCapacity, &o.Up.Capacity)
	down := load(path+".down", readCapacity, &o.Down.Capacity)
	if errors.Is(up, fs.ErrNotExist) && errors.Is(down, fs.ErrNotExist) {
		return &TraceError{Path: path, Err: ErrTraceName}
	}
	for _, err := range []error{up, down} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func load[T any](path string, read func(io.Reader, string) (*T, error), to **T) error {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	trace, err := read(f, path)
	if err = errors.Join(err, f.Close()); err == nil {
		*to = trace
	}
	return err
}

// lines calls row with each line of a trace, without its end, and adds file and line to errors.
func lines(r io.Reader, path string, row func(line int, text string) error) error {
	s := bufio.NewScanner(r)
	n := 0
	for s.Scan() {
		n++
		if err := row(n, s.Text()); err != nil {
			return &TraceError{path, n, err}
		}
	}
	switch err := s.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return &TraceError{path, n + 1, ErrTooLong}
	case err != nil:
		return &TraceError{path, n + 1, err}
	}
	return nil
}
