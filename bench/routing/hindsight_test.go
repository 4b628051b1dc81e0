package routing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestHindsight: verification that chooses when to ask is compared with the fixed choice that none of the others is
// faster than. Other modes, and fixed choices themselves, are not compared.
func TestHindsight(t *testing.T) {
	racing.Spare(t)
	r := records(t, 3, 1, "serial", "verified")
	replayed := func(every, branches, ahead int) ReplayOptions {
		o := r.options()
		o.Modes = modes(t, "verified", "serial")
		o.Link = &remote.StageOptions{RTT: 50 * time.Millisecond}
		o.EdgeTPS = 100
		o.Draft.VerifyEvery, o.Draft.Branches, o.Draft.Ahead = every, branches, ahead
		return o
	}
	reports, err := Replay(t.Context(), replayed(0, draft.AutoBranches, 0))
	require.NoError(t, err)
	best := reports[0].Hindsight
	require.NotNil(t, best)
	assert.Nil(t, reports[1].Hindsight)
	assert.True(t, *reports[0].EqualToCloud, "the recording has the large model's own text")
	for _, chosen := range []ReplayOptions{replayed(4, draft.AutoBranches, 0), replayed(0, draft.AutoBranches, 3)} {
		half, err := Replay(t.Context(), chosen)
		require.NoError(t, err)
		assert.Nil(t, half[0].Hindsight, "one of the choices is fixed")
	}
	two, err := Replay(t.Context(), replayed(0, 2, 0))
	require.NoError(t, err)
	assert.Equal(t, 2, two[0].Hindsight.Branches, "as many as given")
	for _, every := range fixedEvery {
		for _, branches := range fixedBranches {
			fixed, err := Replay(t.Context(), replayed(every, branches, draft.MostAhead))
			require.NoError(t, err)
			assert.Nil(t, fixed[0].Hindsight)
			over := reports[0].Time.Mean / fixed[0].Time.Mean
			assert.LessOrEqual(t, over, best.Over)
			if every == best.VerifyEvery && branches == best.Branches {
				assert.Equal(t, best.Over, over)
			}
		}
	}
}
