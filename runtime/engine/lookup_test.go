//go:build !noasm

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestLookup: guesses from the text change no token, origin or confidence, greedy or sampled, local, serial and
// pipelined; and some are accepted.
func TestLookup(t *testing.T) {
	large := small(t, Options{}, func(s *synth.Spec) { s.Seed = 5 })
	cloud, err := large.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	onRunners(t, func(t *testing.T, open func(o Options) *Engine) {
		s, err := open(Options{}).NewSession()
		require.NoError(t, err)
		// All texts begin with the tokens in the session and a pass of one row: the sums of long passes may differ.
		read(t, s, echo(20), Route{Settings: terms.Settings{MaxTokens: 1, IgnoreEnd: true}})
		accepted := 0
		for mode, name := range []string{"local", "serial", "1 branch", "2 branches"} {
			for _, sampling := range []terms.Sampling{{}, {Temperature: 0.5, TopK: 3, TopP: 0.9, Seed: 8}} {
				t.Run(fmt.Sprintf("%s, temperature %v", name, sampling.Temperature), func(t *testing.T) {
					r := Route{Settings: terms.Settings{MaxTokens: 32, IgnoreEnd: true}.With(sampling)}
					if mode > 0 {
						r.Cloud, r.Draft = cloud.Local(uint64(mode)), DraftOptions{Deadline: -1, Branches: mode - 1}
						r.Router, err = router.New(router.Options{Policy: router.Random, Threshold: new(0.1), Seed: 2})
						require.NoError(t, err)
					}
					if mode == 1 {
						r.Draft.Mode = Serial
					}
					r.Lookup = -1
					want := read(t, s, echo(20), r)
					none := s.Summary()
					require.Len(t, want.ids, 32)
					require.Zero(t, none.Proposed)
					for _, rows := range []int{0, 3} {
						r.Lookup = rows
						require.Equal(t, want, read(t, s, echo(20), r), "%d rows", rows)
						sum := s.Summary()
						assert.LessOrEqual(t, sum.Accepted, sum.Proposed)
						if mode == 0 {
							assert.Equal(t, none.Passes, sum.Passes+sum.Accepted)
						}
						accepted += sum.Accepted
					}
				})
			}
		}
		assert.Positive(t, accepted, "the number of guesses depends on the time of passes")
	})
}

// TestLookupWhereItIsSaid: the setting of a route overrides that of its request.
func TestLookupWhereItIsSaid(t *testing.T) {
	s, err := small(t, Options{}, nil).NewSession()
	require.NoError(t, err)
	read(t, s, echo(20), Route{Settings: terms.Settings{MaxTokens: 30, IgnoreEnd: true}})
	require.Positive(t, s.Summary().Proposed)
	require.Greater(t, s.cost.Reach(1), 1, "the next text has the cost of calls")
	for _, r := range []Route{
		{Settings: terms.Settings{Lookup: -1}}, {Draft: DraftOptions{Lookup: -1}},
		{Settings: terms.Settings{Lookup: 2}, Draft: DraftOptions{Lookup: -1}},
	} {
		r.MaxTokens, r.IgnoreEnd = 30, true
		tokens(t, s, echo(20), r)
		assert.Zero(t, s.Summary().Proposed)
		assert.Equal(t, 29, s.Summary().Passes)
	}
	for _, rows := range []int{1, 9} {
		for _, err := range s.Generate(t.Context(), echo(20), terms.Settings{Lookup: rows}) {
			assert.ErrorContains(t, err, fmt.Sprintf("lookup: %d is not possible: 2 to 8 rows", rows))
		}
	}
}

// TestPassesPerToken: the token after the prompt needs no extra call, and an end token needs one.
func TestPassesPerToken(t *testing.T) {
	assert.Equal(t, 1.0, Summary{Tokens: 9, Routing: Routing{Passes: 8}, Stop: StopLength}.PassesPerToken())
	assert.Equal(t, 1.0, Summary{Tokens: 8, Routing: Routing{Passes: 8}, Stop: StopEnd}.PassesPerToken())
	assert.Equal(t, 0.5, Summary{Tokens: 9, Routing: Routing{Passes: 4}, Stop: StopContext}.PassesPerToken())
	assert.Zero(t, Summary{Tokens: 1}.PassesPerToken())
	assert.Zero(t, Summary{Stop: StopEnd}.PassesPerToken())
	assert.Zero(t, Summary{}.PassesPerToken())
}

// chainBits evaluates tokens after a prompt one at a time and as chains of several lengths, and compares all logits.
func chainBits(t *testing.T, e *Engine, prompt, tokens []int32) {
	s, err := e.NewSession()
	require.NoError(t, err)
	m := newEdgeModel(s, backend.Want{K: 3, Logits: true}, 0)
	_, err = m.Prefill(t.Context(), prompt)
	require.NoError(t, err)
	chain := make([]draft.Node, len(tokens))
	for i, token := range tokens {
		chain[i] = draft.Node{ID: draft.ID(i + 1), Token: token, Pos: len(prompt) + i}
		for j := range i {
			chain[i].Path = append(chain[i].Path, draft.ID(j+1))
		}
	}
	var want [][]float32
	for _, n := range chain {
		out, err := m.Extend(t.Context(), []draft.Node{n})
		require.NoError(t, err)
		want = append(want, slices.Clone(out[0].Logits))
	}
	for rows := 2; rows <= 8; rows++ {
		for _, n := range chain {
			m.Drop(n.ID)
		}
		for i := 0; i < len(chain); i += rows {
			out, err := m.Extend(t.Context(), chain[i:min(i+rows, len(chain))])
			require.NoError(t, err)
			for j := range out {
				require.True(t, slices.Equal(want[i+j], out[j].Logits), "%d rows, token %d", rows, i+j)
			}
		}
	}
	for _, n := range chain {
		m.Drop(n.ID)
	}
}

