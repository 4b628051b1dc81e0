package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// Table is a table for a terminal, a page, or a document in Markdown.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]string
	Note    string // below the table
}

// Column is the head of a column.
type Column struct {
	Name   string
	Legend string // "" if the name needs no explanation
}

// column is a figure of the lines of a measurement.
type column struct {
	name string
	// Its path in a line, such as ms.p50, or the quotient of two, such as asks/answers. Several have the words between
	// their texts in between: "accuracy_low to accuracy_high". The cell is empty if one is absent.
	fields string
	format func(x float64) string // of numbers; nil: all digits
	legend string
}

// row is a line of a measurement, decoded from JSON.
type row map[string]any

// valueAt returns the value at a path, nil if there is none.
func (r row) valueAt(path string) any {
	v := any(map[string]any(r))
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// figureAt returns the value at a path, or the quotient of those at two; nil if one is absent, or the divisor 0.
func (r row) figureAt(path string) any {
	part, whole, divided := strings.Cut(path, "/")
	v, by := r.valueAt(part), 0.0
	if divided {
		if by = numberOrZero(r.valueAt(whole)); v == nil || by == 0 {
			return nil
		}
		return numberOrZero(v) / by
	}
	return v
}

func (c column) formatCell(r row) string {
	words := strings.Fields(c.fields)
	for i := 0; i < len(words); i += 2 {
		v := r.figureAt(words[i])
		_, isNumber := v.(json.Number)
		_, isFloat := v.(float64)
		switch {
		case v == nil:
			return ""
		case (isNumber || isFloat) && c.format != nil:
			words[i] = c.format(numberOrZero(v)) // infinite beyond its range
		case c.format == nil:
			words[i] = formatValue(v)
		default:
			words[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(words, " ")
}

// buildTable makes a table without the columns that are empty in all rows. The first column stays.
func buildTable(title string, columns []column, rows []row) *Table {
	t := &Table{Title: title, Rows: make([][]string, len(rows))}
	for i, c := range columns {
		var cells []string
		for _, r := range rows {
			cells = append(cells, c.formatCell(r))
		}
		if i > 0 && !slices.ContainsFunc(cells, func(s string) bool { return s != "" }) {
			continue
		}
		t.Columns = append(t.Columns, Column{c.name, c.legend})
		for k, cell := range cells {
			t.Rows[k] = append(t.Rows[k], cell)
		}
	}
	return t
}

// Pick returns a table with the columns of these names. A name may be followed by a colon and another heading. Columns
// that the table lacks are left out.
func (t *Table) Pick(names ...string) *Table {
	p := &Table{Title: t.Title, Rows: make([][]string, len(t.Rows)), Note: t.Note}
	for _, name := range names {
		name, heading, renamed := strings.Cut(name, ":")
		i := slices.Index(t.columnNames(), name)
		if i < 0 {
			continue
		}
		c := t.Columns[i]
		if renamed {
			c.Name = heading
		}
		p.Columns = append(p.Columns, c)
		for k, row := range t.Rows {
			p.Rows[k] = append(p.Rows[k], row[i])
		}
	}
	return p
}

// Text writes the table for a terminal, with its legend.
func (t *Table) Text(w io.Writer) error { return errors.Join(t.Body(w), t.Legend(w)) }

// Body writes the table without its legend.
func (t *Table) Body(w io.Writer) error {
	if t.Title != "" {
		fmt.Fprintf(w, "%s\n\n", t.Title)
	}
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.columnNames()}, t.Rows...) {
		fmt.Fprintln(lines, strings.Join(row, "\t"))
	}
	fmt.Fprintln(lines)
	return lines.Flush()
}

// Legend writes what the columns mean, and the note.
func (t *Table) Legend(w io.Writer) (err error) {
	for _, c := range t.Columns {
		if c.Legend != "" {
			_, err = fmt.Fprintf(w, "%-9s %s\n", c.Name, c.Legend)
		}
	}
	if t.Note != "" {
		_, err = fmt.Fprintln(w, t.Note)
	}
	return err
}

// Markdown returns the table in Markdown.
func (t *Table) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n%s|\n", strings.Join(t.columnNames(), " | "), strings.Repeat("|---", len(t.Columns)))
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

func (t *Table) columnNames() (all []string) {
	for _, c := range t.Columns {
		all = append(all, c.Name)
	}
	return all
}

func formatPercent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }

func formatWholePercent(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) }

func formatDecimal(x float64) string { return fmt.Sprintf("%.1f", x) }

func formatTwoDigits(x float64) string { return fmt.Sprintf("%.2g", x) }

// formatMicroseconds formats milliseconds as microseconds.
func formatMicroseconds(x float64) string { return chart.Number(1000 * x) }

// formatNonzero formats a number, "" for 0.
func formatNonzero(x float64) string {
	if x == 0 {
		return ""
	}
	return chart.Number(x)
}

// formatBytes formats a number of bytes, "" for none.
func formatBytes(x float64) string {
	if x <= 0 {
		return ""
	}
	return humanize.IBytes(uint64(x))
}

// formatValue formats a value without a format: an interval, yes or no, or as it is.
func formatValue(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return fmt.Sprintf("%.3f (%.3f to %.3f)", numberOrZero(v["value"]), numberOrZero(v["low"]),
			numberOrZero(v["high"]))
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprint(v)
}

func numberOrZero(v any) float64 {
	x, isFloat := v.(float64)
	if n, _ := v.(json.Number); !isFloat {
		x, _ = n.Float64()
	}
	return x
}

func formatPlural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return chart.Number(float64(n)) + " " + one + "s"
}
