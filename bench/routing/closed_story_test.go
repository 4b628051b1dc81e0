package routing_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/train"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

var (
	closedStories = flag.Bool("closed-stories", false,
		"train a router for the models that write stories, and compare it in closed loop")
	storyPrompts = flag.Int("story-prompts", 300, "beginnings of stories to learn from")
	storyWrite   = flag.String("story-write", "", "file to write these beginnings to, as router collect takes them")
	storyRounds  = flag.Int("story-rounds", 2, "rounds of training: all but the first on routed texts too")
	storyHidden  = flag.Int("story-hidden", 128, "its hidden units")
)

const storyTokens = 120 // of an answer

// storyPair opens the models that write stories n times.
func storyPair(t testing.TB, n int) (all []duo) {
	t.Helper()
	open := func(name string) *follower {
		e, err := engine.Open(sharedtest.Shared(t, "data", "models", name), engine.Options{Threads: 1})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, e.Close()) })
		return newFollower(t, e)
	}
	for range n {
		all = append(all, duo{open("stories-weak-qwen2-f32.gguf"), open("stories260k-qwen2-f32.gguf")})
	}
	return all
}

// beginnings draws n different beginnings of stories from the large model, of 2 to about 30 words, none of them in
// taken.
func beginnings(t testing.TB, large *engine.Engine, n int, seed uint64, taken map[string]bool) (all []string) {
	t.Helper()
	starts := []string{" Once upon a time", " One day", " There was a", " Tom", " Lily", " The"}
	s, err := large.NewSession()
	require.NoError(t, err)
	for draw := uint64(0); len(all) < n; draw++ {
		text := starts[int(draw)%len(starts)]
		ids, err := large.RawPrompt(text)
		require.NoError(t, err)
		sampling := terms.Sampling{Temperature: 1, Seed: seed<<32 + draw}
		r := terms.Settings{MaxTokens: 8 + int(draw*7%33)}.With(sampling)
		for token, err := range s.Generate(t.Context(), ids, r) {
			require.NoError(t, err)
			text += token.Text
		}
		text = text[:strings.LastIndexByte(text, ' ')]
		if !taken[text] {
			taken[text] = true
			all = append(all, text)
		}
	}
	return all
}

// questionsOf returns a workload of texts to continue.
func questionsOf(t testing.TB, all []string) *task.Set {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, text := range all {
		require.NoError(t, e.Encode(map[string]string{"question": text}))
	}
	if *storyWrite != "" {
		require.NoError(t, os.WriteFile(*storyWrite, b.Bytes(), 0o600))
	}
	set, err := task.Read(&b, "stories")
	require.NoError(t, err)
	return set
}

// school trains routers for a pair.
type school struct {
	t       testing.TB
	d       duo
	data    *task.Set
	folders []train.Folder
}

// collect adds traces with one kind of answers.
func (s *school) collect(reference collect.Reference, o router.Options) {
	service, err := s.d.large.e.Serve(engine.ServeOptions{})
	require.NoError(s.t, err)
	defer service.Close()
	plan, err := collect.NewPlan(collect.Options{
		Edge: s.d.small.e, Large: s.d.large.e, Far: service, Data: s.data, Raw: true,
		Reference: reference, Temperature: 1, MaxTokens: storyTokens,
		Labels: []string{collect.RuleDisagreement}, Router: o,
	})
	require.NoError(s.t, err)
	dir := filepath.Join(s.t.TempDir(), "traces")
	_, err = plan.Run(s.t.Context(), dir, nil)
	require.NoError(s.t, err)
	set, err := trace.Open(dir)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { assert.NoError(s.t, set.Close()) })
	s.folders = append(s.folders, train.Folder{Name: fmt.Sprintf("%s %d", reference, len(s.folders)), Set: set})
}

// train trains a router on all traces.
func (s *school) train() (*train.Traces, *train.Result) {
	src, err := train.NewTraces(s.folders, collect.RuleDisagreement)
	require.NoError(s.t, err)
	r, err := train.Train(s.t.Context(), src, train.Options{
		Hidden: *storyHidden, Threads: 2,
	})
	require.NoError(s.t, err)
	s.t.Logf("%d texts: %d positions, %.1f%% to escalate; "+
		"held back: AUC %.4f, cross-entropy %.4f, calibration error %.4f",
		len(s.folders), r.Positions, 100*r.Escalate, r.AUC, r.Loss, r.Calibration)
	return src, r
}

// TestStoryClosedLoop trains a router for the two models that write stories, and continues other beginnings of stories
// at several thresholds of each policy. It compares the share of tokens that the large model would choose after the
// tokens before them, at equal shares of tokens from the large model. -story-prompts 1500 -closed-questions 200
// -story-rounds 3 -v prints the figures of bench/RESULTS.md; it runs only with -closed-stories.
func TestStoryClosedLoop(t *testing.T) {
	if !*closedStories {
		t.Skip("a study of more than half a minute: make stories")
	}
	x := texts{duos: storyPair(t, 2), limit: storyTokens}
	x.worth = func(_ int, w walk) (float64, float64) { return float64(w.agree), float64(w.tokens()) }
	taken := map[string]bool{}
	s := &school{t: t, d: x.duos[0]}
	s.data = questionsOf(t, beginnings(t, s.d.large.e, *storyPrompts, 1, taken))
	for _, text := range beginnings(t, s.d.large.e, *closedQuestions, 2, taken) {
		ids, err := s.d.large.e.RawPrompt(text)
		require.NoError(t, err)
		x.prompts = append(x.prompts, ids)
	}
	s.collect(collect.Large, router.Options{})
	src, made := s.train()
	for round := 2; round <= *storyRounds; round++ {
		at := router.Rank(train.Judge(src, made.HeldOut.Rows, made.Net, 2)).Threshold(0.2)
		s.collect(collect.Routed, router.Options{Policy: router.Learned, Net: made.Net, Threshold: &at})
		src, made = s.train()
	}
	alone := x.alone(t)
	shares := []float64{0.04, 0.07, 0.1, 0.13, 0.17, 0.22, 0.28, 0.35, 0.45}
	sweeps := map[router.Policy]sweep{}
	for _, o := range []router.Options{
		{Policy: router.Learned, Net: made.Net}, {Policy: router.Margin}, {Policy: router.Entropy},
		{Policy: router.Random, Seed: 1},
	} {
		sweeps[o.Policy] = x.sweep(t, o, x.thresholds(t, o, shares)).and(alone)
		c := sweeps[o.Policy].curveOf(every(len(x.prompts)))
		t.Logf("%-8s at 10%%: %.4f, 20%%: %.4f, 30%%: %.4f; %.4f", o.Policy, c.at(0.1), c.at(0.2), c.at(0.3), c)
	}
	for _, p := range []router.Policy{router.Margin, router.Entropy, router.Random} {
		for _, share := range []float64{0.1, 0.2, 0.3} {
			d := bootstrap(sweeps[router.Learned], sweeps[p], func(c curve) float64 { return c.at(share) })
			t.Logf("learned minus %-8s at %.0f%%: %+.4f (%+.4f to %+.4f)", p, 100*share, d.mean, d.low, d.high)
			assert.Positive(t, d.high, "not significantly worse than %s at %v", p, share)
			if p == router.Random {
				assert.Positive(t, d.low, "better than chance at %v", share)
			}
		}
	}
}
