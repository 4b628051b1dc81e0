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

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
)

// Report is the content of a page.
type Report struct {
	Title    string
	Lines    int
	Sections []Section
	Runs     []result.Run

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

// lines are the lines of measurements by their kinds.
type lines struct {
	studies  []*study
	engines  []engineLine
	gateways []wire.GatewayReport
	paths    []path
	curves   []*curves
	others   []*Table
	runs     []result.Run
}

// New sorts the lines of measurements by their kinds. Errors name the line.
func New(records []result.Record) (*Report, error) {
	if len(records) == 0 {
		return nil, errors.New("report: there is no measurement")
	}
	var l lines
	for i := range records {
		if err := l.add(&records[i]); err != nil {
			return nil, err
		}
	}
	r := &Report{Title: "measurements", Lines: len(records), Runs: l.runs}
	for _, s := range l.studies {
		r.Sections = append(r.Sections, s.section())
	}
	add := func(title string, t *Table) {
		if len(t.Rows) > 0 {
			r.Sections = append(r.Sections, Section{Title: title, Tables: []*Table{t}})
		}
	}
	add("Engine", engineTable(l.engines))
	add("Gateway", gatewayTable(l.gateways))
	add("Link", pathTable(l.paths))
	for _, c := range l.curves {
		r.Sections = append(r.Sections, evalSection("Accuracy: "+c.run.Command, "", c.report()))
	}
	for _, t := range l.others {
		r.Sections = append(r.Sections, Section{Title: t.Title, Tables: []*Table{t}})
	}
	return r, nil
}

// add adds one line.
func (l *lines) add(one *result.Record) error {
	if !slices.ContainsFunc(l.runs, func(o result.Run) bool { return sameRun(&o, &one.Run) }) {
		l.runs = append(l.runs, one.Run)
	}
	var kind struct {
		Mode   *string       `json:"mode"`
		Cell   *outcome.Cell `json:"cell"`
		Policy *string       `json:"policy"`
		TPS    *float64      `json:"generation_tps"`
		Rate   *float64      `json:"rate"`
		Part   *string       `json:"part"`
	}
	if err := one.Into(&kind); err != nil {
		return l.addOther(one) // a field with that name may have another meaning there
	}
	switch m := one.Run.Measurement; {
	case (m == "bench routing" || m == "demo") && kind.Mode != nil && kind.Cell != nil:
		return l.addMode(one)
	case m == "bench engine" && kind.TPS != nil:
		return into(one, &l.engines)
	case m == "bench gateway" && kind.Rate != nil:
		return into(one, &l.gateways)
	case m == "bench link" && kind.Part != nil:
		return l.addLink(one)
	case m[:min(len(m), 4)] == "eval" && kind.Policy != nil:
		return l.addRun(one)
	}
	return l.addOther(one)
}

// into appends a line's fields to a list.
func into[T any](one *result.Record, list *[]T) error {
	var v T
	if err := one.Into(&v); err != nil {
		return err
	}
	*list = append(*list, v)
	return nil
}

// engineLine is a line of bench engine.
type engineLine struct {
	Run result.Run `json:"run"`
	speed.Report
}

// curves are the lines of one call of eval.
type curves struct {
	run  result.Run
	runs []eval.RunReport
}

// addRun adds a line of eval to the others of its call.
func (l *lines) addRun(one *result.Record) error {
	i := slices.IndexFunc(l.curves, func(c *curves) bool { return sameRun(&c.run, &one.Run) })
	if i < 0 {
		i = len(l.curves)
		l.curves = append(l.curves, &curves{run: one.Run})
	}
	return into(one, &l.curves[i].runs)
}

// report puts the lines together again.
func (c *curves) report() *eval.Report {
	r := &eval.Report{Runs: c.runs}
	for _, one := range c.runs {
		r.Graded = r.Graded || one.Accuracy != nil
		if a := one.Curve; a != nil &&
			!slices.ContainsFunc(r.Policies, func(b eval.Area) bool { return a.Policy == b.Policy }) {
			r.Policies = append(r.Policies, *a)
		}
	}
	return r
}

// sameRun reports whether two lines are from one call.
func sameRun(a, b *result.Run) bool {
	return a.Measurement == b.Measurement && a.Command == b.Command && a.Date.Equal(b.Date) && a.Version == b.Version &&
		a.Machine == b.Machine
}

// modelName describes a model in a few words.
func modelName(m *result.Model) string {
	if m == nil {
		return ""
	}
	return cmp.Or(m.Name, "model "+short(m.Hash))
}

// short returns the beginning of a hash.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// maxFields is the maximum number of figures of a line on a page.
const maxFields = 200

// addOther adds a line of any measurement: its figures by name.
func (l *lines) addOther(one *result.Record) error {
	t, err := fields(one.Run.Measurement, one.Fields)
	if err != nil {
		return fmt.Errorf("%s: %w", one.Source, err)
	}
	l.others = append(l.others, t)
	return nil
}

// fields returns the figures of a JSON object by name, without a field run. Lists, such as samples, are only counted.
func fields(title string, object []byte) (*Table, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		return nil, err
	}
	delete(all, "run")
	t := &Table{Title: title, Columns: []Column{{Name: "field"}, {Name: "value"}}}
	t.flatten("", all)
	slices.SortFunc(t.Rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	t.Rows = t.Rows[:min(len(t.Rows), maxFields)]
	return t, nil
}

// flatten adds the figures below a name.
func (t *Table) flatten(name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if name != "" {
				k = name + "." + k
			}
			t.flatten(k, inner)
		}
	case []any:
		t.Rows = append(t.Rows, []string{name, plural(len(v), "value")})
	case nil:
	default:
		text := []rune(fmt.Sprint(v))
		if len(text) > maxFields {
			text = append(text[:maxFields:maxFields], '…')
		}
		t.Rows = append(t.Rows, []string{name, string(text)})
	}
}
