package pilotfish

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// loaded returns a model with a context of 64 tokens until the test ends: from the bytes of a file, or if there are
// none, one with marks of thoughts and a template with tools.
func loaded(t *testing.T, file []byte) *Model {
	t.Helper()
	if file == nil {
		recipe, err := synth.ParseRecipe("q8_0")
		require.NoError(t, err)
		spec := synth.Tiny(recipe, 1)
		spec.Thinks = true
		var b bytes.Buffer
		require.NoError(t, spec.Write(&b, nil))
		file = b.Bytes()
	}
	m, err := Load(file, "demo.gguf", Options{Context: 64})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// TestOpenByName: a model and its drafter are opened by the names under which they were pulled.
func TestOpenByName(t *testing.T) {
	dir := held.TempDir(t)
	t.Setenv("PILOTFISH_MODELS", dir)
	for name, file := range map[string][]byte{"large": demo.Large(), "small": demo.Small()} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "o", name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "o", name, "m-q8_0.gguf"), file, 0o600))
	}
	m, err := Open("o/large", Options{Context: 64, Drafter: "o/small"})
	require.NoError(t, err)
	assert.Equal(t, "pilotfish-demo-large", m.Name())
	assert.Equal(t, "pilotfish-demo-small", m.drafter.Name())
	assert.NoError(t, m.Close())
}

// TestTemplate: tools and values reach the template of a model, those of a chat, too. A chat loads only keys and values
// of one with the same values for the template.
func TestTemplate(t *testing.T) {
	m := loaded(t, nil)
	turns := []Message{{Role: "user", Content: "who?"}}
	plain, err := m.ChatTokens(turns, nil)
	require.NoError(t, err)
	quiet, err := m.ChatTokens(turns, nil, Thinking(false))
	require.NoError(t, err)
	for n, ids := range [][]int32{plain, quiet, nil} {
		thinks, err := m.Thinks(ids)
		require.NoError(t, err)
		assert.Equal(t, n != 1, thinks, "a prompt may have closed the thought")
	}
	tools, err := m.ChatTokens(turns, [][]byte{[]byte(`{"type":"function","function":{"name":"swim"}}`)})
	require.NoError(t, err)
	text, err := m.Detokenize(tools)
	require.NoError(t, err)
	assert.Contains(t, text, "swim")

	o := ChatOptions{Template: []TemplateValue{Thinking(false)},
		Options: []Option{MaxTokens(1), SampleBy(asker{new([]Head)})}}
	chat := m.NewChat(o)
	_, err = Text(chat.Send(t.Context(), "who?"))
	require.NoError(t, err)
	assert.Equal(t, len(quiet), chat.Stats().PromptTokens)

	o.Template = []TemplateValue{{Name: "tools", Value: []any{"a hammer"}}}
	chat = m.NewChat(o)
	_, err = Text(chat.Send(t.Context(), "who?"))
	require.NoError(t, err)
	var saved bytes.Buffer
	require.NoError(t, chat.SaveKV(t.Context(), &saved))
	o.Messages = chat.Messages()
	assert.NoError(t, m.NewChat(o).LoadKV(t.Context(), bytes.NewReader(saved.Bytes())))
	o.Template = nil
	assert.ErrorIs(t, m.NewChat(o).LoadKV(t.Context(), &saved), ErrOtherSaved)
}

// TestCheckContext: a check returns the paths without effect, and ends with its context.
func TestCheckContext(t *testing.T) {
	m := loaded(t, demo.Small())
	ignored, err := m.CheckContext(t.Context(), Settings{Schema: []byte(`{"type":"null","typ":1}`)})
	require.NoError(t, err)
	assert.Equal(t, []string{"#/typ"}, ignored)
	gone := errors.New("no caller waits")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err = m.CheckContext(ctx, Settings{Schema: []byte(`{"pattern":"` + string(bytes.Repeat([]byte("(a|b)?"), 3000)) +
		`"}`)})
	assert.ErrorIs(t, err, gone)
}

// TestFits: a learned router is for models of one width; other routers are for all.
func TestFits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "router.gguf")
	require.NoError(t, os.WriteFile(path, demo.Router(), 0o600))
	learned, err := NewRouter(RouterOptions{File: path})
	require.NoError(t, err)
	small, other := loaded(t, demo.Small()), loaded(t, nil)
	assert.NoError(t, small.Fits(learned))
	assert.ErrorContains(t, other.Fits(learned), "width")
	assert.NoError(t, other.Fits(asker{}))
}

// TestServiceAsk: a service has the limits of its model, and none after Close.
func TestServiceAsk(t *testing.T) {
	m := loaded(t, demo.Large())
	n, err := m.Vocabulary()
	require.NoError(t, err)
	s, err := m.Serve(ServeOptions{Tokens: 64})
	require.NoError(t, err)
	longest := make([]int32, 64)
	longest[63] = int32(n - 1)
	a, err := s.Ask(t.Context(), Question{Context: longest, Best: 2})
	require.NoError(t, err)
	assert.Len(t, a.Best, 2)
	_, err = s.Ask(t.Context(), Question{Context: make([]int32, 65)})
	assert.ErrorIs(t, err, ErrContext)
	_, err = s.Ask(t.Context(), Question{Context: []int32{int32(n)}})
	assert.ErrorContains(t, err, "ask: token 0")
	require.NoError(t, s.Close())
	_, err = s.Ask(t.Context(), Question{Context: longest})
	assert.ErrorIs(t, err, ErrClosed)
}

// failing is a cloud that fails in its own way.
type failing func()

func (f failing) Ask(context.Context, Question) (Answer, error) {
	f()
	return Answer{}, nil
}

