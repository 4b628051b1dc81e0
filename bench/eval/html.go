package eval

import (
	"io"

	"github.com/pilotfish-ai/pilotfish/bench/task"
)

// WriteHTML writes the report as one page.
func WriteHTML(w io.Writer, set *task.Set, runs []Run, log *Log, r *Report) error { return nil }
