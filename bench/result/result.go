// Package result reads measurements and summarizes what is measured. A measurement is lines of package record; what
// compares or plots figures reads them here.
package result

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// Record is one line that was read.
type Record struct {
	Run    record.Run
	Fields json.RawMessage // the whole line, for code that knows the measurement
	Source string          // such as results.jsonl:3, for errors
}

// Into decodes the fields of a record into v.
func (r *Record) Into(v any) error {
	if err := record.Unmarshal(r.Fields, v); err != nil {
		return fmt.Errorf("%s: %w", r.Source, err)
	}
	return nil
}

// ErrFormat is the cause of every error about lines that are not measurements.
var ErrFormat = errors.New("not a line of a measurement")

// maxLine is the maximum length of a line, in bytes.
const maxLine = 64 << 20
