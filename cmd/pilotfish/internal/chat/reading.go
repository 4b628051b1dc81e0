package chat

import (
	"fmt"
	"io"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// promptProgress shows on a terminal how much of a long prompt has been read, until the answer begins.
type promptProgress struct {
	w      io.Writer
	layers int // of the model
	done   int // layers, times tokens
	shown  int // percent; 0: nothing is shown
	over   bool
}

const shortReading = time.Second // is not shown

// countOperation counts an operation of the small model. After the prompt nothing is counted. stats returns the
// statistics of the answer.
func (r *promptProgress) countOperation(o pilotfish.Op, stats func() pilotfish.Stats) {
	switch {
	case r.over:
		return
	case o.Kind == backend.OpRun:
		r.done += int(o.Rows) * r.layers
	case o.Kind == backend.OpNormGateUp: // every layer has one
		r.done += int(o.Rows)
	}
	if o.End < shortReading {
		return
	}
	s := stats()
	all := max(1, s.PromptTokens-s.ReusedTokens) * r.layers
	if percent := min(99, 100*r.done/all); percent > r.shown {
		r.shown = percent
		fmt.Fprintf(r.w, "\rreading the question: %d%%", percent)
	}
}

func (r *promptProgress) clearProgress() {
	if r.shown > 0 && !r.over {
		io.WriteString(r.w, "\r\x1b[K")
	}
	r.over = true
}
