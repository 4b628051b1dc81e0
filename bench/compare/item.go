package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// item is a line with samples.
type item struct {
	of      map[string]string // its identity
	samples map[string]*series
	texts   map[[2]int]string  // by question and repetition
	single  map[string]float64 // figures of lines without samples
	run     *record.Run
	source  string

	secondary map[string]bool // figures that are not tested
}

// series has the values of one figure.
type series struct {
	values    []float64
	questions []int // of each value; nil if there are no questions
}

// secondaryFigures returns the names of figures of answers that follow from others, or are part of them: each
// additional test reduces the power of all tests.
func secondaryFigures() map[string]bool {
	all := map[string]bool{"question": true, "repetition": true, "bandwidth_share": true}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[draft.Summary]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all[name] = f.Tag.Get("test") == ""
	}
	return all
}

// measurementOf returns the name of a measurement. Older records have those of the demo's models as one of their own.
func measurementOf(r record.Run) string {
	if r.Measurement == "demo" {
		return "bench routing"
	}
	return r.Measurement
}

// parseItems parses lines; those without samples and figures are left out.
func parseItems(all []result.Record) (lines []*item, err error) {
	secondary := secondaryFigures()
	for i := range all {
		var fields map[string]json.RawMessage
		if err := all[i].Into(&fields); err != nil {
			return nil, err
		}
		l := &item{
			of: map[string]string{"measurement": measurementOf(all[i].Run)}, samples: map[string]*series{},
			texts: map[[2]int]string{}, single: map[string]float64{}, run: &all[i].Run, source: all[i].Source,
			secondary: secondary,
		}
		if err := l.parseFields(fields); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].Source, err)
		}
		if len(l.samples) == 0 {
			l.readSingle("", fields)
		}
		if len(l.samples)+len(l.single) > 0 {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

func (l *item) parseFields(fields map[string]json.RawMessage) error {
	for name, raw := range fields {
		var err error
		switch {
		case name == "cell":
			err = l.readCell(raw)
		case name == "samples":
			err = l.readSamples(raw)
		case isIdentityField(name):
			l.of[name] = unquoteString(raw)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, m := range map[string]*record.Model{"model": l.run.Model, "large": l.run.Large} {
		if m != nil {
			l.of[name] = m.Hash
		}
	}
	return nil
}

func isIdentityField(name string) bool {
	switch name {
	case "mode", "variant", "policy", "threshold", "dial", "test", "rows", "depth", "threads", "device", "backend",
		"timed", "devices", "rate", "model_ms", "seconds", "kv", "prompt_tokens", "generated_tokens", "depth_tokens":
		return true
	}
	return false
}

func unquoteString(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func (l *item) readCell(raw json.RawMessage) error {
	var cell map[string]json.RawMessage
	if err := json.Unmarshal(raw, &cell); err != nil {
		return err
	}
	for name, value := range cell {
		l.of[name] = unquoteString(value)
	}
	return nil
}

func (l *item) readSamples(raw json.RawMessage) error {
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return err
	}
	for _, row := range rows {
		l.readRow(row)
	}
	for name, s := range l.samples {
		if s.questions != nil && len(s.questions) != len(s.values) {
			return fmt.Errorf("%s: some rows have a question, and others have none", name)
		}
	}
	return nil
}

func (l *item) readRow(row map[string]json.RawMessage) {
	var question, repetition int
	asked := json.Unmarshal(row["question"], &question) == nil
	_ = json.Unmarshal(row["repetition"], &repetition) // 0 if there is none
	if text := ""; asked && json.Unmarshal(row["text"], &text) == nil {
		l.texts[[2]int{question, repetition}] = text
	}
	for name, raw := range row {
		value, ok := parseFigure(raw)
		if !ok || l.secondary[name] {
			continue
		}
		s := l.samples[name]
		if s == nil {
			s = new(series)
			l.samples[name] = s
		}
		s.values = append(s.values, value)
		if asked {
			s.questions = append(s.questions, question)
		}
	}
}

// maxFigure is larger than any measured value: sums of larger numbers could overflow.
const maxFigure = 1e300

// parseFigure parses a number; true is 1 and false is 0.
func parseFigure(raw json.RawMessage) (x float64, ok bool) {
	var yes bool
	switch {
	case string(raw) == "null":
		return 0, false
	case json.Unmarshal(raw, &x) == nil:
		return x, math.Abs(x) <= maxFigure
	case json.Unmarshal(raw, &yes) == nil && yes:
		return 1, true
	}
	return 0, string(raw) == "false"
}

// readSingle parses the numbers of a line, including those one level down.
func (l *item) readSingle(above string, fields map[string]json.RawMessage) {
	for name, raw := range fields {
		if above == "" && (name == "run" || name == "cell" || name == "machine_quiet" || isIdentityField(name)) {
			continue
		}
		var below map[string]json.RawMessage
		if x, ok := parseFigure(raw); ok {
			l.single[above+name] = x
		} else if above == "" && json.Unmarshal(raw, &below) == nil {
			l.readSingle(name+".", below)
		}
	}
}

func (l *item) identityKey(ignored map[string]bool) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.of)) {
		if !ignored[name] {
			fmt.Fprintf(&b, "%q=%q\n", name, l.of[name])
		}
	}
	return b.String()
}

// several stands for the value of a setting that is not equal in all lines, or that some lines lack.
const several = "\x00"

// comparedSettings returns the settings with one value in all lines of a and another in all of b, where no value is
// one, too: a file may be of a version without the flag.
func comparedSettings(a, b []*item) []Difference {
	return slices.DeleteFunc(settingDifferences(uniformSettings(a), uniformSettings(b)), func(d Difference) bool {
		return d.A == several || d.B == several
	})
}

func settingDifferences(first, second map[string]string) (all []Difference) {
	both := maps.Clone(first)
	maps.Copy(both, second)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if first[name] != second[name] {
			all = append(all, Difference{name, first[name], second[name]})
		}
	}
	return all
}

// uniformSettings returns the settings of lines: their value if it is equal in all lines, else [several].
func uniformSettings(lines []*item) map[string]string {
	all := maps.Clone(lines[0].of)
	for _, l := range lines[1:] {
		for name, value := range l.of {
			if v, ok := all[name]; !ok || v != value {
				all[name] = several
			}
		}
		for name := range all {
			if _, ok := l.of[name]; !ok {
				all[name] = several
			}
		}
	}
	return all
}

func runSettings(r *record.Run) map[string]string {
	all := map[string]string{
		"version": r.Version, "go": r.Go, "cpu": r.Machine.CPU, "cores": fmt.Sprint(r.Machine.Cores),
		"system": r.Machine.System, "kernels": r.Machine.Kernels,
		"memory": fmt.Sprintf("%.0f GiB", float64(r.Machine.Memory)/(1<<30)),
	}
	if r.Machine.Bandwidth > 0 {
		all["bandwidth"] = fmt.Sprintf("%.2g GB/s", r.Machine.Bandwidth) // two digits: it always varies a little
	}
	for name, m := range map[string]*record.Model{"model": r.Model, "large": r.Large} {
		if m != nil {
			all[name] = strings.TrimSpace(fmt.Sprintf("%s %.12s", m.Name, m.Hash))
		}
	}
	for name, value := range r.Flags {
		if name != "json" {
			all["--"+name] = value
		}
	}
	return all
}
