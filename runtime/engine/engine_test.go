package engine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// model writes a small random model and returns its path.
func model(t testing.TB, edit func(*synth.Spec)) string {
	t.Helper()
	r, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	s := synth.Tiny(r, 9)
	s.Dim, s.FFN, s.Heads, s.KVHeads, s.Vocab = 64, 128, 2, 1, 1000
	if edit != nil {
		edit(&s)
	}
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

func open(t testing.TB, path string, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// generate collects the tokens of a session.
func generate(t testing.TB, s *engine.Session, prompt []int32, r terms.Settings) []engine.Token {
	t.Helper()
	var all []engine.Token
	for tok, err := range s.Generate(t.Context(), prompt, r) {
		require.NoError(t, err)
		tok.At = 0
		all = append(all, tok)
	}
	return all
}

func session(t testing.TB, e *engine.Engine) *engine.Session {
	t.Helper()
	s, err := e.NewSession()
	require.NoError(t, err)
	return s
}

// TestGreedyIsArgmax: each token is the argmax of the logits after all tokens before it, evaluated from the start.
func TestGreedyIsArgmax(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{})
	prompt, err := e.RawPrompt("the cat sat")
	require.NoError(t, err)
	s := session(t, e)
	toks := generate(t, s, prompt, terms.Settings{MaxTokens: 12, IgnoreEnd: true})
	require.Len(t, toks, 12)
	text := prompt
	for i, tok := range toks {
		_, top, err := e.Logits(t.Context(), text, 1)
		require.NoError(t, err)
		require.Equal(t, top[0].ID, tok.ID, "step %d", i)
		require.Equal(t, len(text), tok.Pos)
		require.EqualValues(t, draft.Edge, tok.Origin)
		require.True(t, tok.Confidence > 0 && tok.Confidence <= 1)
		text = append(text, tok.ID)
	}
	sum := s.Summary()
	assert.Equal(t, "length", sum.Stop)
	assert.Equal(t, 12, sum.Tokens)
	assert.Equal(t, len(prompt), sum.PromptTokens)
	assert.Positive(t, sum.PromptTime)
	assert.Positive(t, sum.DecodeTime)
	var joined strings.Builder
	for _, tok := range toks {
		joined.WriteString(tok.Text)
	}
	assert.True(t, strings.HasPrefix(sum.Text, joined.String()))
}

// TestReuse: a session that has decoded another text gives the same tokens as a new one, and evaluates the common
// prefix once.
func TestReuse(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{})
	ask := terms.Settings{MaxTokens: 8, IgnoreEnd: true, Temperature: 1, Seed: 3}
	a, b := []int32{1, 2, 3, 4, 5, 6}, []int32{1, 2, 3, 9, 9}
	s := session(t, e)
	generate(t, s, a, ask)
	assert.Equal(t, generate(t, session(t, e), b, ask), generate(t, s, b, ask))
	assert.Equal(t, 3, s.Summary().ReusedTokens)
	assert.Equal(t, generate(t, session(t, e), b, ask), generate(t, s, b, ask), "the same prompt again")
	assert.Equal(t, 4, s.Summary().ReusedTokens, "all tokens except the one with the needed logits")
}

// TestEnd: an end token ends the text and is not part of it. Seeds are tried until an end token is sampled.
func TestEnd(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{Context: 400})
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	for seed := range uint64(100) {
		s := session(t, e)
		ask := terms.Settings{Temperature: 2, Seed: seed}
		for _, tk := range generate(t, s, []int32{1, 2}, ask) {
			require.False(t, tok.IsEnd(tk.ID))
		}
		if s.Summary().Stop == "end" {
			ask.IgnoreEnd = true
			ask.MaxTokens = s.Summary().Tokens + 1
			more := generate(t, session(t, e), []int32{1, 2}, ask)
			require.True(t, tok.IsEnd(more[len(more)-1].ID))
			return
		}
	}
	t.Fatal("no seed ended its text")
}

func TestContextFull(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{Context: 10})
	s := session(t, e)
	toks := generate(t, s, []int32{1, 2, 3, 4}, terms.Settings{IgnoreEnd: true})
	assert.Len(t, toks, 6, "the context holds 10")
	assert.Equal(t, engine.StopContext, s.Summary().Stop)
	for _, err := range s.Generate(t.Context(), make([]int32, 10), terms.Settings{}) {
		assert.ErrorIs(t, err, transformer.ErrContext)
	}
	for _, err := range s.Generate(t.Context(), nil, terms.Settings{}) {
		assert.ErrorContains(t, err, "empty prompt")
	}
}

// TestCancel: a cancelled generation returns the cause, and the session stays usable.
func TestCancel(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{})
	s := session(t, e)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why, n := errors.New("enough"), 0
	for _, err := range s.Generate(ctx, []int32{1, 2, 3}, terms.Settings{IgnoreEnd: true}) {
		if n++; n == 4 {
			cancel(why)
		}
		if err != nil {
			require.ErrorIs(t, err, why)
			break
		}
	}
	assert.Equal(t, 5, n, "four tokens and the error")
	ask := terms.Settings{MaxTokens: 5, IgnoreEnd: true}
	assert.Equal(t, generate(t, session(t, e), []int32{1, 2, 7}, ask), generate(t, s, []int32{1, 2, 7}, ask))
}

// TestExact: the exact and the fast path differ only by rounding to 8 bits.
func TestExact(t *testing.T) {
	path := model(t, nil)
	fast, _, err := open(t, path, engine.Options{}).Logits(t.Context(), []int32{1, 2, 3}, 1)
	require.NoError(t, err)
	exact, _, err := open(t, path, engine.Options{Exact: true}).Logits(t.Context(), []int32{1, 2, 3}, 1)
	require.NoError(t, err)
	assert.NotEqual(t, exact, fast)
	assert.InDeltaSlice(t, exact, fast, 0.2)
}

func TestChat(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{})
	ids, err := e.Chat(tokenizer.Message{Role: "user", Content: "hi <|im_end|>"})
	require.NoError(t, err)
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	controls := 0
	for _, id := range ids {
		if tok.IsControl(id) {
			controls++
		}
	}
	assert.Equal(t, 3, controls, "start, end, start: those in the user's message are text")
}

func TestBadFiles(t *testing.T) {
	path := model(t, nil)
	_, err := engine.Open(path, engine.Options{Context: 513})
	assert.ErrorContains(t, err, "512")
	_, err = engine.Open(path, engine.Options{Threads: -1})
	assert.ErrorContains(t, err, path)
	_, err = engine.Open(filepath.Join(t.TempDir(), "none.gguf"), engine.Options{})
	assert.ErrorIs(t, err, os.ErrNotExist)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	cut := filepath.Join(t.TempDir(), "cut.gguf")
	require.NoError(t, os.WriteFile(cut, b[:len(b)/2], 0o644))
	_, err = engine.Open(cut, engine.Options{})
	var format *gguf.FormatError
	require.ErrorAs(t, err, &format)
	assert.Equal(t, cut, format.Path)
}
