package collect

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// walked returns the positions of a judged text by their definition, decoding every text from the start.
func walked(t testing.TB, o *Options, q task.Question, prompt []int32) (all []trace.Position) {
	tokens, err := o.Edge.Tokenizer()
	require.NoError(t, err)
	finish := func(answer []int32) []int32 {
		if n := len(answer); n > 0 && tokens.IsEnd(answer[n-1]) || n == o.MaxTokens {
			return answer
		}
		text := slices.Concat(prompt, answer)
		return append(answer, generated(t, o.Large, text, o.MaxTokens-len(answer), terms.Sampling{})...)
	}
	right := func(answer []int32) bool {
		cut := !tokens.IsEnd(answer[len(answer)-1])
		if !cut {
			answer = answer[:len(answer)-1]
		}
		v, err := q.Judge(context.Background(), tokens.Decode(answer), cut)
		require.NoError(t, err)
		return v == task.Right
	}
	answer, made := finish(nil), 0
	for at := 0; right(answer) && at < len(answer) && made < o.walkLimit; at++ {
		before := slices.Concat(prompt, answer[:at])
		out, small := head(t, o.Edge, before)
		p := trace.Position{Pos: int32(len(before)), Reference: answer[at], Small: out.Top[0].ID, Large: answer[at]}
		if p.Small == p.Large {
			continue
		}
		_, large := head(t, o.Large, before)
		p.SmallLogProb, p.LargeLogProb = float32(logOf(small, p.Small)), float32(logOf(large, p.Large))
		p.Margin = float32(math.Exp(logOf(large, p.Small) - logOf(large, p.Large)))
		p.Entropy = float32(entropy(large))
		p.Labels[0] = trace.Escalate
		other := finish(append(slices.Clone(answer[:at]), p.Small))
		if made += len(other) - at; right(other) {
			answer, p.Reference, p.Labels[0] = other, p.Small, trace.Keep
		}
		p.ReferenceSmall = float32(logOf(small, p.Reference))
		p.ReferenceLarge = float32(logOf(large, p.Reference))
		all = append(all, p)
	}
	return all
}

// TestJudged: the positions of judged answers are those of their definition, with the states of the large model before
// and after the small model's token. Both labels occur, and wrong answers have no positions. So do the last positions
// of texts that take too long.
func TestJudged(t *testing.T) {
	racing.Spare(t)
	positions := 0
	for _, limit := range []int{10, 40 * walkLimit} {
		before := positions
		positions = judged(t, limit)
		assert.Greater(t, positions, before, "limit %d", limit)
	}
}

// judged checks judged texts, and returns the number of their positions.
func judged(t *testing.T, limit int) int {
	o := demoOptions(t, 12, engine.Options{})
	o.MaxTokens, o.Reference, o.Labels, o.walkLimit = 40, Judged, nil, limit
	o.Data.Questions[0].Grade = func(string) task.Verdict { return task.Wrong }
	for i := range o.Data.Questions[1:7] { // the answer itself decides in the others
		o.Data.Questions[1+i].Grade = func(answer string) task.Verdict {
			if len(answer)%5 > 0 {
				return task.Right
			}
			return task.Wrong
		}
	}
	set, sum := gather(t, o)
	assert.Equal(t, []string{RuleMismatch}, set.Settings().Labels)
	assert.Equal(t, router.TapMismatch, set.Settings().Tap)
	assert.Less(t, sum.Right, sum.Graded)
	assert.Positive(t, sum.Labels[0].Escalate)
	assert.Less(t, sum.Labels[0].Escalate, sum.Labels[0].Labelled)
	assert.Positive(t, sum.RolloutTokens)
	reader, err := o.Large.NewSession()
	require.NoError(t, err)
	for number, q := range o.Data.Questions {
		prompt, _ := textOf(t, &o, set, number)
		_, from, to := set.Prompt(number)
		all := walked(t, &o, q, prompt)
		require.Len(t, all, to-from, "question %d", number)
		for i, want := range all {
			want.Prompt = int32(number)
			got := set.At(from + i)
			for name, v := range map[string]struct{ want, got *float32 }{
				"small log-probability":               {&want.SmallLogProb, &got.SmallLogProb},
				"large log-probability":               {&want.LargeLogProb, &got.LargeLogProb},
				"small log-probability of the answer": {&want.ReferenceSmall, &got.ReferenceSmall},
				"large log-probability of the answer": {&want.ReferenceLarge, &got.ReferenceLarge},
				"margin":                              {&want.Margin, &got.Margin},
				"entropy":                             {&want.Entropy, &got.Entropy},
			} {
				assert.InDelta(t, *v.want, *v.got, 1e-3, "question %d, position %d: %s", number, i, name)
				*v.got = *v.want
			}
			require.Equal(t, want, got, "question %d, position %d", number, i)
		}
	}
	assertStates(t, &o, set, reader)
	return set.Len()
}

// assertStates checks the hidden states of the first position of each judged text: what stands before it is the large
// model's own answer.
func assertStates(t *testing.T, o *Options, set *trace.Set, reader *engine.Session) {
	width := o.Large.Width()
	for number := range o.Data.Questions {
		_, from, to := set.Prompt(number)
		if from == to {
			continue
		}
		prompt, _ := textOf(t, o, set, number)
		p := set.At(from)
		text := slices.Concat(prompt, generated(t, o.Large, prompt, int(p.Pos)-len(prompt), terms.Sampling{}))
		text = append(text, p.Small, p.Small)
		var want []float32
		require.NoError(t, reader.Read(t.Context(), text, int(p.Pos), 0, func(s engine.Seen) error {
			for _, h := range s.Hidden {
				want = append(want, gguf.F16ToF32(gguf.F32ToF16(h)))
			}
			return nil
		}))
		got := make([]float32, 2*width)
		set.Hidden(got, from)
		assert.Equal(t, want, got, "question %d", number)
	}
}

// TestJudgedRefused: a judged text needs the large model in this process, and has one rule of its own.
func TestJudgedRefused(t *testing.T) {
	o := demoOptions(t, 2, engine.Options{})
	o.Reference, o.Labels = Judged, []string{RuleCiter}
	_, err := NewPlan(o)
	assert.ErrorContains(t, err, "leave --label out")
	o.Reference, o.Labels = Small, []string{RuleMismatch}
	_, err = NewPlan(o)
	assert.ErrorContains(t, err, "leave --label out")
	o.Reference, o.Labels = Judged, nil
	o.Data.Questions[1].Grade = nil
	_, err = NewPlan(o)
	assert.ErrorContains(t, err, "compares final answers")
	o.Large = nil
	_, err = NewPlan(o)
	assert.ErrorContains(t, err, "run the large model here")
}
