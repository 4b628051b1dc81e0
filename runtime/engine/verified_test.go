package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// verified simulates verified decoding without a margin by its definition, one question after the other.
type verified struct {
	t        *testing.T
	r        *rand.Rand
	edge     draft.Cloud // proposes tokens
	large    draft.Cloud
	vocab    int32
	end      func(int32) bool
	sampling terms.Sampling
	verify   terms.Verify
	every    int // max tokens without verification
	most     int // tokens of the text

	asks, turned int
	ahead        map[int]<-chan int32 // tokens ahead of answers that are part of the text, by text length
}

// propose returns a token of the small model, or in one of ten cases a random one, and whether it is escalated.
func (v *verified) propose(text []int32) (token int32, escalate bool) {
	a, err := v.edge.Ask(v.t.Context(), draft.Question{Context: text, Sampling: v.sampling})
	require.NoError(v.t, err)
	if v.r.IntN(10) == 0 {
		a.Token = v.r.Int32N(v.vocab)
	}
	return a.Token, v.r.IntN(12) == 0
}

// text decodes after a prompt.
func (v *verified) text(prompt []int32) []int32 {
	text := slices.Clone(prompt)
	for from := len(text); ; {
		p := len(text)
		y, escalate := v.propose(text)
		if !escalate && p-from < v.every && !v.end(y) && p-len(prompt) < v.most-1 {
			text = append(text, y)
			continue
		}
		q := draft.Question{Context: text, AuditFrom: from, Verify: v.verify, Sampling: v.sampling, Ahead: 3}
		a, err := v.large.Ask(v.t.Context(), q)
		require.NoError(v.t, err)
		require.Equal(v.t, p-from, a.Audited)
		v.asks++
		if len(a.Audit) > 0 {
			f := a.Audit[0]
			require.True(v.t, from <= f.Pos && f.Pos < p && f.Token != text[f.Pos])
			require.GreaterOrEqual(v.t, f.Score, f.Stands)
			require.Equal(v.t, v.verify == terms.EachChoice, f.Score == 0 && f.Stands == 0, "%+v", f)
			text, v.turned = append(text[:f.Pos:f.Pos], f.Token), v.turned+1
		} else {
			text = append(text, a.Token)
			v.ahead[len(text)-len(prompt)] = a.Ahead
		}
		if from = len(text); v.end(text[from-1]) || from-len(prompt) == v.most {
			return text[len(prompt):]
		}
	}
}

// checkAhead checks the tokens ahead that are part of the text, and counts those that it continues with.
func (v *verified) checkAhead(text []int32) (came int) {
	for pos, tokens := range v.ahead {
		for token := range tokens {
			if pos < len(text) {
				assert.Equal(v.t, text[pos], token, "ahead, at %d", pos)
				came++
			}
			pos++
		}
	}
	return came
}

// alone returns the large model's own text.
func (v *verified) alone(large draft.Cloud, prompt []int32) (ids []int32) {
	text := slices.Clone(prompt)
	for len(ids) < v.most && (len(ids) == 0 || !v.end(ids[len(ids)-1])) {
		a, err := large.Ask(v.t.Context(), draft.Question{Context: text, Sampling: v.sampling})
		require.NoError(v.t, err)
		ids, text = append(ids, a.Token), append(text, a.Token)
	}
	return ids
}

// serve opens a model as a service.
func serve(t *testing.T, f *gguf.File, o engine.ServeOptions) (*engine.Engine, *engine.Service) {
	t.Helper()
	e, err := engine.New(f, "model", engine.Options{})
	require.NoError(t, err)
	s, err := e.Serve(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Close()
		assert.NoError(t, e.Close())
	})
	return e, s
}

