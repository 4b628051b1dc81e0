// Package record has the record of an answer or a measurement: a self-describing JSON line. It is an object with fields
// of its own, and "run", a [Run]: the program, the command with its flags, the machine, the models.
// docs/study/measurements.schema.json describes the lines of every command.
package record

import (
	"bytes"
	"fmt"
	"time"
)

// Run describes the subject of a measurement and how it was made.
type Run struct {
	Measurement string `json:"measurement"` // the words of the command, such as "bench routing"
	// of the program: its release or revision, with "+dirty" if files differ from that
	Version string `json:"version"`
	Go      string `json:"go"` // version of the compiler
	// the call, with the given flags; without text of users
	Command string            `json:"command"`
	Flags   map[string]string `json:"flags"`           // all flags by name, including those with default values
	Date    time.Time         `json:"date"`            // of the beginning, UTC
	Machine Machine           `json:"machine"`         //
	Model   *Model            `json:"model,omitempty"` // the only model, or the small one
	// the large one; only its name if it was used through a gateway or over HTTP
	Large *Model `json:"large,omitempty"`
}

// Line returns the JSON line of a measurement: the fields of v, which must encode to an object without a field "run",
// and then that field. It ends with a line feed.
func Line(v any, run Run) ([]byte, error) {
	fields, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	about, err := Marshal(run)
	if err != nil {
		return nil, err
	}
	inner, isObject := bytes.CutSuffix(fields, []byte("}"))
	if !isObject {
		return nil, fmt.Errorf("record: %T is not an object in JSON", v)
	}
	if len(inner) > 1 {
		inner = append(inner, ',')
	}
	return append(append(append(inner, `"run":`...), about...), '}', '\n'), nil
}
