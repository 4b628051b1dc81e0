// Package result is the one format of measurements: JSON lines that say of themselves what they are of. Each line is an
// object with the fields of its measurement, and "run", a [Run]: the program, the command with its flags, the machine,
// the models. schema.json describes the lines of every command. Whoever prints, compares or plots figures reads these.
package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Run says what a measurement is of, and how it was made.
type Run struct {
	Measurement string `json:"measurement"` // the words of the command, such as "bench routing"
	// of the program: its release or revision, "+dirty" where files differ from that
	Version string `json:"version"`
	Go      string `json:"go"` // that it was built with
	// the call, with the flags that were given; without text of users
	Command string            `json:"command"`
	Flags   map[string]string `json:"flags"`           // every flag by its name, also those that were not given
	Date    time.Time         `json:"date"`            // when it began, UTC
	Machine Machine           `json:"machine"`         //
	Model   *Model            `json:"model,omitempty"` // the only model, or the small one
	Large   *Model            `json:"large,omitempty"` // the large one, where it was in this process
	// name of the large one behind a gateway or an engine over HTTP
	Remote string `json:"remote,omitempty"`
	// hashes of measured packages by folder, where the source was at hand
	Sources map[string]string `json:"sources,omitempty"`
}

// Line is the JSON line of a measurement: v, which must be a struct or a map that becomes an object without a field
// "run", and that field behind the others. It ends with a line feed.
func Line(v any, run Run) ([]byte, error) {
	fields, err := marshal(v)
	if err != nil {
		return nil, err
	}
	about, err := marshal(run)
	if err != nil {
		return nil, err
	}
	inner, isObject := bytes.CutSuffix(fields, []byte("}"))
	if !isObject || fields[0] != '{' {
		return nil, fmt.Errorf("result: %T is no object in JSON", v)
	}
	if len(inner) > 1 {
		inner = append(inner, ',')
	}
	return append(append(append(inner, `"run":`...), about...), '}', '\n'), nil
}

// marshal leaves <, > and & as they are: nobody pastes these lines into a page as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Record is one line that was read.
type Record struct {
	Run    Run
	Fields json.RawMessage // the whole line, for whoever knows the measurement
	Source string          // such as results.jsonl:3, for errors
}

// Into puts the fields of a record into v.
func (r *Record) Into(v any) error {
	if err := json.Unmarshal(r.Fields, v); err != nil {
		return fmt.Errorf("%s: %w", r.Source, err)
	}
	return nil
}

// ErrFormat is the cause of every error about lines that are no measurements.
var ErrFormat = errors.New("no line of a measurement")

// maxLine is the longest line that is read, in bytes.
const maxLine = 64 << 20
