package replay

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestReplayIsTheRecording: replaying a mode over the recorded way gives the same text, and no shown token depends on
// an assumption.
func TestReplayIsTheRecording(t *testing.T) {
	racing.Spare(t)
	for _, name := range wayNames() {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds(30) {
				var b bytes.Buffer
				w, rec := newWorld(t, seed, &b)
				want := w.records(t, rec, "a", 3, 0.5, ways()[name])
				p := player(t, rec, &b)
				got, text, _ := replays(t, p, Of{Mode: "a", Question: 3}, Terms{}, 0.5, ways()[name])
				if name == "serial" {
					require.Equal(t, want.sum.Asks, got.sum.Asks)
					require.Zero(t, text.Assumed)
				}
				if name != "deadline" { // the answers that come too late are others
					require.Equal(t, want.ids, got.ids)
					require.Zero(t, text.Assumed.Text)
				}
			}
		})
	}
}

// seeds returns the number of random worlds: fewer with -short, for the race detector.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 6
	}
	return n
}

// TestOverAnyLink: over every link, and with other numbers of branches, the text and its origins are the recorded ones,
// and a replay is repeatable.
func TestOverAnyLink(t *testing.T) {
	racing.Spare(t)
	for seed := range seeds(40) {
		var b bytes.Buffer
		w, rec := newWorld(t, seed, &b)
		want := w.records(t, rec, "a", 1, 0.5, ways()["serial"])
		w.records(t, rec, "b", 1, 0.5, ways()["pipelined"])
		large := w.records(t, rec, "c", 1, 0.5, ways()["verified"])
		p := player(t, rec, &b)
		r := rand.New(rand.NewPCG(seed, 9))
		for range 4 {
			terms := Terms{Link: linkOf(time.Duration(r.IntN(400))*ms, 0.3*r.Float64(), r.Uint64())}
			if r.IntN(2) == 0 {
				terms.EdgeTPS, terms.RowCost = 20+200*r.Float64(), r.Float64()
			}
			set := func(o *draft.Options) {
				o.Branches, o.InFlight, o.Ahead = 1+int(seed%5), 1+int(seed%4), 4*int(seed%3)
			}
			got, text, took := replays(t, p, Of{Mode: "pipelined-7", Question: 1}, terms, 0.5, set)
			require.Equal(t, want.ids, got.ids)
			require.Equal(t, want.origins, got.origins)
			require.Zero(t, text.Assumed.Text)
			again, text2, took2 := replays(t, p, Of{Mode: "pipelined-7", Question: 1}, terms, 0.5, set)
			require.Equal(t, got.events, again.events)
			require.Equal(t, text.Assumed, text2.Assumed)
			require.Equal(t, took, took2)
			got, _, _ = replays(t, p, Of{Mode: "v", Question: 1}, terms, 0.5, ways()["verified"])
			require.Equal(t, large.ids, got.ids)
		}
	}
}
