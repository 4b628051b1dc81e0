package routing

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// cellColumns returns the columns of the table of a cell.
func cellColumns() []routingColumn {
	return []routingColumn{
		{"mode", "", modeName},
		{
			"p50", "milliseconds until an answer was complete: half of the answers took no longer",
			func(r outcome.Report) string { return fmt.Sprintf("%.0f", r.Time.P50) },
		},
		{
			"p90", "the same: nine of ten took no longer",
			func(r outcome.Report) string { return fmt.Sprintf("%.0f", r.Time.P90) },
		},
		{
			"first", "milliseconds until the first token: half of the answers took no longer",
			func(r outcome.Report) string {
				if r.FirstToken == nil {
					return ""
				}
				return fmt.Sprintf("%.0f", r.FirstToken.P50)
			},
		},
		{"cloud", "share of the tokens that the large model chose", func(r outcome.Report) string {
			return cli.Percent(r.EscalatedShare)
		}},
		{"asks", "tokens asked for, per answer", func(r outcome.Report) string { return cli.Number(r.Asks) }},
		{"late", "the small model's tokens, in all answers, where the large one's came after --deadline",
			func(r outcome.Report) string { return count(r.Timeouts) }},
		{"wait", "milliseconds lost waiting for the large model, per answer", func(r outcome.Report) string {
			return whole(r.Exposed)
		}},
		{"waste", "drafted tokens not used, per answer", func(r outcome.Report) string { return cli.Number(r.Wasted) }},
		{"bytes", "of payload, sent and received, per answer", func(r outcome.Report) string {
			if r.Up == nil || r.Down == nil {
				return ""
			}
			return fmt.Sprintf("%.0f", *r.Up+*r.Down)
		}},
		{"right", "share of the questions that were answered rightly", func(r outcome.Report) string {
			if r.Accuracy == nil {
				return ""
			}
			return fmt.Sprintf("%.0f%%", 100**r.Accuracy)
		}},
		{"as", "s: the tokens of serial; c: of the large model; ≠: not these, in how many answers", sameText},
	}
}

// shownColumns returns the columns for these reports. The column "late" is omitted if no answer was late.
func shownColumns(reports []outcome.Report) []routingColumn {
	late := slices.ContainsFunc(reports, func(r outcome.Report) bool { return r.Timeouts != nil && *r.Timeouts > 0 })
	return slices.DeleteFunc(cellColumns(), func(c routingColumn) bool { return c.name == "late" && !late })
}

// cellLegend explains the columns.
func cellLegend() string {
	var b strings.Builder
	for _, c := range cellColumns()[1:] {
		fmt.Fprintf(&b, "%-8s %s\n", c.name, c.legend)
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
		if err := printCell(out, reports[:n]); err != nil {
			return err
		}
		reports = reports[n:]
	}
	return nil
}

// printCell prints the table of a cell.
func printCell(out io.Writer, reports []outcome.Report) error {
	c, samples := reports[0].Cell, reports[0].Samples
	text := fmt.Sprintf("round trip %v ms, loss %v%%", c.RTT, 100*c.Loss)
	if c.Trace != "" {
		text += ", trace " + c.Trace
	}
	pace := "at full speed"
	if c.EdgeTPS > 0 {
		pace = fmt.Sprintf("%v passes/s", c.EdgeTPS)
	}
	repetitions := 0
	for _, s := range samples {
		repetitions = max(repetitions, s.Repetition+1)
	}
	text += fmt.Sprintf(", edge %s, cloud %v ms a token, %d answers", pace, c.CloudMS, reports[0].Answers)
	if repetitions > 1 {
		text += fmt.Sprintf(" in %d repetitions", repetitions)
	}
	if _, err := fmt.Fprintln(out, text); err != nil {
		return err
	}
	return printColumns(out, shownColumns(reports), reports)
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
