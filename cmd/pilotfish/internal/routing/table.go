package routing

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// tableWidth is the width of tables and their legends, in characters. Long names of modes can make a table wider.
const tableWidth = 80

// routingColumn is a column of the tables of modes.
type routingColumn struct {
	name   string
	legend string // its meaning; "" if the name needs no explanation
	cell   func(outcome.Report) string
}

// routingColumns returns the columns of the first table of these reports: answers and time.
func routingColumns(reports []outcome.Report) []routingColumn {
	return []routingColumn{
		modeColumn(),
		{
			"right", "share of the questions that were answered rightly",
			func(r outcome.Report) string { return cli.Percent(r.Accuracy) },
		},
		{"interval", "where that share lies with 95% confidence, for this number of questions", interval},
		{
			"cloud", "share of the generated tokens that the large model chose, end tokens included",
			func(r outcome.Report) string { return cli.Percent(r.EscalatedShare) },
		},
		{
			"ms p50", "milliseconds until an answer was complete: median of the questions",
			func(r outcome.Report) string { return fmt.Sprintf("%.0f", r.Time.P50) },
		},
		{
			"ms p90", "the same: nine of ten answers took no longer",
			func(r outcome.Report) string { return fmt.Sprintf("%.0f", r.Time.P90) },
		},
		{
			"hidden", "share of the time from asks to their answers that was spent on drafts that were kept",
			func(r outcome.Report) string { return cli.Percent(r.HiddenShare) },
		},
		{
			"hits", "share of the answers from the large model that were among the guesses",
			func(r outcome.Report) string { return cli.Percent(r.HitRate) },
		},
		{
			"same", "whether all tokens are those of serial, or with verification those of the large model alone; " +
				"no: some timed out or were shown unverified; NO: a fault of this program", same(reports),
		},
	}
}

// modeColumn returns the first column of every table.
func modeColumn() routingColumn {
	return routingColumn{"mode", "", func(r outcome.Report) string { return r.Mode }}
}

// askColumns returns the columns of the second table: what was asked for.
func askColumns() []routingColumn {
	return []routingColumn{
		modeColumn(),
		{
			"asks", "tokens asked for, per question; including those that wrong guesses made unnecessary",
			func(r outcome.Report) string { return cli.Number(r.Asks) },
		},
		{
			"timed out",
			"tokens, in all answers together, that the small model chose since no answer came before --deadline",
			func(r outcome.Report) string { return count(r.Timeouts) },
		},
		{
			"bytes up", "payload sent, per answer from the large model; including what was sent for wrong guesses",
			func(r outcome.Report) string { return cli.Number(r.BytesUp) },
		},
		{
			"bytes down", "payload received, counted like bytes up",
			func(r outcome.Report) string { return cli.Number(r.BytesDown) },
		},
		{
			"known", "tokens that were known from earlier answers, per question",
			func(r outcome.Report) string { return cli.Number(r.Known) },
		},
		{
			"turned", "tokens of the small model that verification replaced before they were shown, per question",
			func(r outcome.Report) string { return cli.Number(r.Turned) },
		},
		{
			"unverified", "tokens, in all answers together, shown without verification since no answer came in time",
			func(r outcome.Report) string { return count(r.Unverified) },
		},
	}
}

// workColumns returns the columns of the third table: the work of the large model.
func workColumns() []routingColumn {
	return []routingColumn{
		modeColumn(),
		{
			"prefilled",
			"tokens of prompt and text that the large model read, per question; for paper all of them each time",
			work(func(c *outcome.CloudTokens) float64 { return c.Prefilled }),
		},
		{
			"decoded", "tokens that it was asked for, per question, including unused ones; for cloud its whole text",
			work(func(c *outcome.CloudTokens) float64 { return c.Decoded }),
		},
		{
			"ahead", "tokens that it decoded ahead, beyond these, per question",
			work(func(c *outcome.CloudTokens) float64 { return c.Ahead }),
		},
		{
			"used", "of these, those that answered a question or verified a token",
			work(func(c *outcome.CloudTokens) float64 { return c.AheadUsed }),
		},
	}
}

