package chat

import (
	"fmt"
	"io"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// reading shows on a terminal how much of a long prompt has been read, until the answer begins.
type reading struct {
	w      io.Writer
	begun  time.Time
	layers int                    // of the model
	stats  func() pilotfish.Stats // of the answer
	done   int                    // operations, times tokens
	shown  int                    // percent; -1: nothing is shown
	over   bool
}

const (
	shortReading = time.Second // is not shown
	layerOps     = 5           // operations in a layer
)

// newReading returns the reading of the next prompt; nil if stderr is not a terminal.
func (c *conversation) newReading(stats func() pilotfish.Stats) *reading {
	if !cli.IsTerminal(c.terminal) {
		return nil
	}
	f := c.model.File()
	family, _ := f.String("general.architecture") // an open model has both
	layers, _ := f.Int(family + ".block_count")
	return &reading{w: c.terminal, begun: time.Now(), layers: int(layers), stats: stats, shown: -1}
}

// options returns the option of the answer that reports what is read.
func (r *reading) options() []pilotfish.Option {
	if r == nil {
		return nil
	}
	return []pilotfish.Option{pilotfish.Trace(r.begun, 0, r.operation)}
}

func (r *reading) operation(o pilotfish.Op) {
	switch {
	case r.over:
		return
	case o.Kind == backend.OpRun:
		r.done += int(o.Rows) * layerOps * r.layers
	case o.Layer >= 0:
		r.done += int(o.Rows)
	}
	if o.End < shortReading {
		return
	}
	s := r.stats()
	all := max(1, s.PromptTokens-s.ReusedTokens) * layerOps * r.layers
	if percent := min(99, 100*r.done/all); percent > r.shown {
		r.shown = percent
		fmt.Fprintf(r.w, "\rreading the question: %d%%", percent)
	}
}

// end removes what is shown.
func (r *reading) end() {
	if r == nil || r.over {
		return
	}
	r.over = true
	if r.shown >= 0 {
		io.WriteString(r.w, "\r\x1b[K")
	}
}
