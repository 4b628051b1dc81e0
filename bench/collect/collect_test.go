package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// textOf returns the text of a prompt of a set.
func textOf(t testing.TB, o *Options, set *trace.Set, number int) (prompt, answer []int32) {
	prompt, err := o.Edge.Chat(tokenizer.Message{Role: "user", Content: o.Data.Questions[number].Text})
	require.NoError(t, err)
	about, from, to := set.Prompt(number)
	require.Equal(t, len(prompt), about.Tokens)
	for i := from; i < to; i++ {
		answer = append(answer, set.At(i).Reference)
	}
	return prompt, answer
}

// generated returns the tokens that a model generates after a text, up to the end token, decoded by the engine alone.
func generated(t testing.TB, e *engine.Engine, text []int32, maxTokens int, s terms.Sampling) []int32 {
	session, err := e.NewSession()
	require.NoError(t, err)
	tokens, err := e.Tokenizer()
	require.NoError(t, err)
	text = append([]int32(nil), text...)
	var all []int32
	r := terms.Settings{MaxTokens: maxTokens, IgnoreEnd: true}.With(s)
	for tok, err := range session.Generate(t.Context(), text, r) {
		require.NoError(t, err)
		if all = append(all, tok.ID); tokens.IsEnd(tok.ID) {
			break
		}
	}
	return all
}

// TestPositions: each position holds the predictions of both models for the tokens before it.
func TestPositions(t *testing.T) {
	racing.Spare(t)
	o := demoOptions(t, 3, engine.Options{})
	for _, reference := range references() {
		o.Reference = reference
		set, sum := gather(t, o)
		require.Positive(t, set.Len())
		assert.Equal(t, set.Len(), sum.Positions)
		for number := range 3 {
			prompt, answer := textOf(t, &o, set, number)
			_, from, _ := set.Prompt(number)
			for _, j := range []int{0, 4, len(answer) - 1} {
				p := set.At(from + j)
				text := append(append([]int32(nil), prompt...), answer[:j]...)
				assert.EqualValues(t, number, p.Prompt)
				assert.EqualValues(t, len(text), p.Pos)
				small, logits := head(t, o.Edge, text)
				assert.Equal(t, small.Top[0].ID, p.Small)
				assert.InDelta(t, logOf(logits, p.Small), p.SmallLogProb, 1e-4)
				assert.InDelta(t, logOf(logits, p.Reference), p.ReferenceSmall, 1e-4)
				margin := math.Exp(logOf(logits, small.Top[0].ID)) - math.Exp(logOf(logits, small.Top[1].ID))
				assert.InDelta(t, margin, p.Margin, 1e-4)
				assert.InDelta(t, entropy(logits), p.Entropy, 1e-3)
				large, logits := head(t, o.Large, text)
				assert.Equal(t, large.Top[0].ID, p.Large)
				assert.InDelta(t, logOf(logits, p.Large), p.LargeLogProb, 1e-4)
				assert.InDelta(t, logOf(logits, p.Reference), p.ReferenceLarge, 1e-4)
			}
		}
	}
}

func head(t testing.TB, e *engine.Engine, text []int32) (*backend.Output, []float32) {
	logits, top, err := e.Logits(t.Context(), text, 2)
	require.NoError(t, err)
	return &backend.Output{Top: top}, logits
}

// logOf returns the log-probability of a token.
func logOf(logits []float32, id int32) float64 {
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - float64(logits[id]))
	}
	return -math.Log(sum)
}

func entropy(logits []float32) (sum float64) {
	for id := range logits {
		l := logOf(logits, int32(id))
		sum -= l * math.Exp(l)
	}
	return sum
}

