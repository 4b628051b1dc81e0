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

// Causes of errors about traces, which name the file and the line.
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

// AddTrace reads a recorded trace into the options. The name of the file determines its kind: NAME.rtt.csv becomes RTT,
// NAME.up and NAME.down become the Capacity of their direction, and a NAME with none of these endings means NAME.up and
// NAME.down, of which one may be absent. It replaces a trace of the same kind.
func (o *Options) AddTrace(path string) error {
	switch {
	case strings.HasSuffix(path, ".rtt.csv"):
		return loadTrace(path, ReadRTT, &o.RTT)
	case strings.HasSuffix(path, ".up"):
		return loadTrace(path, readCapacity, &o.Up.Capacity)
	case strings.HasSuffix(path, ".down"):
		return loadTrace(path, readCapacity, &o.Down.Capacity)
	}
	up := loadTrace(path+".up", readCapacity, &o.Up.Capacity)
	down := loadTrace(path+".down", readCapacity, &o.Down.Capacity)
	if errors.Is(up, fs.ErrNotExist) && errors.Is(down, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, ErrTraceName)
	}
	for _, err := range []error{up, down} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func loadTrace[T any](path string, read func(io.Reader, string) (*T, error), to **T) error {
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

// forEachLine calls row with each line of a trace, without its end, and adds file and line to errors.
func forEachLine(r io.Reader, path string, row func(line int, text string) error) error {
	s := bufio.NewScanner(r)
	n := 0
	for s.Scan() {
		n++
		if err := row(n, s.Text()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	err := s.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = ErrTooLong
	}
	if err != nil {
		err = fmt.Errorf("%s:%d: %w", path, n+1, err)
	}
	return err
}
