package routing_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

var (
	closedQuestions = flag.Int("closed-questions", 40, "questions or prompts that are decoded in closed loop")
	closedRouter    = flag.String("closed-router", "",
		"router file for the demo's questions, in place of the shipped one")
)

// demoPairs opens the demo's models n times.
func demoPairs(t testing.TB, n int) (all []duo) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string, b []byte) *follower {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b, 0o600))
		e, err := engine.Open(path, engine.Options{Threads: 1})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, e.Close()) })
		return newFollower(t, e)
	}
	for range n {
		all = append(all, duo{open("small.gguf", demo.Small()), open("large.gguf", demo.Large())})
	}
	return all
}

// readNet reads a router file, or returns the demo's router.
func readNet(t testing.TB, path string) *router.Net {
	t.Helper()
	b := demo.Router()
	if path != "" {
		var err error
		b, err = os.ReadFile(path)
		require.NoError(t, err)
	}
	f, err := gguf.Parse(b)
	require.NoError(t, err)
	n, err := router.ReadNet(f)
	require.NoError(t, err)
	return n
}

// TestDemoClosedLoop decodes held-out questions at several thresholds of each policy. The area under the curve of
// accuracy over the share of tokens from the large model, up to a share of 7%, is for the router at least that of the
// better of margin and entropy, within the uncertainty of so few questions, and above that of random. -closed-questions
// 400 -v prints the table of bench/demo/README.md.
func TestDemoClosedLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("decodes thousands of texts: make long")
	}
	const budget = 0.07
	x := texts{duos: demoPairs(t, 2), limit: 60}
	questions := demo.Questions(demo.HeldOut)[:*closedQuestions]
	tok := x.duos[0].small.tok
	for _, q := range questions {
		ids, err := tok.Chat([]tokenizer.Message{{Role: "user", Content: q.Text}}, nil)
		require.NoError(t, err)
		x.prompts = append(x.prompts, ids)
	}
	x.worth = func(i int, w walk) (float64, float64) {
		if questions[i].Correct(tok.Decode(w.ids[w.prompt:])) {
			return 1, 1
		}
		return 0, 1
	}
	shares := []float64{0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.07}
	area := func(c curve) float64 { return c.area(budget) }
	alone := x.alone(t)
	sweeps := map[router.Policy]sweep{}
	for _, o := range []router.Options{
		{Policy: router.Learned, Net: readNet(t, *closedRouter)}, {Policy: router.Margin}, {Policy: router.Entropy},
		{Policy: router.Random, Seed: 1},
	} {
		at := x.thresholds(t, o, shares)
		sweeps[o.Policy] = x.sweep(t, o, at).and(alone)
		c := sweeps[o.Policy].curveOf(every(len(x.prompts)))
		t.Logf("%-8s area up to %.0f%%: %.4f, up to 100%%: %.4f; share, accuracy: %.4f",
			o.Policy, 100*budget, area(c), c.area(1), c)
	}
	for _, p := range []router.Policy{router.Margin, router.Entropy, router.Random} {
		d := bootstrap(sweeps[router.Learned], sweeps[p], area)
		t.Logf("learned minus %s: %+.4f (%+.4f to %+.4f)", p, d.mean, d.low, d.high)
		if p == router.Random {
			assert.Positive(t, d.low, "better than chance")
		} else {
			assert.GreaterOrEqual(t, d.high, 0.0, "not worse than %s", p)
			assert.Greater(t, d.mean, -0.02, "not worse than %s", p)
		}
	}
}