// TestReferences: each kind of answer is what it should be, with its end token.
func TestReferences(t *testing.T) {
	racing.Spare(t)
	o := demoOptions(t, 4, engine.Options{})
	tokens, err := o.Edge.Tokenizer()
	require.NoError(t, err)
	end, _ := tokens.EOS()
	policy, err := router.New(o.Router)
	require.NoError(t, err)
	sampled := map[string]bool{}
	o.Labels = nil
	for _, reference := range references() {
		o.Reference = reference
		set, _ := gather(t, o)
		assert.Equal(t, string(reference), set.Settings().Reference)
		for number, q := range o.Data.Questions {
			prompt, answer := textOf(t, &o, set, number)
			about, _, _ := set.Prompt(number)
			assert.True(t, about.Graded)
			assert.Zero(t, about.Rollouts+about.RolloutTokens, "no rollouts without labels")
			whole := tokens.IsEnd(answer[len(answer)-1]) // otherwise it was cut, before its conclusion
			assert.Equal(t, whole && q.Grade(tokens.Decode(answer[:len(answer)-1])) == task.Right, about.Right)
			switch reference {
			case Given:
				assert.Equal(t, append(tokens.Encode(q.Reference, false), end), answer)
			case Large:
				assert.Equal(t, generated(t, o.Large, prompt, 64, terms.Sampling{}), answer)
			case Sampled:
				s := terms.Sampling{Temperature: 2, Seed: promptSeed(3, number)}
				assert.Equal(t, generated(t, o.Large, prompt, 64, s), answer)
				sampled[tokens.Decode(answer)] = true
			case Routed:
				s, err := o.Edge.NewSession()
				require.NoError(t, err)
				far, done, err := o.Far.Session(t.Context())
				require.NoError(t, err)
				var want []int32
				cloud := 0
				for tok, err := range s.Routed(t.Context(), prompt, engine.Route{
					Settings: terms.Settings{MaxTokens: 64}, Router: policy, Cloud: far,
					Draft: engine.DraftOptions{Mode: engine.Serial, Deadline: -1},
				}) {
					require.NoError(t, err)
					if want = append(want, tok.ID); tok.Origin == "cloud" {
						cloud++
					}
				}
				done()
				assert.Equal(t, want, answer[:len(answer)-1])
				assert.True(t, tokens.IsEnd(answer[len(answer)-1]))
				assert.Contains(t, []int{cloud, cloud + 1}, about.Cloud,
					"and the end token, if the large model chose it")
			}
		}
	}
	assert.Len(t, sampled, 4)
	assert.NotEqual(t, promptSeed(3, 1), promptSeed(4, 1))
}

// TestGateway: a large model at a gateway gives the same traces as a local one, except for probabilities that an audit
// does not report.
func TestGateway(t *testing.T) {
	prompts, references := 3, references()
	if testing.Short() {
		prompts, references = 2, []Reference{Sampled, Routed}
	}
	here := demoOptions(t, prompts, engine.Options{})
	here.MaxTokens = 42
	there := viaGateway(t, here)
	for _, reference := range references {
		here.Reference, there.Reference = reference, reference
		want, sum := gather(t, here)
		got, summed := gather(t, there)
		require.Equal(t, want.Len(), got.Len())
		a, b := make([]float32, want.Width()), make([]float32, want.Width())
		reported := 0
		for i := range want.Len() {
			x, y := want.At(i), got.At(i)
			want.Hidden(a, i)
			got.Hidden(b, i)
			require.Equal(t, a, b)
			require.True(t, math.IsNaN(float64(y.ReferenceLarge)))
			if x.Large == x.Reference {
				require.True(t, math.IsNaN(float64(y.LargeLogProb)))
			} else {
				require.InDelta(t, x.LargeLogProb, y.LargeLogProb, 0.01)
				reported++
			}
			y.LargeLogProb, y.ReferenceLarge = x.LargeLogProb, x.ReferenceLarge
			require.Equal(t, x, y)
		}
		if reference == Sampled {
			assert.Positive(t, reported)
		}
		for p := range want.Prompts() {
			x, _, _ := want.Prompt(p)
			y, _, _ := got.Prompt(p)
			require.Equal(t, x, y)
		}
		summed.Hash, summed.Bytes = sum.Hash, sum.Bytes
		assert.Equal(t, sum, summed)
		assert.Equal(t, here.Large.Name(), got.Settings().Large.Name)
		assert.Empty(t, got.Settings().Large.Fingerprint)
		assert.Equal(t, 512, got.Settings().Large.Context)
	}
}

// TestSameBytes: a text does not depend on how many texts are made at the same time.
func TestSameBytes(t *testing.T) {
	racing.Spare(t)
	o := demoOptions(t, 9, engine.Options{})
	o.Reference, o.MaxTokens = Sampled, 16
	first := ""
	for _, parallel := range []int{1, 2, 20} {
		o.Parallel = parallel
		path := newFile(t)
		_, err := plan(t, o).Run(t.Context(), path, nil)
		require.NoError(t, err)
		if first == "" {
			first = bytesOf(t, path)
		}
		require.Equal(t, first, bytesOf(t, path))
	}
}

