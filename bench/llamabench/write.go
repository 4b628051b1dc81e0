package llamabench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Write writes a line of JSON for each test, as llama-bench does with -o jsonl. extra, if not nil, has additional
// fields for each line.
func Write(w io.Writer, tests []Test, extra map[string]any) error {
	var b bytes.Buffer
	for _, t := range tests {
		line, err := t.object(extra)
		if err != nil {
			return err
		}
		b.WriteString(line + "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// object returns a test in JSON, with its samples.
func (t Test) object(extra map[string]any) (string, error) {
	var fields []string
	add := func(name string, value any) error {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(value)
		fields = append(fields, fmt.Sprintf("%q: %s", name, strings.TrimSuffix(b.String(), "\n")))
		return err
	}
	for _, c := range t.columns() {
		value := any(c.value)
		switch c.kind {
		case number:
			value = json.Number(c.value)
		case boolean:
			value = c.value != "0"
		}
		if err := add(c.name, value); err != nil {
			return "", err
		}
	}
	if err := add("samples_ns", t.SamplesNS); err != nil {
		return "", err
	}
	if err := add("samples_ts", t.rates()); err != nil {
		return "", err
	}
	names := make([]string, 0, len(extra))
	for name := range extra {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := add(name, extra[name]); err != nil {
			return "", err
		}
	}
	return "{" + strings.Join(fields, ", ") + "}", nil
}
