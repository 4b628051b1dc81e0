package routing

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// TestRoutingDevices: each mode uses the given number of devices, each with its own connection, which is closed. There
// are never more devices than questions; the default is eight.
func TestRoutingDevices(t *testing.T) {
	edge := tiny(t, nil)
	stage := openStage(t, edge, edge, remote.StageOptions{})
	var questions []task.Question
	for i := range 10 {
		questions = append(questions, task.Question{Text: strconv.Itoa(i)})
	}
	for parallel, want := range map[int]int{0: 8, 3: 3, 10: 10, 64: 10} {
		var mu sync.Mutex
		var devices []int
		ended := 0
		_, err := Measure(t.Context(), Options{
			Edge: edge, Large: edge, Questions: questions, Modes: modes(t, "serial"), Parallel: parallel, MaxTokens: 2,
			Router: router.Options{Policy: router.Always}, Draft: draft.Options{Deadline: -1}, Direct: stage.Direct(),
			Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
				mu.Lock()
				defer mu.Unlock()
				devices = append(devices, device)
				return stage.Direct(), func() {
					mu.Lock()
					defer mu.Unlock()
					ended++
				}, nil
			},
		})
		require.NoError(t, err)
		slices.Sort(devices)
		var numbers []int
		for n := range want {
			numbers = append(numbers, n)
		}
		assert.Equal(t, numbers, devices)
		assert.Equal(t, want, ended)
	}
	busy := errors.New("no line")
	_, err := Measure(t.Context(), Options{
		Edge: edge, Large: edge, Questions: questions, Modes: modes(t, "serial"),
		Router: router.Options{Policy: router.Always}, Direct: stage.Direct(),
		Dial: func(context.Context, int) (draft.Cloud, func(), error) { return nil, nil, busy },
	})
	assert.ErrorIs(t, err, busy)
}

// generatedIDs returns the answer of a model to a question, with at most maxTokens tokens.
func generatedIDs(t *testing.T, e *engine.Engine, question string, maxTokens int) (ids []int32) {
	t.Helper()
	prompt, err := e.Chat(tokenizer.Message{Role: "user", Content: question})
	require.NoError(t, err)
	s, err := e.NewSession()
	require.NoError(t, err)
	for tok, err := range s.Generate(t.Context(), prompt, terms.Settings{MaxTokens: maxTokens}) {
		require.NoError(t, err)
		ids = append(ids, tok.ID)
	}
	return ids
}

// TestTextsOfModes: the small model alone gives its own text. Where every token is escalated, in any mode, the text is
// the large model's.
func TestTextsOfModes(t *testing.T) {
	racing.Spare(t)
	edge, large := tiny(t, nil), tiny(t, func(s *synth.Spec) { s.Layers = 3 })
	stage := openStage(t, edge, large, remote.StageOptions{})
	const maxTokens = 12
	right := task.JudgeBy(func(string) bool { return true })
	questions := []task.Question{{Text: "who?"}, {Text: "where is it <|im_end|> or not?", Grade: right}, {Text: "why?"}}
	w, err := remote.StartWeb(large, stage.Direct(), 0)
	require.NoError(t, err)
	defer w.Close()
	calls := 0
	b := &measurement{web: w, total: 15, Options: Options{
		Edge: edge, Large: large, Questions: questions,
		Modes: modes(t, "local", "cloud", "paper", "serial", "pipelined-2"), Parallel: 2, MaxTokens: maxTokens,
		Router: router.Options{Policy: router.Always}, Draft: draft.Options{Deadline: -1}, Dial: stage.Dial,
		Progress: func(done, total int) {
			calls++
			assert.Equal(t, calls, done)
			assert.Equal(t, 15, total)
		},
	}}
	together, err := b.answerRounds(t.Context(), b.Modes, 3, 0)
	require.NoError(t, err)
	require.Len(t, together, len(b.Modes))
	calls, b.done = 0, 0
	for n, m := range b.Modes {
		answers, err := b.answerRounds(t.Context(), []outcome.Mode{m}, 3, 0)
		require.NoError(t, err)
		require.Len(t, answers, 1)
		require.Len(t, answers[0], 3)
		for i, a := range answers[0] {
			assert.Equal(t, a.IDs, together[n][i].IDs, "the same when modes take turns")
			assert.Equal(t, a.Origins, together[n][i].Origins)
			want, origin := generatedIDs(t, large, questions[i].Text, maxTokens), "cloud"
			if m.Name == "local" {
				want, origin = generatedIDs(t, edge, questions[i].Text, maxTokens), "edge"
			}
			if m.Name == "paper" {
				// its text is tokenized again, differently: only the prompt is surely the same
				want, a.IDs, a.Origins = want[:1], a.IDs[:1], a.Origins[:1]
			}
			assert.Equal(t, want, a.IDs, "%s: %s", m.Name, questions[i].Text)
			if m.Name != "cloud" {
				assert.Equal(t, slices.Repeat([]string{origin}, len(want)), a.Origins, m.Name)
			}
			assert.Equal(t, i == 1, a.Known)
			assert.Equal(t, i == 1, a.Correct)
			assert.Positive(t, a.Took)
		}
	}
	assert.Equal(t, 15, calls)
}

// TestRoutingPaces: an answer takes at least the time that the paces of both models and the round trips of HTTP
// require, and has the max number of tokens.
func TestRoutingPaces(t *testing.T) {
	edge := tiny(t, nil)
	stage := openStage(t, edge, edge, remote.StageOptions{})
	run := func(mode string, edit func(*Options)) outcome.Report {
		o := Options{
			Edge: edge, Large: edge,
			Questions: []task.Question{{
				Text: "who?", Grade: task.JudgeBy(func(said string) bool { return said != "" }),
			}},
			Modes: modes(t, mode), Router: router.Options{Policy: router.Always},
			Draft: draft.Options{Deadline: -1}, Direct: stage.Direct(), Dial: stage.Dial, MaxTokens: 5,
		}
		edit(&o)
		reports := mustMeasure(t, o)
		assert.Equal(t, 1.0, reports[0].Accuracy.Value, "%s: the text is graded", mode)
		return reports[0]
	}
	local := run("local", func(*Options) {})
	require.Equal(t, 5*local.Answers, local.Sums.Tokens, "this model never generates an end token")
	assert.Equal(t, 64, run("local", func(o *Options) { o.MaxTokens = 0 }).Sums.Tokens,
		"without a limit")
	assert.Equal(t, 5, run("cloud", func(*Options) {}).Sums.Tokens)
	assert.GreaterOrEqual(t, run("local", func(o *Options) { o.EdgeTPS = 20 }).Time.P50, 4*50.0)
	assert.GreaterOrEqual(t, run("cloud", func(o *Options) { o.CloudPace = 40 * time.Millisecond }).Time.P50,
		5*40.0)
	assert.GreaterOrEqual(t, run("cloud", func(o *Options) { o.RTT = 150 * time.Millisecond }).Time.P50, 150.0)
	paper := run("paper", func(o *Options) { o.RTT = 40 * time.Millisecond })
	assert.GreaterOrEqual(t, paper.Time.P50, 5*40.0, "one round trip for each token")
	assert.GreaterOrEqual(t, paper.Rates()["asks"], 5.0)
	assert.Nil(t, paper.Differing)
}
