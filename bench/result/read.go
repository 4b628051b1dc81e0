package result

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// Read parses the lines of measurements; it skips empty lines. name is used in errors, which wrap [ErrFormat] and give
// the line. A file without any line is an error as well.
func Read(r io.Reader, name string) (all []Record, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		one := Record{Fields: append(json.RawMessage(nil), lines.Bytes()...), Source: fmt.Sprintf("%s:%d", name, n)}
		if err := one.parseRun(); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: %w: it is longer than %d MiB", name, n+1, ErrFormat, maxLine>>20)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(all) == 0:
		return nil, fmt.Errorf("%s: %w: it is empty", name, ErrFormat)
	}
	return all, nil
}

// ReadFile is [Read] of a file, compressed with gzip if its name ends in .gz.
func ReadFile(path string) ([]Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(path, ".gz") {
		return Read(f, path)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrFormat, err)
	}
	return readLimited(z, path, maxUnpacked)
}

// maxUnpacked is the maximum uncompressed size of a file in bytes: a small file may expand to a large one.
const maxUnpacked = 1 << 30

// readLimited is [Read] of at most this many bytes.
func readLimited(r io.Reader, name string, most int64) ([]Record, error) {
	limited := &io.LimitedReader{R: r, N: most + 1}
	all, err := Read(limited, name)
	if limited.N <= 0 {
		return nil, fmt.Errorf("%s: %w: it unpacks to more than %d MiB", name, ErrFormat, most>>20)
	}
	return all, err
}

func (r *Record) parseRun() error {
	var line struct {
		Run *record.Run `json:"run"`
	}
	err := json.Unmarshal(r.Fields, &line)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w: %w", r.Source, ErrFormat, err)
	case line.Run == nil || line.Run.Measurement == "":
		return fmt.Errorf("%s: %w: it has no \"run\" with a \"measurement\"", r.Source, ErrFormat)
	}
	r.Run = *line.Run
	return nil
}
