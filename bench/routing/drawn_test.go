package routing

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/bench/timeline"
	"github.com/pilotfish-ai/pilotfish/internal/timelinetest"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestRoutingTimeline: the callback gets each decoded answer that counts, with its mode, cell and question, and chooses
// which to draw.
func TestRoutingTimeline(t *testing.T) {
	edge := tiny(t, nil)
	stage := openStage(t, edge, edge, remote.StageOptions{})
	var mu sync.Mutex
	calls := map[string]int{}
	line := new(timeline.Timeline)
	o := Options{
		Edge: edge, Large: edge, Questions: []task.Question{{Text: "where"}, {Text: "what"}}, Repeat: 2,
		WarmUp: 3, Parallel: 1, MaxTokens: 5, Modes: modes(t, "cloud", "local", "serial"), EdgeTPS: 300,
		Draft: draft.Options{Deadline: -1}, Direct: stage.Direct(), Dial: stage.Dial,
		Timeline: func(m outcome.Mode, c *outcome.Cell, q task.Question) *timeline.Text {
			mu.Lock()
			defer mu.Unlock()
			name := fmt.Sprintf("%v %s %s", c.EdgeTPS, m.Name, q.Text)
			if calls[name]++; q.Text != "what" || calls[name] > 1 {
				return nil
			}
			return line.Begin(name)
		},
	}
	mustMeasure(t, o)
	want := map[string]int{}
	for _, mode := range []string{"local", "serial"} {
		for _, q := range o.Questions {
			want["300 "+mode+" "+q.Text] = o.Repeat
		}
	}
	assert.Equal(t, want, calls)
	var b bytes.Buffer
	require.NoError(t, line.Write(&b, nil))
	f, err := timelinetest.Read(b.Bytes())
	require.NoError(t, err)
	assert.Len(t, f.All("X", ": device", "draft steps", "answer"), 2)
	for name := range want {
		answer := f.All("X", name+": device", "draft steps", "answer")
		if name[len(name)-4:] != "what" {
			assert.Empty(t, answer)
			continue
		}
		require.Len(t, answer, 1, name)
		parts := timelinetest.Sum(f.All("X", name+": device", "draft steps", "")) - answer[0].Dur
		assert.InEpsilon(t, answer[0].Dur, parts, 0.01)
	}
}
