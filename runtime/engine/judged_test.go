package engine_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// judging decodes with a judge by its definition: every text is read anew by both models.
type judging struct {
	t            *testing.T
	small, large *engine.Session
	judge        *router.Judge
	threshold    float64
	end          func(int32) bool
	most         int

	stood, turned int // mismatches that stand, and those that do not
}

// last reads a text and returns what a model says of the token after it, and the state there.
func (j *judging) last(s *engine.Session, text []int32) (seen engine.Seen) {
	with := append(slices.Clone(text), 0)
	require.NoError(j.t, s.Read(j.t.Context(), with, len(text), 0, func(v engine.Seen) error {
		seen, seen.Hidden = v, slices.Clone(v.Hidden)
		return nil
	}))
	return seen
}

// text decodes after a prompt. The last possible token and an end token are asked for.
func (j *judging) text(prompt []int32) []int32 {
	text := slices.Clone(prompt)
	for len(text) < len(prompt)+j.most && (len(text) == len(prompt) || !j.end(text[len(text)-1])) {
		own, before := j.last(j.small, text).Choice, j.last(j.large, text)
		token := before.Choice
		if asked := j.end(own) || len(text) == len(prompt)+j.most-1; own != token && !asked {
			after := j.last(j.large, append(slices.Clone(text), own))
			var given float32
			require.NoError(j.t, j.large.Read(j.t.Context(), append(slices.Clone(text), own), len(text), 0,
				func(v engine.Seen) error { given = v.Given; return nil }))
			ratio := float32(math.Exp(float64(given - before.LogProb)))
			p := j.judge.Confidence(before.Hidden, after.Hidden, ratio, before.Entropy)
			if j.turned++; float64(p) >= j.threshold {
				token, j.stood, j.turned = own, j.stood+1, j.turned-1
			}
		}
		text = append(text, token)
	}
	return text[len(prompt):]
}

// TestJudged: with the policy judge a text is that of its definition, serial and pipelined, over a network or not.
func TestJudged(t *testing.T) {
	racing.Spare(t)
	parse := func(b []byte) *gguf.File {
		f, err := gguf.Parse(b)
		require.NoError(t, err)
		return f
	}
	edge, err := engine.New(parse(demo.Small()), "small", engine.Options{})
	require.NoError(t, err)
	defer edge.Close()
	judge, err := synth.Judge(256)
	require.NoError(t, err)
	large, service := serve(t, parse(demo.Large()), engine.ServeOptions{Judge: judge})
	tokens, err := edge.Tokenizer()
	require.NoError(t, err)
	reader := func(e *engine.Engine) *engine.Session {
		s, err := e.NewSession()
		require.NoError(t, err)
		return s
	}
	j := &judging{t: t, small: reader(edge), large: reader(large), judge: judge, threshold: 0.5, end: tokens.IsEnd,
		most: 48}
	by, err := router.New(router.Options{Policy: router.Judged, Threshold: &j.threshold, Judge: judge.Fingerprint()})
	require.NoError(t, err)
	for i, q := range demo.Questions(demo.HeldOut)[:10] {
		prompt, err := edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
		require.NoError(t, err)
		want := j.text(prompt)
		for _, o := range []engine.DraftOptions{{Mode: engine.Serial, CheckEvery: draft.SerialChecks}, {}} {
			o.Deadline = -1
			session := reader(edge)
			var got []int32
			for token, err := range session.Routed(t.Context(), prompt, engine.Route{
				Settings: terms.Settings{MaxTokens: j.most, IgnoreEnd: true}, Router: by,
				Cloud: service.Local(uint64(i)), Draft: o,
			}) {
				require.NoError(t, err)
				if got = append(got, token.ID); tokens.IsEnd(token.ID) {
					break
				}
			}
			assert.Equal(t, want, got, "%v: question %d", o.Mode, i)
		}
	}
	assert.Positive(t, j.stood)
	assert.Positive(t, j.turned)
}

// TestJudgeElsewhere: where the large model has another judge, nothing is verified, and the answer is as with margins.
func TestJudgeElsewhere(t *testing.T) {
	f, err := gguf.Open(model(t, nil))
	require.NoError(t, err)
	e, service := serve(t, f, engine.ServeOptions{})
	by, err := router.New(router.Options{Policy: router.Judged, Budget: 0.2, Judge: "of another file"})
	require.NoError(t, err)
	s, err := e.NewSession()
	require.NoError(t, err)
	for _, err := range s.Routed(t.Context(), []int32{1, 2}, engine.Route{
		Settings: terms.Settings{MaxTokens: 20}, Router: by, Cloud: service.Local(1),
	}) {
		require.NoError(t, err)
	}
	assert.False(t, s.Summary().Verified)
}