// TestStopped: a run that is stopped after any number of prompts and started again produces the same bytes. It has lost
// only texts in progress, and those that wait for them.
func TestStopped(t *testing.T) {
	o := demoOptions(t, 7, engine.Options{})
	whole := newFile(t)
	_, err := plan(t, o).Run(t.Context(), whole, nil)
	require.NoError(t, err)
	enough := errors.New("enough")
	for stop, parallel := range map[int]int{0: 1, 2: 1, 5: 3, 7: 1} {
		o.Parallel = parallel
		path := newFile(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := plan(t, o).Run(ctx, path, func(done, total int) {
			assert.Equal(t, 7, total)
			if done == stop {
				cancel(enough)
			}
		})
		if stop < 6 || err != nil { // the last text may be complete
			require.ErrorIs(t, err, enough)
		}
		first := -1
		_, err = plan(t, o).Run(t.Context(), path, func(done, _ int) {
			if first < 0 {
				first = done
			}
		})
		require.NoError(t, err)
		require.Equal(t, bytesOf(t, whole), bytesOf(t, path))
		if parallel == 1 {
			require.GreaterOrEqual(t, first, stop)
		} else {
			require.Greater(t, first, stop-mostAhead*parallel)
		}
	}
}

// TestKilled: the same holds for a run that the system kills. The test runs itself as a child process.
func TestKilled(t *testing.T) {
	o := demoOptions(t, 7, engine.Options{})
	o.Parallel = 2
	if path := os.Getenv("COLLECT_INTO"); path != "" {
		at, err := strconv.Atoi(os.Getenv("COLLECT_KILLED_AT"))
		require.NoError(t, err)
		_, err = plan(t, o).Run(t.Context(), path, func(done, _ int) {
			if done >= at {
				self, err := os.FindProcess(os.Getpid())
				require.NoError(t, err)
				require.NoError(t, self.Kill())
				select {}
			}
		})
		t.Fatal("still alive:", err)
	}
	whole, path := newFile(t), newFile(t)
	_, err := plan(t, o).Run(t.Context(), whole, nil)
	require.NoError(t, err)
	for _, at := range []int{4, 6} {
		c := exec.Command(os.Args[0], "-test.run=^TestKilled$", "-test.timeout=60s")
		c.Env = append(os.Environ(), "COLLECT_INTO="+path, fmt.Sprint("COLLECT_KILLED_AT=", at))
		out, err := c.CombinedOutput()
		require.Error(t, err)
		require.NotContains(t, string(out), "FAIL", "%s", out)
	}
	_, err = trace.Open(path)
	require.ErrorIs(t, err, trace.ErrIncomplete)
	_, err = plan(t, o).Run(t.Context(), path, nil)
	require.NoError(t, err)
	assert.Equal(t, bytesOf(t, whole), bytesOf(t, path))
}

// TestLongTexts: a text that does not fit is cut or left out, and counted.
func TestLongTexts(t *testing.T) {
	o := demoOptions(t, 6, engine.Options{})
	var lengths []int
	for _, q := range o.Data.Questions {
		ids, err := o.Edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
		require.NoError(t, err)
		lengths = append(lengths, len(ids))
	}
	limit := lengths[2] // no room for the third
	for _, side := range []string{"edge", "large"} {
		narrow := engine.Options{Context: limit}
		c := o
		if side == "edge" {
			c.Edge = open(t, demo.Small(), narrow)
		} else {
			c.Large = open(t, demo.Large(), narrow)
		}
		for _, reference := range []Reference{Given, Large, Sampled} {
			c.Reference = reference
			set, sum := gather(t, c)
			out, cut := 0, 0
			for number, n := range lengths {
				about, from, to := set.Prompt(number)
				assert.Equal(t, n, about.Tokens)
				assert.Equal(t, n >= limit, about.LeftOut)
				assert.LessOrEqual(t, to-from, max(0, limit-n))
				if about.LeftOut {
					out++
					assert.False(t, about.Cut)
					assert.Zero(t, to-from)
				} else if to-from == limit-n && about.Cut {
					cut++
				} else {
					assert.Less(t, to-from, limit-n)
				}
			}
			assert.Positive(t, out)
			assert.Equal(t, out, sum.LeftOut)
			assert.Equal(t, cut, sum.Cut)
		}
	}
	o.Reference, o.MaxTokens = Given, 5
	set, sum := gather(t, o)
	assert.Equal(t, 6, sum.Cut)
	assert.Equal(t, 30, set.Len())
	assert.Equal(t, 6, sum.Right, "the given answer is complete")
	o.Reference = Large
	_, sum = gather(t, o)
	assert.Equal(t, 6, sum.Cut)
	assert.Equal(t, 30, sum.Positions)
	assert.Zero(t, sum.Right)
}

// TestExactRoom: an answer that ends exactly at the end of the context is not cut.
func TestExactRoom(t *testing.T) {
	racing.Spare(t)
	o := demoOptions(t, 1, engine.Options{})
	o.Temperature = 0.5
	for _, reference := range references() {
		o.Reference, o.MaxTokens = reference, 64
		set, sum := gather(t, o)
		require.Zero(t, sum.Cut)
		for less := range 2 {
			o.MaxTokens = set.Len() - less
			got, sum := gather(t, o)
			assert.Equal(t, less, sum.Cut, reference)
			assert.Equal(t, set.Len()-less, got.Len(), reference)
		}
	}
}

// TestRaw: questions can be raw texts to continue.
func TestRaw(t *testing.T) {
	o := demoOptions(t, 2, engine.Options{})
	o.Raw, o.Reference, o.MaxTokens = true, Large, 6
	set, _ := gather(t, o)
	assert.True(t, set.Settings().Raw)
	for number, q := range o.Data.Questions {
		prompt, err := o.Edge.RawPrompt(q.Text)
		require.NoError(t, err)
		about, from, to := set.Prompt(number)
		assert.Equal(t, len(prompt), about.Tokens)
		var answer []int32
		for i := from; i < to; i++ {
			answer = append(answer, set.At(i).Reference)
		}
		assert.Equal(t, generated(t, o.Large, prompt, 6, terms.Sampling{}), answer)
	}
}

// TestFollow: a given answer follows its question after a space if the set asks for one.
func TestFollow(t *testing.T) {
	racing.Spare(t)
	o := demoOptions(t, 1, engine.Options{})
	path := filepath.Join(held.TempDir(t), "q.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"question":"One and one?","answer":"2\n#### 2"}`), 0o600))
	var err error
	o.Data, err = task.Open(task.GSM8K, task.Options{Data: path})
	require.NoError(t, err)
	tokens, err := o.Edge.Tokenizer()
	require.NoError(t, err)
	for raw, before := range map[bool]string{false: "", true: " "} {
		o.Raw = raw
		set, sum := gather(t, o)
		var answer []int32
		for i := range set.Len() - 1 {
			answer = append(answer, set.At(i).Reference)
		}
		assert.Equal(t, before+o.Data.Questions[0].Reference, tokens.Decode(answer))
		assert.Equal(t, 1, sum.Right)
	}
	// a raw question may have an answer of its own, and the other one is still graded
	o.Data.Questions[0].RawReference = "a raw answer"
	for raw, want := range map[bool]string{false: o.Data.Questions[0].Reference, true: " a raw answer"} {
		o.Raw = raw
		set, sum := gather(t, o)
		var answer []int32
		for i := range set.Len() - 1 {
			answer = append(answer, set.At(i).Reference)
		}
		assert.Equal(t, want, tokens.Decode(answer))
		assert.Equal(t, 1, sum.Right)
	}
}

// TestShots: worked examples come before each question.
func TestShots(t *testing.T) {
	o := demoOptions(t, 1, engine.Options{})
	shot := task.Question{Text: "Who?", Reference: "Nobody."}
	o.Data.Shots = []task.Question{shot}
	set, _ := gather(t, o)
	prompt, err := o.Edge.Chat(tokenizer.Message{Role: "user", Content: shot.Text},
		tokenizer.Message{Role: "assistant", Content: shot.Reference},
		tokenizer.Message{Role: "user", Content: o.Data.Questions[0].Text})
	require.NoError(t, err)
	about, _, _ := set.Prompt(0)
	assert.Equal(t, len(prompt), about.Tokens)
	assert.Equal(t, 1, set.Settings().Shots)
}

// TestFailure: an error names the question, and all goroutines have ended when Run returns.
func TestFailure(t *testing.T) {
	o := demoOptions(t, 5, engine.Options{})
	o.Reference = Large
	p := plan(t, o)
	require.NoError(t, o.Large.Close())
	_, err := p.Run(t.Context(), newFile(t), nil)
	assert.ErrorIs(t, err, engine.ErrClosed)
}

// TestFailureNamed: an error names its question, and ends the other texts.
func TestFailureNamed(t *testing.T) {
	o := demoOptions(t, 4, engine.Options{})
	o.Reference, o.Labels, o.Parallel = Given, nil, 4
	wrong := errors.New("wrong")
	begun := make(chan struct{})
	o.Data.Questions[1].Run = func(context.Context, string) (bool, error) {
		<-begun
		return false, wrong
	}
	o.Data.Questions[3].Run = func(ctx context.Context, _ string) (bool, error) {
		close(begun)
		<-ctx.Done()
		return false, context.Cause(ctx)
	}
	_, err := plan(t, o).Run(t.Context(), newFile(t), nil)
	assert.ErrorIs(t, err, wrong)
	assert.ErrorContains(t, err, "question 2: ")
}