// checkVerified decodes after several prompts concurrently, and compares with the large model's own texts.
func checkVerified(t *testing.T, edge, large func() *gguf.File, prompts func(*engine.Engine) [][]int32, most int) {
	_, small := serve(t, edge(), engine.ServeOptions{})
	e, big := serve(t, large(), engine.ServeOptions{Slots: 1024}) // fewer than all texts need
	_, own := serve(t, large(), engine.ServeOptions{Lookup: -1, Apart: true})
	tokens, err := e.Tokenizer()
	require.NoError(t, err)
	texts := prompts(e)
	if testing.Short() {
		texts = texts[:4]
	}
	for _, sampling := range []terms.Sampling{{}, {Temperature: 0.8, Seed: 7}, {Temperature: 0.8, Seed: 8, TopK: 40}} {
		for _, kind := range []terms.Verify{terms.EachChoice, terms.EachScore} {
			t.Run(fmt.Sprint(sampling, kind), func(t *testing.T) {
				var wait sync.WaitGroup
				var sum sync.Mutex
				asks, turned, length, ahead := 0, 0, 0, 0
				for worker := range 4 {
					wait.Go(func() {
						for i := worker; i < len(texts); i += 4 {
							session := uint64(i)
							v := &verified{
								t: t, r: rand.New(rand.NewPCG(session, uint64(kind))), edge: small.Local(session),
								large: big.Local(session), vocab: int32(tokens.Used()), end: tokens.IsEnd,
								sampling: sampling, verify: kind, every: 1 + i%20, most: most,
								ahead: map[int]<-chan int32{},
							}
							got := v.text(texts[i])
							assert.Equal(t, v.alone(own.Local(session), texts[i]), got, "prompt %d", i)
							came := v.checkAhead(got)
							sum.Lock()
							asks, turned, length, ahead = asks+v.asks, turned+v.turned, length+len(got), ahead+came
							sum.Unlock()
						}
					})
				}
				wait.Wait()
				t.Logf("%d texts of %d tokens, %d asks, %d tokens replaced, %d ahead",
					len(texts), length, asks, turned, ahead)
				assert.Positive(t, turned)
				assert.Positive(t, ahead)
				assert.Less(t, asks, length)
			})
		}
	}
}

// TestVerifiedDemo: the verified text after questions of the demo is the large model's own text, greedy and sampled,
// for any proposals.
func TestVerifiedDemo(t *testing.T) {
	parse := func(b []byte) func() *gguf.File {
		return func() *gguf.File {
			f, err := gguf.Parse(b)
			require.NoError(t, err)
			return f
		}
	}
	checkVerified(t, parse(demo.Small()), parse(demo.Large()), func(e *engine.Engine) (all [][]int32) {
		for _, q := range demo.Questions(demo.HeldOut)[:24] {
			ids, err := e.Chat(tokenizer.Message{Role: "user", Content: q.Text})
			require.NoError(t, err)
			all = append(all, ids)
		}
		return all
	}, 80)
}

// TestVerifiedQwen3: the same with a Qwen3 of random weights and its own weights in another type.
func TestVerifiedQwen3(t *testing.T) {
	checkVerifiedRandom(t, func(s *synth.Spec) { s.Qwen3, s.HeadSize = true, 64 })
}

// TestVerifiedQwen35: the same with a Qwen3.5, whose states are taken back where a guess was wrong.
func TestVerifiedQwen35(t *testing.T) {
	checkVerifiedRandom(t, func(s *synth.Spec) {
		s.HeadSize = 64
		s.Linear = synth.Linear{
			KeyHeads: 2, ValueHeads: 4, KeySize: 32, ValueSize: 32, Kernel: 4, Interval: 2, Rotated: 16,
		}
	})
}

func checkVerifiedRandom(t *testing.T, edit func(*synth.Spec)) {
	t.Helper()
	random := func(recipe string) func() *gguf.File {
		return func() *gguf.File {
			r, err := synth.ParseRecipe(recipe)
			require.NoError(t, err)
			f, err := gguf.Open(model(t, func(s *synth.Spec) { edit(s); s.Recipe = r }))
			require.NoError(t, err)
			return f
		}
	}
	checkVerified(t, random("q4_0"), random("q8_0"), func(*engine.Engine) (all [][]int32) {
		for i := range int32(8) {
			all = append(all, []int32{3 * i, 7, 300 + i})
		}
		return all
	}, 24)
}

// TestVerifiedStories: the same after beginnings of stories, on which the models often differ.
func TestVerifiedStories(t *testing.T) {
	racing.Spare(t)
	open := func(name string) func() *gguf.File {
		path := sharedtest.Shared(t, "data", "models", name)
		return func() *gguf.File {
			f, err := gguf.Open(path)
			require.NoError(t, err)
			return f
		}
	}
	weak, strong := open("stories-weak-qwen2-f32.gguf"), open("stories260k-qwen2-f32.gguf")
	checkVerified(t, weak, strong, func(e *engine.Engine) (all [][]int32) {
		for _, who := range []string{"Lily", "Tom", "a dog", "the old king"} {
			for _, what := range []string{
				" Once upon a time", " One day", " In the big garden", " There was", " The sun and",
			} {
				ids, err := e.RawPrompt(what + " " + who)
				require.NoError(t, err)
				all = append(all, ids)
			}
		}
		return all
	}, 48)
}
