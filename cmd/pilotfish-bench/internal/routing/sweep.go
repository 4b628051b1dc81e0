package routing

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
)

// sweepHelp explains lists of values.
const sweepHelp = `--rtt, --loss and --trace take lists: every combination is measured, one link after another. Each
question is asked in all modes, in turn, before the next question: disturbances affect all equally. A mode
that is named twice is measured twice, and the difference is noise.`

func (f *routingFlags) registerSweepFlags(c *cobra.Command) {
	p := c.Flags()
	cli.Add(p, "raw", &f.raw, false)
	cli.Add(p, "max-tokens", &f.maxTokens, 0)
	measure.Add(p, "repeat", &f.repeat, 1)
	f.warmUp = 1
}

// cellFlags has the values of a cell.
type cellFlags struct {
	rtt    time.Duration
	loss   float64
	traces []string
}

// cellCombinations returns all combinations of the lists, with the round trips innermost.
func (f *routingFlags) cellCombinations() (all []cellFlags) {
	for _, t := range f.traceSets() {
		for _, loss := range f.loss.Values {
			for _, rtt := range f.rtt.Values {
				all = append(all, cellFlags{rtt, loss, t})
			}
		}
	}
	return all
}

// traceSets returns the traces of each link: a list has one for each, several flags are for one link.
func (f *routingFlags) traceSets() (all [][]string) {
	if len(f.traces) != 1 {
		return [][]string{f.traces}
	}
	for path := range strings.SplitSeq(f.traces[0], ",") {
		all = append(all, []string{strings.TrimSpace(path)})
	}
	return all
}

func (c cellFlags) applyCell(o *routing.Options, s *remote.StageOptions) {
	o.RTT, o.Loss, o.Traces = c.rtt, c.loss, c.traces
	s.RTT, s.Loss, s.Traces = c.rtt, c.loss, c.traces
}

func addLinkProgress(err error, number int, links []cellFlags) error {
	stopped := (*cli.Interruption)(nil)
	if len(links) > 1 && errors.As(err, &stopped) {
		stopped.Progress = fmt.Sprintf("link %d of %d: %s", number+1, len(links), stopped.Progress)
	}
	return err
}
