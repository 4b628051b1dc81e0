// Package report makes tables and pictures of measurements, in lines as package result reads them, for documents, for
// terminals, and as one page that needs no network. Text in the lines is escaped.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// Report is the content of a page.
type Report struct {
	Title    string
	Lines    int
	Sections []Section
	Runs     []record.Run // one of each call

	answers *pageAnswers // of eval, for the page's script
}

// Section is a part of a page.
type Section struct {
	Title    string
	Tables   []*Table
	Pictures []Picture
}

// Picture is an SVG file with its caption.
type Picture struct {
	Name    string // of its file, without the extension
	Caption string
	SVG     []byte
	Folded  bool // collapsed at first
}

// sectionLines are the lines of a section.
type sectionLines struct {
	key     string
	build   func([]*result.Record, []row) (Section, error)
	records []*result.Record
	rows    []row
}

// Of returns the report of results of one measurement.
func Of[T any](all []T, about record.Run) (*Report, error) {
	var text bytes.Buffer
	for _, v := range all {
		line, err := record.Line(v, about)
		if err != nil {
			return nil, err
		}
		text.Write(line)
	}
	records, err := result.Read(&text, about.Measurement)
	if err != nil {
		return nil, err
	}
	return New(records)
}

// New makes a section of the lines that belong together. Errors name the line.
func New(records []result.Record) (*Report, error) {
	if len(records) == 0 {
		return nil, errors.New("report: there is no measurement")
	}
	r := &Report{Title: "measurements", Lines: len(records)}
	var sections []*sectionLines
	calls := map[string]bool{}
	for i := range records {
		one := &records[i]
		if call := callKey(&one.Run); !calls[call] {
			calls[call] = true
			r.Runs = append(r.Runs, one.Run)
		}
		line, err := decodeRow(one.Fields)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.Source, err)
		}
		key, build := sectionOf(one, line, sections)
		at := slices.IndexFunc(sections, func(l *sectionLines) bool { return l.key == key })
		if at < 0 {
			at = len(sections)
			sections = append(sections, &sectionLines{key: key, build: build})
		}
		sections[at].records, sections[at].rows = append(sections[at].records, one), append(sections[at].rows, line)
	}
	for _, l := range sections {
		s, err := l.build(l.records, l.rows)
		if err != nil {
			return nil, err
		}
		r.Sections = append(r.Sections, s)
	}
	return r, nil
}

// sectionOf returns the section of a line: its key, and what builds it.
func sectionOf(one *result.Record, line row, before []*sectionLines) (string,
	func([]*result.Record, []row) (Section, error)) {
	table := func(title string, columns []column) func([]*result.Record, []row) (Section, error) {
		return func(_ []*result.Record, rows []row) (Section, error) {
			return Section{Title: title, Tables: []*Table{buildTable("", columns, rows)}}, nil
		}
	}
	is := func(measurement, field string) bool { return one.Run.Measurement == measurement && line[field] != nil }
	_, inCell := line["cell"].(map[string]any)
	_, isMode := line["mode"].(string)
	switch {
	case (is("bench routing", "mode") || is("demo", "mode")) && isMode && inCell:
		return studyKey(one, line, before), studySection
	case is("bench engine", "generation_tps"):
		line.addBound()
		return "engine", table("Engine", engineColumns())
	case is("bench gateway", "rate"):
		return "gateway", table("Gateway", gatewayColumns())
	case is("bench link", "timed"):
		line.addAsks()
		return "link", table("Link", linkColumns())
	case strings.HasPrefix(one.Run.Measurement, "eval") && line["policy"] != nil:
		return callKey(&one.Run), evalSection
	}
	return one.Source, func(_ []*result.Record, rows []row) (Section, error) {
		delete(rows[0], "run")
		return Section{Title: one.Run.Measurement, Tables: []*Table{fieldTable(rows[0])}}, nil
	}
}

func decodeRow(line []byte) (r row, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	return r, d.Decode(&r)
}

// callKey identifies the call that measured a line.
func callKey(r *record.Run) string {
	return fmt.Sprint(r.Measurement, "\n", r.Command, "\n", r.Date.UTC(), r.Version, r.Machine)
}

func modelName(m *record.Model) string {
	if m == nil {
		return ""
	}
	return cmp.Or(m.Name, "model "+shortHash(m.Hash))
}

func shortHash(hash string) string { return hash[:min(len(hash), 12)] }

// maxFields is the maximum number of figures of a line on a page, and of letters of a value.
const maxFields = 200

// fieldTable returns the figures of a line by name. Lists, such as samples, are only counted.
func fieldTable(line row) *Table {
	t := &Table{Columns: []Column{{Name: "field"}, {Name: "value"}}}
	t.flattenFields("", map[string]any(line))
	slices.SortFunc(t.Rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	t.Rows = t.Rows[:min(len(t.Rows), maxFields)]
	return t
}

func (t *Table) flattenFields(name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			t.flattenFields(strings.TrimPrefix(name+"."+k, "."), inner)
		}
	case []any:
		t.Rows = append(t.Rows, []string{name, formatPlural(len(v), "value")})
	case nil:
	default:
		text := []rune(fmt.Sprint(v))
		if len(text) > maxFields {
			text = append(text[:maxFields:maxFields], '…')
		}
		t.Rows = append(t.Rows, []string{name, string(text)})
	}
}
