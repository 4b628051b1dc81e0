package bench

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
)

// newBenchReportCommand returns the command that draws results.
func newBenchReportCommand(a *cli.App) *cobra.Command {
	var out, svg string
	c := &cobra.Command{
		Use:   "report RESULTS... -o FILE [flags]",
		Short: "Turn measurements into a self-contained page of tables and plots",
		Long: `Turn measurements into one page that needs no network: tables, time over round trips with intervals, one
answer of each mode from beginning to end, histograms of waits, bytes in each direction, engines, gateways and
accuracy; and how each was measured.

RESULTS are files of JSON lines, as printed by --json of demo, bench, eval and run; - is stdin. Lines of several files
are drawn in one plot if only the round trip differs.`,
		Example: `  pilotfish bench routing --json > results.jsonl
  pilotfish bench report results.jsonl -o report.html --svg figures`,
		Args: cli.SomeArgs("the files with results"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" && svg == "" {
				return cli.Usagef("where to? Give -o FILE for a page, --svg FOLDER for files, or both")
			}
			return writeReport(a, args, out, svg)
		},
	}
	cli.Add(c.Flags(), "out", &out, "")
	cli.Add(c.Flags(), "svg", &svg, "")
	return c
}

// writeReport draws the lines of files.
func writeReport(a *cli.App, paths []string, out, svg string) error {
	var all []result.Record
	for _, path := range paths {
		some, err := readResults(a, path)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	r, err := report.New(all)
	if err != nil {
		return err
	}
	if out != "" {
		if err := group.WritePage(r, out); err != nil {
			return err
		}
		fmt.Fprintln(a.Stdout, out)
	}
	if svg == "" {
		return nil
	}
	names, err := r.WriteSVG(svg)
	for _, name := range names {
		fmt.Fprintln(a.Stdout, filepath.Join(svg, name))
	}
	if err == nil && len(names) == 0 {
		fmt.Fprintln(a.Stderr, "there is nothing to draw in these results")
	}
	return err
}

// readResults reads a file of results, or stdin.
func readResults(a *cli.App, path string) ([]result.Record, error) {
	if path == "-" {
		return result.Read(a.Stdin, "stdin")
	}
	return result.ReadFile(path)
}