// TestChainBits: the logits after a token are the same to the last bit for any number of tokens in the same call.
func TestChainBits(t *testing.T) {
	racing.Spare(t)
	tokens := []int32{9, 8, 7, 9, 8, 7, 9, 8, 7, 1, 2, 3, 250, 251, 9, 8}
	recipes := []string{"f32", "f16", "q8_0", "q4_0", "q4_k_m", "q6_k"}
	if testing.Short() { // under the race detector: the types of weights differ only in arithmetic
		recipes = recipes[2:3]
	}
	for _, recipe := range recipes {
		for _, o := range []Options{{Threads: 1}, {Threads: 2}, {Threads: 1, Exact: true}, {KV: KVF32}} {
			t.Run(fmt.Sprintf("%s %+v", recipe, o), func(t *testing.T) {
				r, err := synth.ParseRecipe(recipe)
				require.NoError(t, err)
				e := small(t, o, func(s *synth.Spec) { *s = synth.Tiny(r, 3) })
				chainBits(t, e, echo(30), tokens)
			})
		}
	}
	chainBits(t, small(t, Options{Threads: 2}, toQwen3), echo(20), tokens)
	chainBits(t, small(t, Options{Threads: 2}, toQwen35), echo(20), tokens)
	t.Run("gpu", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes seconds: make long")
		}
		chainBits(t, random(t, Options{Backend: aGPU()}, 4), echo(20), tokens)
	})
}

// TestLookupStories: trained models write the same stories with and without guesses from the text.
func TestLookupStories(t *testing.T) {
	racing.Spare(t)
	files, err := filepath.Glob(filepath.Join(sharedtest.Shared(t, "data", "models"), "*.gguf"))
	require.NoError(t, err)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := os.Stat(file)
			require.NoError(t, err)
			e, err := Open(file, Options{Threads: 1})
			require.NoError(t, err)
			defer e.Close()
			s := session(t, e)
			prompt, err := e.RawPrompt(" Once upon a time there was a little dog. " +
				"The little dog was happy. Once upon a time")
			require.NoError(t, err)
			accepted := 0
			for seed := range uint64(6) {
				r := Route{Settings: terms.Settings{MaxTokens: 120, IgnoreEnd: true, Lookup: -1}}
				if seed > 0 {
					r.Temperature, r.Seed = float64(seed)/4, seed
				}
				want := read(t, s, prompt, r)
				r.Lookup = 0
				require.Equal(t, want, read(t, s, prompt, r), "seed %d", seed)
				accepted += s.Summary().Accepted
			}
			assert.Positive(t, accepted)
		})
	}
}

// TestServeLookup: a device that asks for each token gets some of them without a call of the model, and all of them,
// with their probabilities, equal to the last bit to those without guesses; greedy or sampled.
func TestServeLookup(t *testing.T) {
	var held uint64
	for _, sampling := range []terms.Sampling{{}, {Temperature: 0.3, TopK: 3, TopP: 0.9, Seed: 8}} {
		e := small(t, Options{}, func(s *synth.Spec) { s.Seed = 5 })
		answers := func(lookup int) (all []batch.Answer, st ServiceStats) {
			s, err := e.Serve(ServeOptions{Lookup: lookup})
			require.NoError(t, err)
			q := terms.Job{
				Session: 1, Device: 1,
				Question: terms.Question{Context: slices.Clip(echo(20)), K: 3, AuditFrom: 1, Sampling: sampling},
			}
			for range 40 {
				a, err := s.Service.Ask(t.Context(), q)
				require.NoError(t, err)
				a.Reused, a.Computed, a.Queue, a.Compute = 0, 0, 0, 0
				all, q.Context = append(all, a), append(q.Context, a.Token)
			}
			s.Close()
			return all, s.Stats()
		}
		want, none := answers(-1)
		assert.EqualValues(t, 40, none.Steps)
		assert.Zero(t, none.Guessed)
		assert.Zero(t, none.Accepted)
		for _, lookup := range []int{0, 2, 8} {
			have, st := answers(lookup)
			require.Equal(t, want, have, "lookup %d", lookup)
			assert.Equal(t, none.Computed+st.Guessed-st.Accepted, st.Computed)
			if lookup == 2 {
				assert.LessOrEqual(t, st.Guessed, st.Steps)
			}
			held += st.Accepted
		}
	}
	assert.Positive(t, held, "the number of guesses depends on the time of passes")
	_, err := small(t, Options{}, nil).Serve(ServeOptions{Lookup: 9})
	assert.ErrorContains(t, err, "lookup with 9 rows")
}
