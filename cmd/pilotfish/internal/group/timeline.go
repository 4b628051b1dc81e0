package group

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/bench/timeline"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// TimelineFlag draws the timeline of answers.
type TimelineFlag struct {
	path string
	Line *timeline.Timeline // nil: nothing is drawn
}

// Register adds the flags to a command.
func (t *TimelineFlag) Register(p *pflag.FlagSet) {
	cli.Add(p, "timeline", &t.path, "")
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
func (t *TimelineFlag) Write(about result.Run) error {
	if t.Line == nil {
		return nil
	}
	var b bytes.Buffer
	if err := t.Line.Write(&b, map[string]result.Run{"run": about}); err != nil {
		return fmt.Errorf("--timeline %s: %w", t.path, err)
	}
	return cli.ReplaceFile(t.path, b.Bytes(), 0o644)
}

// QuestionTimeline draws the answers to one of several questions, in every mode.
type QuestionTimeline struct {
	TimelineFlag
	number int // from 1
	with   *cli.OptionsFlag
}

// Register adds the flag to a command, and the number of the question to its options.
func (t *QuestionTimeline) Register(p *pflag.FlagSet, with *cli.OptionsFlag) {
	t.TimelineFlag.Register(p)
	t.with = with
	cli.Add(with.FlagSet, "with.timeline-question", &t.number, 1)
}

// Check returns an error if there is no such question.
func (t *QuestionTimeline) Check(set *pflag.FlagSet, questions int) error {
	want := fmt.Sprintf("1 to %d, the number of questions", questions)
	return CheckRange("with timeline-question", t.number, 1, questions, want)
}

// Drawn returns a function that starts the drawings: one for each mode and cell, of the first time that the question is
// asked there.
func (t *QuestionTimeline) Drawn(
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
		if q.Text != all[t.number-1].Text || begun[name] {
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
