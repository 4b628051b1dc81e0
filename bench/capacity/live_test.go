package capacity

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestLiveModel: the costs of a model are measured. Devices in real time get complete answers from it in each mode, and
// no faster than passes and round trips allow.
func TestLiveModel(t *testing.T) {
	racing.Spare(t)
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, synth.Tiny(recipe, 1).Write(file, nil))
	require.NoError(t, file.Close())
	large, err := engine.Open(path, engine.Options{Threads: 1})
	require.NoError(t, err)
	defer large.Close()
	turns := 0
	c, err := Measure(t.Context(), large, 20, func(done, of int) { turns++; assert.Equal(t, turns, done) })
	require.NoError(t, err)
	assert.Equal(t, passSamples, turns)
	require.NoError(t, c.Validate())
	assert.Equal(t, []int{1, 20}, []int{c.Threads, c.Depth})
	s, err := large.Serve(engine.ServeOptions{Slots: 1 << 14, Lookup: -1, Apart: true})
	require.NoError(t, err)
	defer s.Close()
	c.AskMS, err = MeasureAsk(t.Context(), s.Local(1<<40), 0)
	require.NoError(t, err)
	assert.Less(t, c.AskMS, 1000.)
	w := Workload{Prompt: 20, Tokens: 5, Think: 5 * time.Millisecond, RTT: 2 * time.Millisecond, EdgeTPS: 1000,
		Budget: 0.5, Turned: 0.1}
	for _, mode := range Modes() {
		l := &Live{Large: large, Workload: w, Mode: mode,
			Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
				return s.Local(uint64(device)), func() {}, nil
			}}
		p, err := l.Run(t.Context(), 3, Window{20 * time.Millisecond, 250 * time.Millisecond})
		require.NoError(t, err)
		assert.Greater(t, p.Answers, 5, mode)
		assert.Equal(t, []int{3, 1}, []int{p.Devices, p.Gateways})
		low := 2. // the round trip
		if mode != Cloud {
			low = 5 // the passes of the small model
		}
		assert.GreaterOrEqual(t, p.P50, low, mode)
		assert.Positive(t, p.AsksPS)
		assert.Empty(t, l.sessions)
	}
}
