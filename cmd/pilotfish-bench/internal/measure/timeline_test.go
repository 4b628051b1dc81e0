package measure

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/bench/timeline"
)

// TestCellName: the name of a cell has the parameters that it sets.
func TestCellName(t *testing.T) {
	c := outcome.Cell{RTT: 40}
	assert.Equal(t, "40 ms", CellName(&c))
	c.Loss, c.EdgeTPS, c.Trace = 0.02, 12.5, "5g"
	assert.Equal(t, "40 ms, loss 0.02, 12.5 tokens/s, 5g", CellName(&c))
}

// TestDrawn: the first answer to the question is drawn in each mode, with several cells in each of them.
func TestDrawn(t *testing.T) {
	all := []task.Question{{Text: "b"}, {Text: "a"}}
	near, far := &outcome.Cell{RTT: 1}, &outcome.Cell{RTT: 40}
	asked := func(cells bool) (drawn []bool) {
		line := TimelineFlag{Line: new(timeline.Timeline)}
		begin := line.Drawn(all, cells)
		for _, ask := range []struct {
			mode string
			cell *outcome.Cell
			q    task.Question
		}{
			{"serial", near, all[1]}, {"serial", near, all[0]}, {"serial", near, all[0]}, {"pipelined-2", near, all[0]},
			{"serial", far, all[0]}, {"serial", far, all[0]},
		} {
			drawn = append(drawn, begin(outcome.Mode{Name: ask.mode}, ask.cell, ask.q) != nil)
		}
		return drawn
	}
	assert.Equal(t, []bool{false, true, false, true, true, false}, asked(true))
	assert.Equal(t, []bool{false, true, false, true, false, false}, asked(false))
	assert.Nil(t, new(TimelineFlag).Drawn(all, true), "without --timeline")
}
