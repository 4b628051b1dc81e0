package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/bench/timeline"
)

// timelineFlag draws how answers came about.
type timelineFlag struct {
	path string
	line *timeline.Timeline // nil: nothing is drawn
}

func (t *timelineFlag) register(p *pflag.FlagSet) {
	add(p, "timeline", &t.path, "")
}

// start begins to record, if that is wanted. A file that could not be written is refused before the work.
func (t *timelineFlag) start() error {
	if t.path == "" {
		return nil
	}
	if folder, err := os.Stat(filepath.Dir(t.path)); err != nil || !folder.IsDir() {
		return usagef("--timeline %s: there is no folder %s to write it to", t.path, filepath.Dir(t.path))
	}
	if file, err := os.Stat(t.path); err == nil && !file.Mode().IsRegular() {
		return usagef("--timeline %s is not a file: give the name of one", t.path)
	}
	t.line = new(timeline.Timeline)
	return nil
}

// write writes what was recorded, with what it is of.
func (t *timelineFlag) write(about result.Run) error {
	if t.line == nil {
		return nil
	}
	var b bytes.Buffer
	if err := t.line.Write(&b, map[string]result.Run{"run": about}); err != nil {
		return fmt.Errorf("--timeline %s: %w", t.path, err)
	}
	return replaceFile(t.path, b.Bytes(), 0o644)
}

// questionTimeline draws the answers to one question of several, in every mode.
type questionTimeline struct {
	timelineFlag
	number int // from 1
}

func (t *questionTimeline) register(p *pflag.FlagSet) {
	t.timelineFlag.register(p)
	add(p, "timeline-question", &t.number, 1)
}

// check refuses a question that is not asked.
func (t *questionTimeline) check(set *pflag.FlagSet, questions int) error {
	if err := checkNeeds(set); err != nil {
		return err
	}
	want := fmt.Sprintf("1 to %d, the number of questions", questions)
	return checkRange("timeline-question", t.number, 1, questions, want)
}

// drawn returns what begins the drawings: each mode has one in each cell, of the first time that it is asked the
// question there.
func (t *questionTimeline) drawn(
	all []task.Question, cells bool,
) func(outcome.Mode, *outcome.Cell, task.Question) *timeline.Text {
	if t.line == nil {
		return nil
	}
	var mu sync.Mutex
	begun := map[string]bool{}
	return func(m outcome.Mode, c *outcome.Cell, q task.Question) *timeline.Text {
		name := m.Name
		if cells {
			name = cellName(c) + ": " + name
		}
		mu.Lock()
		defer mu.Unlock()
		if q.Text != all[t.number-1].Text || begun[name] {
			return nil
		}
		begun[name] = true
		return t.line.Begin(name)
	}
}

// cellName says in short what is special about a cell.
func cellName(c *outcome.Cell) string {
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