// printRouting prints three tables with a row per mode, and then the explanation of the columns. It leaves out columns
// without figures.
func printRouting(out io.Writer, reports []outcome.Report) error {
	var legend strings.Builder
	for _, columns := range [][]routingColumn{routingColumns(reports), askColumns(), workColumns()} {
		columns = slices.DeleteFunc(columns, func(c routingColumn) bool { return empty(c, reports) })
		if len(columns) < 2 {
			continue
		}
		if err := printColumns(out, columns, reports); err != nil {
			return err
		}
		for _, c := range columns[1:] {
			legend.WriteString(wrapped(fmt.Sprintf("%-10s  ", c.name), c.legend))
		}
	}
	const empty = "A cell is empty where the mode has no such figure, or no answer came from the large model."
	legend.WriteString("\n" + wrapped("", empty))
	_, err := io.WriteString(out, legend.String())
	return err
}

// empty reports whether a column has no figure for any mode.
func empty(c routingColumn, reports []outcome.Report) bool {
	return !slices.ContainsFunc(reports, func(r outcome.Report) bool { return c.cell(r) != "" })
}

// wrapped wraps text to lines of [tableWidth]. The first line begins with a name; the others are indented to the text.
func wrapped(name, text string) string {
	var b strings.Builder
	line, indent := name, strings.Repeat(" ", utf8.RuneCountInString(name))
	begun := false
	for word := range strings.FieldsSeq(text) {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > tableWidth {
			b.WriteString(line + "\n")
			line, begun = indent, false
		}
		if begun {
			line += " "
		}
		line += word
		begun = true
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// printColumns prints a table, and an empty line.
func printColumns(out io.Writer, columns []routingColumn, reports []outcome.Report) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cell func(routingColumn) string) {
		for _, c := range columns {
			fmt.Fprintf(table, "%s\t", cell(c))
		}
		fmt.Fprintln(table)
	}
	row(func(c routingColumn) string { return c.name })
	for _, r := range reports {
		row(func(c routingColumn) string { return c.cell(r) })
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, narrowed(text.String()))
	return err
}

// narrowed removes the spaces that all lines of a table begin with.
func narrowed(table string) string {
	lines := strings.Split(strings.TrimRight(table, "\n"), "\n")
	most := len(table)
	for _, l := range lines {
		most = min(most, len(l)-len(strings.TrimLeft(l, " ")))
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(l[most:], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// work returns a cell about the work of the large model.
func work(of func(*outcome.CloudTokens) float64) func(outcome.Report) string {
	return func(r outcome.Report) string {
		if r.CloudTokens == nil {
			return ""
		}
		return cli.Number(new(of(r.CloudTokens)))
	}
}

func interval(r outcome.Report) string {
	if r.AccuracyLow == nil {
		return ""
	}
	return fmt.Sprintf("%.0f–%.0f%%", 100**r.AccuracyLow, 100**r.AccuracyHigh)
}

// same returns a cell that reports whether a mode has the expected tokens. If a mode or serial lost a token to a
// deadline, that explains a difference.
func same(reports []outcome.Report) func(outcome.Report) string {
	lost := map[string]int{}
	for _, r := range reports {
		for _, n := range []*int{r.Timeouts, r.Unverified} {
			if n != nil {
				lost[r.Mode] += *n
			}
		}
	}
	return func(r outcome.Report) string {
		equal, reasons := r.EqualToSerial, lost[r.Mode]+lost["serial"]
		if equal == nil {
			equal, reasons = r.EqualToCloud, lost[r.Mode]
		}
		switch {
		case equal == nil:
			return ""
		case *equal:
			return "yes"
		case reasons > 0:
			return "no"
		}
		return "NO"
	}
}

func count(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