// TestCloudFails: a panic of the caller's cloud goes on where the answer is read, with its value and the place; a cloud
// that ends its goroutine ends the answer.
func TestCloudFails(t *testing.T) {
	m := loaded(t, demo.Small())
	always, err := NewRouter(RouterOptions{Policy: "always"})
	require.NoError(t, err)
	say := func(f func()) (why any, err error) {
		defer func() { why = recover() }()
		_, err = Text(m.NewSession().GenerateTokens(t.Context(), []int32{65}, MaxTokens(2),
			Route{Cloud: failing(f), Router: always, Deadline: -1}))
		return nil, err
	}
	why, _ := say(func() { panic(io.ErrNoProgress) })
	require.ErrorIs(t, why.(error), io.ErrNoProgress)
	assert.ErrorContains(t, why.(error), "parts_test.go")
	why, _ = say(func() { panic("no water") })
	assert.Regexp(t, `(?s)^no water\n.*parts_test\.go`, why)
	why, err = say(runtime.Goexit)
	assert.Nil(t, why)
	assert.Equal(t, errExit, err)
}

// TestChatBeside: a chat copies what another one has computed, and a question without an answer is no part of it. A
// session keeps no more than a full context, and its text can be read without it.
func TestChatBeside(t *testing.T) {
	m := loaded(t, demo.Small())
	o := ChatOptions{System: "Be brief.", Options: []Option{MaxTokens(1)}}
	first, second := m.NewChat(o), m.NewChat(o)
	_, err := Text(first.Send(t.Context(), "who?"))
	require.NoError(t, err)
	require.NoError(t, second.CopyKV(t.Context(), first))
	_, err = Text(second.Send(t.Context(), "who?", Settings{Temperature: -1}))
	require.ErrorContains(t, err, "temperature")
	assert.Len(t, second.Messages(), 1)
	_, err = Text(second.Send(t.Context(), "who?"))
	require.NoError(t, err)
	assert.Equal(t, first.Stats().PromptTokens-1, second.Stats().ReusedTokens)

	var saved bytes.Buffer
	require.NoError(t, first.SaveKV(t.Context(), &saved))
	text, err := m.SavedText(&saved)
	require.NoError(t, err)
	assert.Equal(t, first.ids, text)
	wide, err := Load(demo.Small(), "demo.gguf", Options{Context: 128})
	require.NoError(t, err)
	defer wide.Close()
	assert.Equal(t, 2*m.NewSession().KVLimit(), wide.NewSession().KVLimit())
	assert.Positive(t, m.NewSession().KVLimit())
}

// TestScoreOf: the log-probabilities of a text are those of its own tokens, and reading it ends with the context.
func TestScoreOf(t *testing.T) {
	m := loaded(t, demo.Small())
	ids := []int32{'A', 'B', 'C'}
	for token, err := range m.NewSession().Score(t.Context(), ids, 2) {
		require.NoError(t, err)
		if token.Pos > 0 {
			require.Len(t, token.Top, 2)
			logits, _, err := m.e.Logits(t.Context(), ids[:token.Pos], 1)
			require.NoError(t, err)
			sum := 0.0
			for _, l := range logits {
				sum += math.Exp(float64(l))
			}
			assert.InDelta(t, float64(logits[token.ID])-math.Log(sum), token.LogProb, 1e-4)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := Text(m.NewSession().Score(ctx, ids, 0))
	assert.ErrorIs(t, err, context.Canceled)
}

// TestGateway: a gateway says what its model is and can do, answers questions within its limits, and its connection
// ends with a complete log.
func TestGateway(t *testing.T) {
	m, large := loaded(t, demo.Small()), loaded(t, demo.Large())
	s, err := large.Serve(ServeOptions{Tokens: 64})
	require.NoError(t, err)
	defer s.Close()
	certificate, key, err := engine.NewCertificate("127.0.0.1")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	g, err := s.s.Gateway(engine.GatewayOptions{Certificate: pair})
	require.NoError(t, err)
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- g.Serve(ctx, socket) }()
	c, err := m.Dial(t.Context(), socket.LocalAddr().String(), DialOptions{Pin: g.Fingerprint().String()})
	require.NoError(t, err)
	assert.Equal(t, "pilotfish-demo-large", c.Model())
	assert.Equal(t, "exact", c.Audit())
	assert.Zero(t, c.Choices())
	assert.False(t, c.OtherTemplate())
	assert.NoError(t, c.CannotVerify(Sampling{Temperature: 1}, nil))
	a, err := c.Ask(t.Context(), Question{Context: make([]int32, 64), Best: 1})
	require.NoError(t, err)
	assert.Equal(t, a.Token, a.Best[0].ID)
	_, err = c.Ask(t.Context(), Question{Context: make([]int32, 65)})
	assert.ErrorIs(t, err, ErrContext)
	_, err = c.Ask(t.Context(), Question{Context: []int32{1 << 20}})
	assert.ErrorContains(t, err, "ids of this model")
	require.NoError(t, c.Close())
	stop()
	assert.NoError(t, <-over)
	assert.NoError(t, socket.Close())
}

// TestOrigins: the values of tokens are those of the parts that set them.
func TestOrigins(t *testing.T) {
	assert.Equal(t, []draft.Origin{draft.Edge, draft.FromCloud, draft.EdgeTimeout},
		[]draft.Origin{Edge, Large, EdgeTimeout})
	assert.Equal(t, []tokenizer.Kind{tokenizer.Answer, tokenizer.Thought, tokenizer.Mark},
		[]tokenizer.Kind{KindAnswer, KindThought, KindMark})
}
