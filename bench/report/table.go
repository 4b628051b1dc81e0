package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

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

// column has the cells of a column for rows of a type.
type column[T any] struct {
	name, legend string
	cell         func(T) string
}

// tableOf makes a table without the columns that are empty in all rows. The first column stays.
func tableOf[T any](title string, columns []column[T], rows []T) *Table {
	t := &Table{Title: title, Rows: make([][]string, len(rows))}
	for i, c := range columns {
		var cells []string
		for _, r := range rows {
			cells = append(cells, c.cell(r))
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

// Text writes the table for a terminal, with the legend of its columns.
func (t *Table) Text(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&b, "%s\n\n", t.Title)
	}
	lines := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	for _, row := range append([][]string{names}, t.Rows...) {
		fmt.Fprintln(lines, strings.Join(row, "\t"))
	}
	lines.Flush() // writing to memory cannot fail
	b.WriteString("\n")
	for _, c := range t.Columns {
		if c.Legend != "" {
			fmt.Fprintf(&b, "%-9s %s\n", c.Name, c.Legend)
		}
	}
	if t.Note != "" {
		fmt.Fprintln(&b, t.Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown returns the columns with these names, or all, as a table in Markdown. A name may be followed by a colon
// and another heading. Columns that the table lacks are empty.
func (t *Table) Markdown(names ...string) string {
	if len(names) == 0 {
		for _, c := range t.Columns {
			names = append(names, c.Name)
		}
	}
	head, from := make([]string, len(names)), make([]int, len(names))
	for i, name := range names {
		name, heading, renamed := strings.Cut(name, ":")
		if head[i] = name; renamed {
			head[i] = heading
		}
		from[i] = slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n%s|\n", strings.Join(head, " | "), strings.Repeat("|---", len(head)))
	for _, row := range t.Rows {
		b.WriteString("|")
		for _, k := range from {
			if k < 0 {
				b.WriteString("  |")
			} else {
				fmt.Fprintf(&b, " %s |", row[k])
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// percent formats a share, "" if there is none.
func percent(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100**x)
}

// value formats a figure, "" if there is none.
func value(x *float64) string {
	if x == nil {
		return ""
	}
	return chart.Number(*x)
}

// span formats the ends of an interval, "" if there is none.
func span(low, high *float64, format func(*float64) string) string {
	if low == nil || high == nil {
		return ""
	}
	return format(low) + " to " + format(high)
}

// plural formats a count of things.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
