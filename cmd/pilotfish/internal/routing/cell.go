package routing

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// cellColumn is a column of the table of a cell.
type cellColumn struct {
	name, legend string
	cell         func(outcome.Report) string
}

// cellColumns returns the columns of the table of a cell.
func cellColumns() []cellColumn {
	return []cellColumn{
		{"mode", "", modeName},
		{"right", "share of the questions that were answered rightly", func(r outcome.Report) string {
			return cli.Percent(r.Accuracy)
		}},
		{"cloud", "share of the generated tokens that the large model chose", func(r outcome.Report) string {
			return cli.Percent(r.EscalatedShare)
		}},
		{"p50", "milliseconds until an answer was complete: half of the answers took no longer",
			func(r outcome.Report) string { return whole(&r.Time.P50) }},
		{"p90", "the same: nine of ten took no longer", func(r outcome.Report) string { return whole(&r.Time.P90) }},
		{"first", "milliseconds until the first token: half of the answers took no longer",
			func(r outcome.Report) string {
				if r.FirstToken == nil {
					return ""
				}
				return whole(&r.FirstToken.P50)
			}},
		{"wait", "milliseconds lost waiting for the large model, per answer", func(r outcome.Report) string {
			return whole(r.Exposed)
		}},
		{"asks", "tokens asked for, per answer", func(r outcome.Report) string { return cli.Number(r.Asks) }},
		{"late", "the small model's tokens, in all answers, where the large one's came after --deadline",
			func(r outcome.Report) string { return count(r.Timeouts) }},
		{"unverified", "tokens, in all answers, shown without verification since no answer came in time",
			func(r outcome.Report) string { return count(r.Unverified) }},
		{"waste", "drafted tokens not used, per answer", func(r outcome.Report) string { return cli.Number(r.Wasted) }},
		{"bytes", "of payload, sent and received, per answer", func(r outcome.Report) string {
			if r.Up == nil || r.Down == nil {
				return ""
			}
			return fmt.Sprintf("%.0f", *r.Up+*r.Down)
		}},
		{"as", "s: the tokens of serial; c: of the large model; ≠: not these, in how many answers", sameText},
	}
}

// cellLegend explains the columns.
func cellLegend() string {
	var b strings.Builder
	for _, c := range cellColumns()[1:] {
		fmt.Fprintf(&b, "%-10s %s\n", c.name, c.legend)
	}
	return b.String()
}

// printCells prints a table for each cell of the reports.
func printCells(out io.Writer, reports []outcome.Report) error {
	for len(reports) > 0 {
		n := 1
		for n < len(reports) && *reports[n].Cell == *reports[0].Cell {
			n++
		}
		if err := cellTable(reports[:n]).Text(out); err != nil {
			return err
		}
		reports = reports[n:]
	}
	return nil
}

// cellTable returns the table of a cell, without columns that are empty or 0 in all rows.
func cellTable(reports []outcome.Report) *report.Table {
	t := &report.Table{Title: cellTitle(reports[0]), Rows: make([][]string, len(reports))}
	for i, c := range cellColumns() {
		given := func(r outcome.Report) bool { return c.cell(r) != "" && c.cell(r) != "0" }
		if i > 0 && !slices.ContainsFunc(reports, given) {
			continue
		}
		t.Columns = append(t.Columns, report.Column{Name: c.name})
		for k, r := range reports {
			t.Rows[k] = append(t.Rows[k], c.cell(r))
		}
	}
	return t
}

// cellTitle describes the cell of a report.
func cellTitle(r outcome.Report) string {
	c := r.Cell
	words := []string{fmt.Sprintf("round trip %s ms", chart.Number(c.RTT)),
		fmt.Sprintf("loss %s%%", chart.Number(100*c.Loss))}
	if c.Trace != "" {
		words = append(words, "trace "+c.Trace)
	}
	pace := "edge at full speed"
	if c.EdgeTPS > 0 {
		pace = fmt.Sprintf("edge %s passes/s", chart.Number(c.EdgeTPS))
	}
	answers := fmt.Sprintf("%d answers", r.Answers)
	repetitions := 0
	for _, s := range r.Samples {
		repetitions = max(repetitions, s.Repetition+1)
	}
	if repetitions > 1 {
		answers += fmt.Sprintf(" in %d repetitions", repetitions)
	}
	return strings.Join(append(words, pace, fmt.Sprintf("cloud %s ms a token", chart.Number(c.CloudMS)), answers), ", ")
}

func modeName(r outcome.Report) string {
	if r.Variant > 0 {
		return fmt.Sprintf("%s (%d)", r.Mode, r.Variant)
	}
	return r.Mode
}

// sameText returns a mark that shows whether the tokens are those of the large model or of serial decoding, if they
// should be.
func sameText(r outcome.Report) string {
	for _, c := range []struct {
		same *bool
		n    *int
		word string
	}{{r.EqualToCloud, r.DifferingFromCloud, "c"}, {r.EqualToSerial, r.Differing, "s"}} {
		switch {
		case c.same == nil:
		case *c.same:
			return c.word
		default:
			return fmt.Sprintf("≠%s %d", c.word, *c.n)
		}
	}
	return ""
}

func whole(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.0f", *x)
}

func count(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
