package bench

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
)

func newBenchReportCommand(a *cli.App) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "report RESULTS... -o FILE [flags]",
		Short: "Turn measurements into a self-contained page of tables and plots",
		Long: `Turn measurements into one page that needs no network: tables, time over round trips with intervals, one
answer of each mode from beginning to end, engines, gateways and accuracy; and how each was measured.

RESULTS are files of JSON lines, as printed by --json of demo, bench, eval and run; - is stdin. Lines of several files
are drawn in one plot if only the round trip differs.`,
		Example: `  pilotfish-bench routing --json > results.jsonl
  pilotfish-bench report results.jsonl -o report.html`,
		Args: cli.SomeArgs("the files with results"),
		RunE: func(c *cobra.Command, args []string) error {
			return writeReport(a, args, out)
		},
	}
	measure.Add(c.Flags(), "out", &out, "")
	cobra.CheckErr(c.MarkFlagRequired("out"))
	return c
}

func writeReport(a *cli.App, paths []string, out string) error {
	var all []result.Record
	for _, path := range paths {
		read := result.ReadFile
		if path == "-" {
			read = func(string) ([]result.Record, error) { return result.Read(a.Stdin, "stdin") }
		}
		some, err := read(path)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	r, err := report.New(all)
	if err != nil {
		return err
	}
	if err := measure.WritePage(r, out); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, out)
	return err
}
