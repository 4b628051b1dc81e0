package bench

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/compare"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

func newBenchCompareCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "compare A.jsonl [B.jsonl] [flags]",
		Short: "Compare measurements: what differs, by how much, and how certain that is",
		Long: `Compare two files of measurements (JSON lines, as printed by --json): which figures differ, by how much,
and how certain that is. Lines are matched by measurement, link and paces, mode and models. A setting with one
value in all of A and another in all of B is the compared setting.

With one file, modes that were named twice are compared.

Answers to the same question are compared pairwise, other samples as groups. All comparisons of one call are corrected
together: if nothing differs, no difference is reported in at least 99% of all calls.`,
		Example: `  pilotfish-bench compare before.jsonl after.jsonl
  pilotfish-bench compare sweep.jsonl`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 2 {
				return fmt.Errorf("%s compares one or two files: leave out %.40q", cli.Called(c), args[2])
			}
			return cli.SomeArgs("a file with measurements, or two to compare")(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := compareFiles(args)
			if err != nil {
				return err
			}
			if asJSON {
				return printComparisonJSON(a, r)
			}
			return printComparisonTables(a.Stdout, r)
		},
	}
	cli.Add(c.Flags(), "json", &asJSON, false)
	return c
}

func compareFiles(paths []string) (r *compare.Report, err error) {
	var files [][]result.Record
	for _, path := range paths {
		records, err := result.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, records)
	}
	if len(files) == 1 {
		r, err = compare.Variants(files[0])
	} else {
		r, err = compare.Files(files[0], files[1])
	}
	if errors.Is(err, compare.ErrNothing) {
		err = fmt.Errorf("%s: %w", strings.Join(paths, " and "), err)
	}
	return r, err
}

// comparisonLine is the JSON line of one figure.
type comparisonLine struct {
	Of      map[string]string    `json:"of"`
	Between []compare.Difference `json:"between,omitempty"`
	SourceA string               `json:"source_a"`
	SourceB string               `json:"source_b"`
	compare.Metric
}

func printComparisonJSON(a *cli.App, r *compare.Report) error {
	for _, p := range r.Pairs {
		for _, m := range p.Metrics {
			line := comparisonLine{p.Of, slices.Concat(r.Between, p.Between), p.A, p.B, m}
			if err := a.PrintJSON(line); err != nil {
				return err
			}
		}
	}
	return nil
}

func printComparisonTables(out io.Writer, r *compare.Report) error {
	var b strings.Builder
	for _, list := range []struct {
		name string
		all  []compare.Difference
	}{{"Compared", r.Between}, {"The runs differ in", r.Runs}} {
		if len(list.all) > 0 {
			fmt.Fprintf(&b, "%s:\n", list.name)
			for _, d := range list.all {
				fmt.Fprintf(&b, "  %s: %s\n", d.Name, d)
			}
		}
	}
	shared := sharedSettings(r.Pairs)
	differing, tests := 0, 0
	for _, p := range r.Pairs {
		n, err := printPairTable(&b, p, shared)
		if err != nil {
			return err
		}
		differing, tests = differing+n, tests+len(p.Metrics)
	}
	if len(r.Alone) > 0 {
		fmt.Fprintf(&b, "\nWithout a partner: %s\n", strings.Join(r.Alone, ", "))
	}
	fmt.Fprintf(&b,
		"\n%d of %d figures differ (*: p ≤ 0.01 after the correction for all of them). A and B are means of the\n"+
			"questions, or medians of samples; intervals are at 95%%, of the typical change.\n"+
			"Where p is empty there are no samples, and no test.\n", differing, tests)
	_, err := io.WriteString(out, b.String())
	return err
}

func sharedSettings(pairs []compare.Pair) map[string]string {
	same := maps.Clone(pairs[0].Of)
	for _, p := range pairs {
		maps.DeleteFunc(same, func(name, value string) bool { return p.Of[name] != value })
	}
	delete(same, "mode")
	return same
}

// printPairTable prints the comparison of a pair, and returns how many figures differ.
func printPairTable(b *strings.Builder, p compare.Pair, shared map[string]string) (differing int, err error) {
	title := p.Of["mode"]
	for _, name := range slices.Sorted(maps.Keys(p.Of)) {
		if _, ok := shared[name]; !ok && name != "mode" {
			title += fmt.Sprintf(", %s %s", name, p.Of[name])
		}
	}
	for _, d := range p.Between {
		title += fmt.Sprintf(", %s %s", d.Name, d)
	}
	table := report.Table{Title: fmt.Sprintf("\n%s (%s and %s)", strings.TrimPrefix(title, ", "), p.A, p.B),
		Columns: []report.Column{{Name: "figure"}, {Name: "A"}, {Name: "B"}, {Name: "change"}, {Name: "interval"},
			{Name: "p"},
			{}}}
	var equal []string
	for _, m := range p.Metrics {
		if m.Test == compare.NoTest {
			equal = append(equal, m.Name)
			continue
		}
		change, interval, sure, mark := "", "", "", ""
		if m.Change != nil {
			change = fmt.Sprintf("%+.1f%%", 100**m.Change)
		}
		if m.Low != nil {
			interval = fmt.Sprintf("%+.1f to %+.1f%%", 100**m.Low, 100**m.High)
		}
		if m.Test != compare.Single {
			sure = fmt.Sprintf("%.2g", m.Adjusted)
		}
		if m.Differs {
			mark = "*"
			differing++
		}
		table.Rows = append(table.Rows, []string{m.Name, fmt.Sprintf("%.4g", m.A), fmt.Sprintf("%.4g", m.B), change,
			interval,
			sure, mark})
	}
	if len(equal) > 0 {
		table.Note = fmt.Sprintf("Equal in all samples: %s.\n", strings.Join(equal, ", "))
	}
	if p.Texts > p.Same {
		table.Note += fmt.Sprintf("The texts of %d of %d answers differ.\n", p.Texts-p.Same, p.Texts)
	}
	return differing, table.Text(b)
}
