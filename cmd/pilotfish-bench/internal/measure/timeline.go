package measure

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/bench/timeline"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// TimelineFlag draws the timeline of answers.
type TimelineFlag struct {
	path string
	Line *timeline.Timeline // nil: nothing is drawn
}

// Register adds the flags to a command.
func (t *TimelineFlag) Register(p *pflag.FlagSet) {
	Add(p, "timeline", &t.path, "")
}

// Start starts recording, if the flag is set. It returns an error if the file could not be written later.
func (t *TimelineFlag) Start() error {
	if t.path == "" {
		return nil
	}
	if err := cli.CheckPlace("--timeline", t.path); err != nil {
		return err
	}
	t.Line = new(timeline.Timeline)
	return nil
}

// Write writes the recording, with a description of the run.
func (t *TimelineFlag) Write(about record.Run) error {
	if t.Line == nil {
		return nil
	}
	var b bytes.Buffer
	if err := t.Line.Write(&b, map[string]record.Run{"run": about}); err != nil {
		return fmt.Errorf("--timeline %s: %w", t.path, err)
	}
	return cli.ReplaceFile(t.path, b.Bytes(), 0o644)
}

// Drawn returns a function that starts the drawings of the answers to the first of several questions: one for each mode
// and cell, of the first time that it is asked there.
func (t *TimelineFlag) Drawn(
	all []task.Question, cells bool,
) func(outcome.Mode, *outcome.Cell, task.Question) *timeline.Text {
	if t.Line == nil {
		return nil
	}
	var mu sync.Mutex
	begun := map[string]bool{}
	return func(m outcome.Mode, c *outcome.Cell, q task.Question) *timeline.Text {
		name := m.Name
		if cells {
			name = CellName(c) + ": " + name
		}
		mu.Lock()
		defer mu.Unlock()
		if q.Text != all[0].Text || begun[name] {
			return nil
		}
		begun[name] = true
		return t.Line.Begin(name)
	}
}

// CellName describes the parameters of a cell in short.
func CellName(c *outcome.Cell) string {
	name := fmt.Sprintf("%v ms", c.RTT)
	if c.Loss > 0 {
		name += fmt.Sprintf(", loss %v", c.Loss)
	}
	if c.EdgeTPS > 0 {
		name += fmt.Sprintf(", %v tokens/s", c.EdgeTPS)
	}
	if c.Trace != "" {
		name += ", " + c.Trace
	}
	return name
}
