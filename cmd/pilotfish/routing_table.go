package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/bench/price"
)

// routingColumn is a column of the table of modes.
type routingColumn struct {
	name   string
	legend string // what it says, and of what; "" where the column before tells
	cell   func(bench.ModeReport) string
}

// routingColumns are the columns of the first table of these reports: answers and time.
func routingColumns(reports []bench.ModeReport) []routingColumn {
	return []routingColumn{
		{"mode", "", func(r bench.ModeReport) string { return r.Mode }},
		{
			"accuracy", "share of the questions that were answered rightly",
			func(r bench.ModeReport) string { return percent(r.Accuracy) },
		},
		{"interval", "where that share lies with 95% confidence, for this number of questions", interval},
		{
			"from cloud", "share of the generated tokens that the large model chose, end tokens included",
			func(r bench.ModeReport) string { return percent(r.EscalatedShare) },
		},
		{
			"timed out", "tokens, in all answers together, that stayed the small model's since no answer came before --deadline",
			func(r bench.ModeReport) string { return count(r.Timeouts) },
		},
		{
			"asks", "tokens asked for, per question; also those that were no longer needed when a guess did not hold",
			func(r bench.ModeReport) string { return number(r.Asks) },
		},
		{
			"ms p50", "milliseconds until an answer was complete: median of the questions",
			func(r bench.ModeReport) string { return fmt.Sprintf("%.0f", r.Time.P50) },
		},
		{
			"ms p90", "the same: nine of ten answers took no longer",
			func(r bench.ModeReport) string { return fmt.Sprintf("%.0f", r.Time.P90) },
		},
		{
			"hidden", "share of the time from asks to their answers that was spent on drafting which held",
			func(r bench.ModeReport) string { return percent(r.HiddenShare) },
		},
		{
			"hits", "share of the answers from the large model that were among the guesses",
			func(r bench.ModeReport) string { return percent(r.HitRate) },
		},
		{
			"as serial",
			"whether all tokens are those of serial, from the same model; if not, how many timed out in both together",
			asSerial(reports),
		},
		{
			"as cloud",
			"whether all tokens are those of the large model alone; if not, how many were shown unverified",
			asCloud,
		},
	}
}

// workColumns are the columns of the second table: what it took of the network and of the large model.
func workColumns(reports []bench.ModeReport) []routingColumn {
	all := []routingColumn{
		{"mode", "", func(r bench.ModeReport) string { return r.Mode }},
		{
			"bytes up", "payload sent, per answer from the large model; also what was sent in vain on wrong guesses",
			func(r bench.ModeReport) string { return number(r.BytesUp) },
		},
		{
			"bytes down", "payload received, alike",
			func(r bench.ModeReport) string { return number(r.BytesDown) },
		},
		{
			"known", "tokens that needed no asking, since an earlier answer told them, per question",
			func(r bench.ModeReport) string { return number(r.Known) },
		},
		{
			"turned", "tokens of the small model that verification replaced before they were shown, per question",
			func(r bench.ModeReport) string { return number(r.Turned) },
		},
		{
			"unverified", "tokens, in all answers together, shown without verification since no answer came in time",
			func(r bench.ModeReport) string { return count(r.Unverified) },
		},
		{
			"prefilled", "tokens of prompt and text that the large model read, per question; for paper all of them each time",
			work(func(c *bench.CloudTokens) float64 { return c.Prefilled }),
		},
		{
			"decoded", "tokens that it was asked for, per question, in vain ones included; for cloud its whole text",
			work(func(c *bench.CloudTokens) float64 { return c.Decoded }),
		},
		{
			"ahead", "tokens that it decoded on by itself beyond these, per question",
			work(func(c *bench.CloudTokens) float64 { return c.Ahead }),
		},
		{
			"used", "of these, those that answered a question or verified a token",
			work(func(c *bench.CloudTokens) float64 { return c.AheadUsed }),
		},
	}
	if !slices.ContainsFunc(reports, func(r bench.ModeReport) bool { return r.Cost != nil }) {
		return all
	}
	return append(all,
		routingColumn{
			"cost", "of the large model's work by --price, per question",
			money(func(c *price.Cost) float64 { return c.PerAnswer }),
		},
		routingColumn{"cost of 1000", "the same for a thousand", money(func(c *price.Cost) float64 { return c.Per1000 })},
		routingColumn{
			"cloud only", "what the large model alone would cost for the same text: its prompt read once, each token decoded",
			money(func(c *price.Cost) float64 { return c.CloudOnly }),
		},
	)
}

// printRouting prints two rows per mode, in a table each, and below what the columns mean.
func printRouting(out io.Writer, reports []bench.ModeReport) error {
	var legend strings.Builder
	for _, columns := range [][]routingColumn{routingColumns(reports), workColumns(reports)} {
		if err := printColumns(out, columns, reports); err != nil {
			return err
		}
		for _, c := range columns[1:] {
			fmt.Fprintf(&legend, "%-12s %s\n", c.name, c.legend)
		}
	}
	const empty = "A cell is empty where the mode has no such figure, or no answer came from the large model."
	_, err := fmt.Fprintf(out, "%s\n%s\n", legend.String(), empty)
	return err
}

// printColumns prints a table, and an empty line.
func printColumns(out io.Writer, columns []routingColumn, reports []bench.ModeReport) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
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
	_, err := fmt.Fprintln(out)
	return err
}

// work is a cell of what the large model computed.
func work(of func(*bench.CloudTokens) float64) func(bench.ModeReport) string {
	return func(r bench.ModeReport) string {
		if r.CloudTokens == nil {
			return ""
		}
		return number(new(of(r.CloudTokens)))
	}
}

// money is a cell of what that costs.
func money(of func(*price.Cost) float64) func(bench.ModeReport) string {
	return func(r bench.ModeReport) string {
		if r.Cost == nil {
			return ""
		}
		return price.Money(of(r.Cost))
	}
}

func interval(r bench.ModeReport) string {
	if r.AccuracyLow == nil {
		return ""
	}
	return fmt.Sprintf("%.0f–%.0f%%", 100**r.AccuracyLow, 100**r.AccuracyHigh)
}

// asCloud is what to say of a report beside the large model alone. Where nothing is unverified, they must be equal.
func asCloud(r bench.ModeReport) string {
	switch {
	case r.EqualToCloud == nil:
		return ""
	case *r.EqualToCloud:
		return "yes"
	case r.Unverified != nil && *r.Unverified > 0:
		return fmt.Sprintf("no: %d unverified", *r.Unverified)
	}
	return "NO"
}

// asSerial returns what to say of a report beside that of the mode serial. Where nothing timed out, they must be equal.
func asSerial(reports []bench.ModeReport) func(bench.ModeReport) string {
	serial := 0 // tokens that timed out there
	for _, r := range reports {
		if r.Mode == "serial" && r.Timeouts != nil {
			serial = *r.Timeouts
		}
	}
	return func(r bench.ModeReport) string {
		switch {
		case r.EqualToSerial == nil:
			return ""
		case *r.EqualToSerial:
			return "yes"
		case r.Timeouts != nil && *r.Timeouts+serial > 0:
			return fmt.Sprintf("no: %d timed out", *r.Timeouts+serial)
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

func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100**share)
}

func number(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *x)
}
