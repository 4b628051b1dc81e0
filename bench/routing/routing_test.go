package routing

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// tiny opens a random model. All random models have the same vocabulary.
func tiny(t *testing.T, edit func(*synth.Spec)) *engine.Engine {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	s := synth.Tiny(recipe, 4)
	if edit != nil {
		edit(&s)
	}
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	e, err := engine.New(f, "tiny", engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// openStage returns a stage that is closed after the test.
func openStage(t *testing.T, edge, large *engine.Engine, o remote.StageOptions) *remote.Stage {
	t.Helper()
	s, err := remote.NewStage(edge, large, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// mustMeasure is [Measure] without an error.
func mustMeasure(t *testing.T, o Options) []outcome.Report {
	t.Helper()
	reports, err := Measure(t.Context(), o)
	require.NoError(t, err)
	return reports
}

// await waits until there returns true, also on a busy machine; the timeout of go test ends it otherwise.
func await(there func() bool) {
	for !there() {
		time.Sleep(time.Millisecond)
	}
}

// modes parses a list.
func modes(t *testing.T, names ...string) []outcome.Mode {
	t.Helper()
	all, err := outcome.ParseModes(strings.Join(names, ","))
	require.NoError(t, err)
	return all
}

// evenQuestions returns ten questions, of which those with an even length have a correct answer.
func evenQuestions() (questions []task.Question) {
	for _, text := range strings.Fields("where does a nevgle live and what does it eat") {
		questions = append(questions, task.Question{
			Text: text, Grade: task.JudgeBy(func(string) bool { return len(text)%2 == 0 }),
		})
	}
	return questions
}

// TestRouting runs every mode over a bad link: routed modes give the tokens of serial decoding, also the one over HTTP,
// and the figures are consistent.
func TestRouting(t *testing.T) {
	before := runtime.NumGoroutine()
	edge, large := tiny(t, nil), tiny(t, func(s *synth.Spec) { s.Layers = 3 })
	stage, err := remote.NewStage(edge, large, remote.StageOptions{RTT: 6 * time.Millisecond, Loss: 0.05, Seed: 1})
	require.NoError(t, err)
	questions, reported := evenQuestions(), 0
	o := Options{
		Edge: edge, Large: large, Questions: questions, Parallel: 3, MaxTokens: 20, RTT: 6 * time.Millisecond,
		Modes:  modes(t, "local", "cloud", "paper", "serial", "pipelined-1", "pipelined-3"),
		Router: router.Options{Policy: router.Random, Threshold: new(0.25)},
		Draft:  draft.Options{Deadline: -1, Audit: true, Warm: 20}, Direct: stage.Direct(), Dial: stage.Dial,
		Progress: func(done, total int) {
			reported = done
			assert.Equal(t, 60, total)
		},
	}
	reports := mustMeasure(t, o)
	require.NoError(t, stage.Close())
	assert.Equal(t, 60, reported)
	require.Len(t, reports, 6)
	for i, r := range reports {
		assert.Equal(t, o.Modes[i].Name, r.Mode)
		assert.Equal(t, 10, r.Answers)
		assert.InDelta(t, 0.6, r.Accuracy.Value, 1e-9)
		assert.True(t, r.Accuracy.Low < 0.6 && r.Accuracy.High > 0.6)
		assert.True(t, r.Time.P50 <= r.Time.P90 && r.Time.P50 > 0)
	}
	assert.NotContains(t, reports[0].Rates(), "escalated_share")
	assert.NotContains(t, reports[1].Rates(), "hit_rate")
	prompts := 0
	for _, q := range questions {
		ids, err := edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
		require.NoError(t, err)
		prompts += len(ids)
	}
	alone := reports[1].Sums
	assert.Equal(t, prompts, alone.Prefilled, "the large model alone reads each prompt once")
	assert.Equal(t, alone.Decoded, alone.Tokens)
	assert.Greater(t, float64(reports[2].Sums.Prefilled), reports[2].Rates()["asks"]*float64(alone.Prefilled),
		"paper reads the whole text each time")
	for _, r := range reports[3:] {
		assert.Zero(t, *r.Differing, r.Mode)
		assert.Zero(t, r.Sums.Timeouts, r.Mode)
		assert.GreaterOrEqual(t, r.Rates()["asks"], reports[3].Rates()["asks"], "without deadlines all are sent")
		assert.InDelta(t, reports[3].Rates()["escalated_share"], r.Rates()["escalated_share"], 1e-9)
		assert.Positive(t, r.Rates()["bytes_up"])
		assert.Less(t, r.Rates()["bytes_up"], reports[2].Rates()["bytes_up"], "less than the whole text as JSON")
	}
	assert.Contains(t, reports[5].Rates(), "hit_rate")
	assert.Greater(t, reports[3].Time.Mean, reports[3].Rates()["asks"]*6, "serial waits for each answer")
	await(func() bool { return runtime.NumGoroutine() <= before+8 }) // the pools of the engines stay
}

// TestRoutingCounts: shares of tokens count tokens, and without answers there is no share of hits.
func TestRoutingCounts(t *testing.T) {
	edge, large := tiny(t, nil), tiny(t, func(s *synth.Spec) { s.Layers = 3 })
	for _, c := range []struct {
		name     string
		slow     time.Duration // time of the large model
		deadline time.Duration
		answered bool
	}{{"all are answered", 0, -1, true}, {"none is answered", time.Minute, 20 * time.Millisecond, false}} {
		t.Run(c.name, func(t *testing.T) {
			stage := openStage(t, edge, large, remote.StageOptions{AnswerTime: c.slow})
			reports, err := Measure(t.Context(), Options{
				Edge: edge, Large: large, Questions: []task.Question{{Text: "who?"}, {Text: "where?"}}, MaxTokens: 12,
				Modes:  modes(t, "paper", "serial", "pipelined-2"),
				Router: router.Options{Policy: router.Always}, Draft: draft.Options{Deadline: c.deadline},
				Direct: stage.Direct(), Dial: stage.Dial,
			})
			require.NoError(t, err)
			for _, r := range reports {
				share, timeouts := 0.0, r.Sums.Tokens
				if c.answered {
					share, timeouts = 1, 0
				}
				assert.Equal(t, share, r.Rates()["escalated_share"], r.Mode)
				assert.InDelta(t, timeouts, r.Sums.Timeouts, 2, "%s: not counting end tokens", r.Mode)
				for _, of := range []string{"bytes_up", "bytes_down"} {
					assert.Equal(t, c.answered, r.Rates()[of] > 0, r.Mode)
				}
				_, hidden := r.Rates()["hidden_share"]
				_, hits := r.Rates()["hit_rate"]
				assert.Equal(t, c.answered && r.Mode == "pipelined-2", hidden && hits, r.Mode)
			}
		})
	}
}

// TestRoutingInterrupted: questions that all modes have answered are reported together with the error, also if the last
// answer was the end.
func TestRoutingInterrupted(t *testing.T) {
	edge := tiny(t, nil)
	stage := openStage(t, edge, edge, remote.StageOptions{})
	for last, finished := range map[int]int{1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2} {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		reports, err := Measure(ctx, Options{
			Edge: edge, Large: edge, Questions: []task.Question{{Text: "a"}, {Text: "b"}},
			Modes: modes(t, "serial", "pipelined-1", "pipelined-2"), Router: router.Options{Policy: router.Always},
			Draft: draft.Options{Deadline: -1}, Direct: stage.Direct(), Dial: stage.Dial, MaxTokens: 5, Parallel: 1,
			Progress: func(done, _ int) {
				if done == last {
					cancel(stop)
				}
			},
		})
		require.Len(t, reports, min(1, finished)*3)
		assert.Equal(t, finished < 2, errors.Is(err, stop), "%v", err)
		for _, r := range reports {
			assert.Equal(t, finished, r.Answers)
			assert.Zero(t, *r.Differing)
		}
	}
}

// TestRoutingFails: an error of one device ends the measurement.
func TestRoutingFails(t *testing.T) {
	edge := tiny(t, nil)
	stage := openStage(t, edge, edge, remote.StageOptions{})
	o := Options{
		Edge: edge, Large: edge, Questions: []task.Question{{Text: strings.Repeat("too long ", 500)}},
		Modes: modes(t, "serial"), Router: router.Options{Policy: router.Always},
		Direct: stage.Direct(), Dial: stage.Dial,
	}
	_, err := Measure(t.Context(), o)
	assert.ErrorContains(t, err, "serial")
	assert.ErrorContains(t, err, "context")
}

func TestParseMode(t *testing.T) {
	for _, bad := range []string{"", "fast", "pipelined", "pipelined-0", "pipelined-x", "pipelined-65"} {
		_, err := outcome.ParseMode(bad)
		assert.ErrorContains(t, err, "pipelined-1", bad)
	}
}

// TestNeedsReference: the large model alone is asked if answers are compared with its text and no mode measures it.
func TestNeedsReference(t *testing.T) {
	assert.True(t, needsReference(modes(t, "local", "overlapped-2")))
	assert.True(t, needsReference(modes(t, "verified")))
	assert.False(t, needsReference(modes(t, "verified", "cloud")), "a mode measures it")
	assert.False(t, needsReference(modes(t, "serial", "verified:0.1")), "with a margin nothing is compared")
}

// TestSpelled: a text for HTTP has its special tokens, but not the first one if the other side adds it to each text.
func TestSpelled(t *testing.T) {
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	for _, adds := range []bool{false, true} {
		var b bytes.Buffer
		require.NoError(t, synth.Tiny(recipe, 4).Write(&b, nil))
		const key = "tokenizer.ggml.add_bos_token"
		if file := b.Bytes(); adds {
			file[bytes.Index(file, []byte(key))+len(key)+4] = 1
		}
		f, err := gguf.Parse(b.Bytes())
		require.NoError(t, err)
		tok, err := tokenizer.FromGGUF(f)
		require.NoError(t, err)
		require.Equal(t, adds, tok.AddBOS())
		for text, without := range map[string]string{"<|endoftext|>a é<|im_end|>b": "a é<|im_end|>b",
			"a<|endoftext|>b": "a<|endoftext|>b", "": ""} {
			want := text
			if adds {
				want = without
			}
			assert.Equal(t, want, spellTokens(tok, tok.Encode(text, true)), text)
		}
	}
}
