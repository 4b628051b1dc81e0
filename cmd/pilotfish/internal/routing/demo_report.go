package routing

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
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

// printDemo prints the settings and the tables.
func (f *routingFlags) printDemo(out io.Writer, reports []outcome.Report) error {
	if _, err := io.WriteString(out, wrapped("", f.settings(reports[0]))+"\n"); err != nil {
		return err
	}
	return printRouting(out, reports)
}

// settings lists the settings that the figures depend on, in one line.
func (f *routingFlags) settings(r outcome.Report) string {
	c := r.Cell
	if c == nil {
		c = &outcome.Cell{}
	}
	words := []string{fmt.Sprintf("%d answers", r.Answers), fmt.Sprintf("RTT %s ms", chart.Number(c.RTT))}
	if c.Trace != "" {
		words = append(words, "trace "+c.Trace)
	}
	if c.Loss > 0 {
		words = append(words, fmt.Sprintf("loss %s%%", chart.Number(100*c.Loss)))
	}
	pace := "device at full speed"
	if c.EdgeTPS > 0 {
		pace = fmt.Sprintf("device %s tokens/s", chart.Number(c.EdgeTPS))
	}
	words = append(words, pace, fmt.Sprintf("cloud %s ms/token", chart.Number(c.CloudMS)))
	if f.flags != nil {
		if deadline := f.flags.Lookup("deadline"); deadline != nil {
			words = append(words, "deadline "+deadline.Value.String())
		}
	}
	return strings.Join(words, ", ")
}
