// Package report draws measurements, in lines as package result reads them, as one page that needs no network, and as
// SVG files. Text in the lines is escaped.
package report

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
)

// Report is the content of a page.
type Report struct {
	Lines     int
	Studies   []*Study             // of bench routing and demo
	Evens     []outcome.BreakEven  // break-even points of modes
	Engines   []Engine             // of bench engine
	Gateways  []wire.GatewayReport // of bench gateway
	Paths     []Path               // of bench link
	Loopbacks []*wire.LinkLoopback // without a link
	Curves    []*Curves            // of eval
	Others    []Other              // of every other measurement
	Runs      []result.Run
}

// New sorts the lines of measurements by their kinds. Errors name the line.
func New(records []result.Record) (*Report, error) {
	if len(records) == 0 {
		return nil, errors.New("report: there is no measurement")
	}
	r := &Report{Lines: len(records)}
	for i := range records {
		if err := r.add(&records[i]); err != nil {
			return nil, err
		}
	}
	for _, s := range r.Studies {
		s.finish()
	}
	return r, nil
}

// add adds one line.
func (r *Report) add(one *result.Record) error {
	if !slices.ContainsFunc(r.Runs, func(o result.Run) bool { return sameRun(&o, &one.Run) }) {
		r.Runs = append(r.Runs, one.Run)
	}
	var kind struct {
		Mode   *string             `json:"mode"`
		Policy *string             `json:"policy"`
		TPS    *float64            `json:"generation_tps"`
		Rate   *float64            `json:"rate"`
		Evens  []outcome.BreakEven `json:"break_even"`
		Part   *string             `json:"part"`
	}
	if err := one.Into(&kind); err != nil {
		return r.addOther(one) // a field with that name may have another meaning there
	}
	switch m := one.Run.Measurement; {
	case (m == "bench routing" || m == "demo") && kind.Mode != nil:
		return r.addMode(one)
	case m == "bench routing" && kind.Evens != nil:
		r.Evens = append(r.Evens, kind.Evens...)
		return nil
	case m == "bench engine" && kind.TPS != nil:
		return into(one, &r.Engines)
	case m == "bench gateway" && kind.Rate != nil:
		return into(one, &r.Gateways)
	case m == "bench link" && kind.Part != nil:
		return r.addLink(one)
	case m[:min(len(m), 4)] == "eval" && kind.Policy != nil:
		return r.addCurve(one)
	}
	return r.addOther(one)
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
	if m.Name == "" {
		return "model " + short(m.Hash)
	}
	return m.Name
}

// short returns the beginning of a hash.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// plural formats a count of things.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
