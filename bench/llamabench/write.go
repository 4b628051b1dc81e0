package llamabench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/internal/stat"
)

// Formats returns the formats of [Write].
func Formats() []string { return []string{"csv", "json", "jsonl", "md"} }

// Write writes tests in one of [Formats]. extra, if not nil, has additional fields for each JSON object.
func Write(w io.Writer, format string, tests []Test, extra map[string]any) error {
	var b bytes.Buffer
	switch format {
	case "csv":
		commas(&b, tests)
	case "md":
		markdown(&b, tests)
	case "json", "jsonl":
		var lines []string
		for _, t := range tests {
			line, err := t.object(extra)
			if err != nil {
				return err
			}
			lines = append(lines, line)
		}
		if format == "jsonl" {
			b.WriteString(strings.Join(lines, "\n") + "\n")
		} else {
			b.WriteString("[\n  " + strings.Join(lines, ",\n  ") + "\n]\n")
		}
	default:
		return fmt.Errorf("llamabench: unknown format %q", format)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// commas writes a line of names, and one line per test, with all values in quotes.
func commas(b *bytes.Buffer, tests []Test) {
	line := func(t Test, of func(column) string) {
		var all []string
		for _, c := range t.columns() {
			all = append(all, of(c))
		}
		b.WriteString(strings.Join(all, ",") + "\n")
	}
	line(Test{}, func(c column) string { return c.name })
	for _, t := range tests {
		line(t, func(c column) string { return `"` + strings.ReplaceAll(c.value, `"`, `""`) + `"` })
	}
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

// cell is a column of the table: its name, its width in characters, and whether it is left-aligned.
type cell struct {
	name  string
	width int
	left  bool
	of    func(Test) string
}

// table returns the columns of a table: those that identify the test, and those with unusual values.
func table(tests []Test) []cell {
	all := []cell{
		{"model", 30, true, Test.model},
		{"size", 10, false, func(t Test) string { return fileSize(t.Bytes) }},
		{"params", 10, false, func(t Test) string { return paramCount(t.Params, " ") }},
		{"backend", 10, true, func(t Test) string { return t.Backend }},
	}
	if slices.ContainsFunc(tests, func(t Test) bool { return t.GPU != "" }) {
		all = append(all, cell{"ngl", 3, false, func(t Test) string { return t.column("n_gpu_layers") }})
	}
	all = append(all, cell{"threads", 7, false, func(t Test) string { return fmt.Sprint(t.Threads) }})
	if slices.ContainsFunc(tests, func(t Test) bool { return t.KV != "f16" }) {
		kv := func(t Test) string { return t.KV }
		all = append(all, cell{"type_k", 6, false, kv}, cell{"type_v", 6, false, kv})
	}
	return append(all, cell{"test", 15, false, Test.Name}, cell{"t/s", 20, false, func(t Test) string {
		mean, deviation := stat.MeanDeviation(t.rates())
		return fmt.Sprintf("%.2f ± %.2f", mean, deviation)
	}})
}

// column returns the value of a column.
func (t Test) column(name string) string {
	for _, c := range t.columns() {
		if c.name == name {
			return c.value
		}
	}
	return ""
}

// markdown writes a table.
func markdown(b *bytes.Buffer, tests []Test) {
	cells := table(tests)
	line := func(of func(cell) string) {
		for _, c := range cells {
			value := strings.ReplaceAll(of(c), "|", `\|`)
			space := strings.Repeat(" ", max(c.width-utf8.RuneCountInString(value), 0))
			if c.left {
				fmt.Fprintf(b, "| %s%s ", value, space)
			} else {
				fmt.Fprintf(b, "| %s%s ", space, value)
			}
		}
		b.WriteString("|\n")
	}
	line(func(c cell) string { return c.name })
	line(func(c cell) string {
		if c.left {
			return strings.Repeat("-", c.width)
		}
		return strings.Repeat("-", c.width-1) + ":"
	})
	for _, t := range tests {
		line(func(c cell) string { return c.of(t) })
	}
	if len(tests) > 0 {
		fmt.Fprintf(b, "\nbuild: %s (0)\n", tests[0].Version)
	}
}

// fileSize formats a size in MiB or GiB.
func fileSize(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
}
