//go:build live

package routing

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestLiveUpstream compares an engine that serves bench/demo/large.gguf, at the URL in PILOTFISH_UPSTREAM, with the
// built-in engine: on 100 questions, in each mode, cold and again. A token may differ only if the two best logits are
// closer than 1e-3; such tokens are logged.
func TestLiveUpstream(t *testing.T) {
	url := os.Getenv("PILOTFISH_UPSTREAM")
	require.NotEmpty(t, url, "make upstream URL=http://HOST:PORT")
	p := openPair(t)
	built := p.local(t)
	const questions = 100
	for _, c := range []struct {
		round     string
		mode      draft.Mode
		threshold float64 // 1: each token is escalated
	}{
		{"serial, cold", draft.Serial, 0.8}, {"serial, warm", draft.Serial, 0.8}, {"pipelined", draft.Pipelined, 0.8},
		{"each token, serial", draft.Serial, 1}, {"each token, pipelined", draft.Pipelined, 1},
	} {
		s := p.stage(t, engine.UpstreamOptions{ // each time with an empty cache of answers
			URLs: []string{url}, Patience: time.Minute,
		})
		cloud, end, err := s.Dial(t.Context(), 0)
		require.NoError(t, err)
		asked, audited, missed, near := 0, 0, 0, 0
		for i, q := range demo.Questions(demo.HeldOut)[:questions] {
			want := p.decode(t, built, q.Text, c.threshold, draft.Options{Mode: draft.Serial})
			have := p.decode(t, cloud, q.Text, c.threshold, draft.Options{Mode: c.mode})
			asked, audited, missed = asked+have.sum.Answered, audited+have.sum.Audited, missed+have.sum.Missed
			require.Zero(t, have.sum.Timeouts)
			if at := firstOther(want, have); at >= 0 {
				gap := p.gap(t, q.Text, want.ids[:at])
				t.Logf("question %d, token %d: the two best are %.2g apart", i, at, gap)
				require.Less(t, gap, 1e-3)
				near++
			}
		}
		end()
		t.Logf("%s: %d questions, %d tokens asked for, %d audited, %d of these missed; %d texts differ where two "+
			"were close", c.round, questions, asked, audited, missed, near)
	}
}

// firstOther returns the index of the first token in which two texts differ; -1 if they are equal.
func firstOther(a, b said) int {
	for i := range max(len(a.ids), len(b.ids)) {
		if i >= len(a.ids) || i >= len(b.ids) || a.ids[i] != b.ids[i] || a.origins[i] != b.origins[i] {
			return i
		}
	}
	return -1
}

// gap returns the difference of the two best logits of the large model after a part of an answer.
func (p *pair) gap(t *testing.T, question string, part []int32) float64 {
	t.Helper()
	_, top, err := p.large.Logits(t.Context(), append(p.prompt(t, question), part...), 2)
	require.NoError(t, err)
	return float64(top[0].Logit - top[1].Logit)
}
