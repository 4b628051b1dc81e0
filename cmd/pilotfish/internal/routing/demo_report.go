package routing

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
)

// pageFlag is the file of --html; "" means no page.
type pageFlag string

func (f *pageFlag) register(c *cobra.Command) {
	cli.Add(c.Flags(), "html", (*string)(f), "")
}

// write draws the reports, as `bench report` draws the lines of --json. Without reports it writes no page.
func (f pageFlag) write(reports []outcome.Report, about result.Run) error {
	if f == "" || len(reports) == 0 {
		return nil
	}
	var lines bytes.Buffer
	for _, r := range reports {
		line, err := result.Line(r, about)
		if err != nil {
			return err
		}
		lines.Write(line)
	}
	records, err := result.Read(&lines, "--html")
	if err != nil {
		return err
	}
	r, err := report.New(records)
	if err == nil {
		err = group.WritePage(r, string(f))
	}
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}
