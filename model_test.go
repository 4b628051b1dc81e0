package pilotfish

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestChatAside: while a chat generates an answer, other goroutines may look at it, and one that asks gets an error at
// once.
func TestChatAside(t *testing.T) {
	m, err := Load(demo.Small(), "demo.gguf", Options{Context: 512})
	require.NoError(t, err)
	defer m.Close()
	chat := m.NewChat(ChatOptions{System: "Be brief."})
	over := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				messages := chat.Messages()
				assert.Equal(t, 1, len(messages)%2, "a question comes with its answer")
				assert.LessOrEqual(t, chat.Stats().Tokens, 12)
			}
		})
	}
	for range 3 {
		for _, err := range chat.Send(t.Context(), "What is a pilot fish?", MaxTokens(12)) {
			require.NoError(t, err)
			_, err = Text(chat.Send(t.Context(), "And who?"))
			require.ErrorIs(t, err, ErrBusy)
		}
	}
	close(over)
	others.Wait()
	assert.Len(t, chat.Messages(), 7)
}

// TestDefaultRouter: without a router the large model verifies, and replaces at most 7% of the tokens.
func TestDefaultRouter(t *testing.T) {
	r, err := NewRouter(RouterOptions{})
	require.NoError(t, err)
	assert.True(t, r.(policy).r.Verifies())
	assert.Equal(t, 0.07, r.(policy).r.Balance().Total().Budget)
}

// TestCertifiedRouter: the threshold of a certificate holds for the policy of the file, unless the caller gives a
// threshold or a budget. A balance has what its budget spends where it does not apply. A budget starts from the
// confidences in the file, for the policy of the file.
func TestCertifiedRouter(t *testing.T) {
	f, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	file, err := router.Read(f)
	require.NoError(t, err)
	file.Certificate = &router.Certificate{Policy: router.Learned, Budget: 0.1, Threshold: 0.25, Prompts: 1,
		Tokens: 1, MaxTokens: 1}
	file.Confidences = []float32{0.25, 0.5}
	var b bytes.Buffer
	require.NoError(t, file.Write(gguf.NewWriter(&b)))
	path, own := filepath.Join(t.TempDir(), "router.gguf"), 0.5
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	for name, c := range map[string]struct {
		o                 RouterOptions
		threshold, budget float64
	}{
		"those of the file": {RouterOptions{}, 0.25, 0.1},
		"another threshold": {RouterOptions{Threshold: &own}, 0.5, 0},
		"another budget":    {RouterOptions{Budget: 0.2}, 0, 0.2},
		"a given balance":   {RouterOptions{Balance: new(Balance)}, 0.25, 0.1},
		"another policy":    {RouterOptions{Policy: "margin"}, 0, DefaultBudget},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.File = path
			made, err := NewRouter(c.o)
			require.NoError(t, err)
			r := made.(policy).r
			if c.budget > 0 {
				assert.Equal(t, c.budget, r.Balance().Total().Budget)
			}
			if c.threshold > 0 {
				assert.Equal(t, c.threshold, r.Threshold())
			}
		})
	}
	for _, o := range []router.Options{{Policy: router.Learned, Calibration: file.Confidences},
		{Policy: router.Margin}} {
		if o.Budget = 0.2; o.Policy == router.Learned {
			o.Net = file.Net
		}
		want, err := router.New(o)
		require.NoError(t, err)
		made, err := NewRouter(RouterOptions{Policy: string(o.Policy), Budget: 0.2, File: path})
		require.NoError(t, err)
		assert.Equal(t, policy{want}, made)
	}
	file.Certificate.Policy = router.Verify
	b.Reset()
	require.NoError(t, file.Write(gguf.NewWriter(&b)))
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	made, err := NewRouter(RouterOptions{File: path})
	require.NoError(t, err)
	r := made.(policy).r
	assert.True(t, r.Verifies())
	assert.InDelta(t, math.Log(4), r.Margin(0), 1e-12, "the certificate's")
	made, err = NewRouter(RouterOptions{File: path, Policy: "learned"})
	require.NoError(t, err)
	assert.False(t, made.(policy).r.Verifies(), "a given policy takes precedence")
}

// TestOpened: the limits of a service and the context of a drafter, which does not depend on that of the model.
func TestOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	require.NoError(t, os.WriteFile(path, demo.Small(), 0o600))
	m, err := Load(demo.Large(), "large.gguf", Options{Context: 64, Threads: 1, Drafter: path})
	require.NoError(t, err)
	defer m.Close()
	assert.Equal(t, 64, m.Context())
	assert.Greater(t, m.drafter.Context(), 64)
	assert.Equal(t, []int{1, 1}, []int{m.Threads(), m.drafter.Threads()})
	fingerprint, err := m.Fingerprint()
	require.NoError(t, err)
	want, err := m.File().Fingerprint()
	require.NoError(t, err)
	assert.Equal(t, want, fingerprint)
	s, err := m.Serve(ServeOptions{Tokens: 100, Rows: 9})
	require.NoError(t, err)
	defer s.Close()
	assert.Equal(t, 100, s.s.Slots())
	assert.Equal(t, 9, s.s.Rows())
}

// TestDrafterRefused: a model whose drafter cannot be used is not open.
func TestDrafterRefused(t *testing.T) {
	dir := held.TempDir(t)
	large, other := filepath.Join(dir, "large.gguf"), filepath.Join(dir, "other.gguf")
	require.NoError(t, os.WriteFile(large, demo.Large(), 0o600))
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	out, err := os.Create(other)
	require.NoError(t, err)
	require.NoError(t, errors.Join(synth.Tiny(recipe, 1).Write(out, nil), out.Close()))
	for drafter, want := range map[string]string{"/nowhere/small.gguf": "drafter: ", other: "tokens"} {
		_, err := Open(large, Options{Drafter: drafter})
		assert.ErrorContains(t, err, want, drafter)
	}
}

// TestChatCopies: a chat and its caller do not change each other's lists.
func TestChatCopies(t *testing.T) {
	m := loaded(t, demo.Small())
	said := append(make([]Message, 0, 4), Message{Role: "user", Content: "a"})
	o := ChatOptions{System: "s", Messages: said, Options: []Option{MaxTokens(1)},
		Template: []TemplateValue{Thinking(false)}}
	chat := m.NewChat(o)
	assert.Equal(t, []Message{{Role: "user", Content: "a"}, {}}, said[:2])
	said[0].Content, o.Options[0], o.Template[0] = "b", MaxTokens(2), Thinking(true)
	chat.Messages()[0].Content = "t"
	assert.Equal(t, []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "a"}}, chat.Messages())
	assert.Equal(t, 1, newRequest(chat.options).settings.MaxTokens)
	assert.Equal(t, []TemplateValue{Thinking(false)}, chat.values)
	_, err := Text(chat.Send(t.Context(), "b", MaxTokens(3)))
	require.NoError(t, err)
	assert.Equal(t, 3, chat.Stats().Tokens, "the option of the question comes after that of the chat")
}

// TestChatLeft: an answer that the caller leaves or stops is part of the conversation as far as it came.
func TestChatLeft(t *testing.T) {
	m := loaded(t, demo.Small())
	chat, text := m.NewChat(ChatOptions{}), ""
	answer := chat.Send(t.Context(), "Who?", Settings{Local: true})
	for range 2 { // each range asks again
		n := 0
		for tok, err := range answer {
			require.NoError(t, err)
			text += tok.Text
			if n++; n == 3 {
				break
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for tok, err := range chat.Send(ctx, "And?") {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		text += tok.Text
		stop()
	}
	got := chat.Messages()
	require.Len(t, got, 6)
	assert.Equal(t, text, got[1].Content+got[3].Content+got[5].Content)
	for i, m := range got {
		assert.Equal(t, []string{"user", "assistant"}[i%2], m.Role)
		assert.True(t, m.Local)
	}
}

// TestTokensOfModel: the bytes and the name of a token, its text, and the number of tokens.
func TestTokensOfModel(t *testing.T) {
	m := loaded(t, demo.Small())
	ids, err := m.Tokenize("é<|im_end|>", true)
	require.NoError(t, err)
	end := ids[len(ids)-1]
	plain, err := m.Tokenize("é<|im_end|>", false)
	require.NoError(t, err)
	assert.Greater(t, len(plain), len(ids), "the mark is text")
	for _, c := range []struct {
		id          int32
		bytes, name string
	}{{'A', "A", ""}, {0xc3, "\xc3", ""}, {end, "", "<|im_end|>"}} {
		b, err := m.TokenBytes(c.id)
		require.NoError(t, err)
		name, err := m.TokenName(c.id)
		require.NoError(t, err)
		assert.Equal(t, c.bytes, string(b), "the bytes of %d", c.id)
		assert.Equal(t, c.name, name, "the name of %d", c.id)
	}
	text, err := m.Detokenize([]int32{'A', 0xc3, 'B'})
	require.NoError(t, err)
	assert.Equal(t, "A\uFFFDB", text)
	n, err := m.Vocabulary()
	require.NoError(t, err)
	assert.Equal(t, m.e.Model().Config().Vocab, n)
	thinks, err := m.Thinks(nil)
	require.NoError(t, err)
	assert.False(t, thinks)
	_, err = Load([]byte("no model"), "name.gguf", Options{})
	assert.ErrorContains(t, err, "name.gguf: ")
}

// TestCopiedBeginning: a session continues with at most as many tokens of another one as the caller says.
func TestCopiedBeginning(t *testing.T) {
	m := loaded(t, demo.Small())
	ids, first := []int32{65, 66, 67, 68, 69, 70}, m.NewSession()
	say := func(s *Session) int {
		_, err := Text(s.GenerateTokens(t.Context(), ids, MaxTokens(1)))
		require.NoError(t, err)
		return s.Stats().ReusedTokens
	}
	say(first)
	for most, want := range map[int]int{0: 0, 3: 3, 64: 5} { // the last token of a prompt is always computed
		s := m.NewSession()
		require.NoError(t, s.CopyKV(t.Context(), first, most))
		assert.Equal(t, want, say(s), most)
	}
}

// openFar counts the sessions that are open.
type openFar struct {
	open int
	err  error // of each answer
	got  engine.CloudQuestion
}

func (f *openFar) Session(context.Context) (engine.Cloud, func(), error) {
	f.open++
	return f, func() { f.open-- }, nil
}

func (f *openFar) Ask(_ context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	f.got = q
	return engine.CloudAnswer{Reply: terms.Reply{Token: 7, Top: []Candidate{{ID: 8, LogProb: -1}}}}, f.err
}

// TestAskWhole: a question of the caller's own is asked as a whole, and so is its answer.
func TestAskWhole(t *testing.T) {
	f := new(openFar)
	q := Question{Context: []int32{4, 0}, Best: 3, Sampling: Sampling{Temperature: 2, Seed: 5, TopK: 4}}
	a, err := askOnce(t.Context(), f, q, 5, 2)
	require.NoError(t, err)
	assert.Equal(t, Answer{Token: 7, Best: []Candidate{{ID: 8, LogProb: -1}}}, a)
	assert.Equal(t, engine.CloudQuestion{Context: q.Context, K: 3, Sampling: terms.Sampling(q.Sampling)}, f.got)
}

// TestAskEnds: the session of a question of the caller's own ends with its answer or error.
func TestAskEnds(t *testing.T) {
	for _, f := range []*openFar{{}, {err: errors.New("no answer")}} {
		_, err := askOnce(t.Context(), f, Question{Context: []int32{1}}, 2, 2)
		assert.ErrorIs(t, err, f.err)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.Zero(t, f.open)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	f := &openFar{err: errors.New("enough")}
	stop(f.err)
	_, err := askOnce(ctx, f, Question{Context: []int32{1}}, 2, 2)
	assert.ErrorIs(t, err, f.err)
	assert.ErrorIs(t, err, context.Canceled, "the caller ended it")
}

// TestClosedModel: a model that is closed has no tokens.
func TestClosedModel(t *testing.T) {
	m, err := Load(demo.Small(), "demo.gguf", Options{Context: 64})
	require.NoError(t, err)
	session, chat := m.NewSession(), m.NewChat(ChatOptions{})
	_, err = Text(session.Generate(t.Context(), "a", MaxTokens(1)))
	require.NoError(t, err)
	_, err = Text(session.Generate(t.Context(), "a", Route{}))
	require.ErrorContains(t, err, "a route without a cloud")
	require.NoError(t, m.Close())
	for name, f := range map[string]func() error{
		"Tokenize":     func() error { _, err := m.Tokenize("a", false); return err },
		"Detokenize":   func() error { _, err := m.Detokenize([]int32{65}); return err },
		"TokenBytes":   func() error { _, err := m.TokenBytes(65); return err },
		"TokenName":    func() error { _, err := m.TokenName(65); return err },
		"Vocabulary":   func() error { _, err := m.Vocabulary(); return err },
		"TextTokens":   func() error { _, err := m.TextTokens("a"); return err },
		"ChatTokens":   func() error { _, err := m.ChatTokens([]Message{{Role: "user"}}, nil); return err },
		"Thinks":       func() error { _, err := m.Thinks(nil); return err },
		"InfillTokens": func() error { _, err := m.InfillTokens(Infill{}); return err },
		"Generate":     func() error { _, err := Text(session.Generate(t.Context(), "a")); return err },
		"Score":        func() error { _, err := Text(session.Score(t.Context(), []int32{65}, 0)); return err },
		"SaveKV":       func() error { return session.SaveKV(t.Context(), io.Discard) },
		"Send":         func() error { _, err := Text(chat.Send(t.Context(), "a")); return err },
	} {
		assert.ErrorIs(t, f(), ErrClosed, name)
	}
	for _, open := range []func(Options) (*Model, error){
		func(o Options) (*Model, error) { return Open("/nowhere/m.gguf", o) },
		func(o Options) (*Model, error) { return Load(demo.Small(), "demo.gguf", o) },
	} {
		_, err = open(Options{Backend: "abacus"})
		assert.ErrorContains(t, err, "abacus")
		_, err = open(Options{KV: "f8"})
		assert.Error(t, err)
	}
	_, err = Load([]byte("GGUF"), "short.gguf", Options{})
	assert.ErrorContains(t, err, "short.gguf: ")
	_, err = NewRouter(RouterOptions{File: "/nowhere/router.gguf"})
	assert.ErrorContains(t, err, "/nowhere/router.gguf")
	assert.ErrorContains(t, m.Check(Best(-1)), "best: -1")
	_, err = m.Dial(t.Context(), "h:1", DialOptions{})
	assert.ErrorIs(t, err, ErrClosed)
}

// TestChatTurns: a chat asks with the messages before, which stay as local as they were, and has nothing to save before
// it has answered.
func TestChatTurns(t *testing.T) {
	m := loaded(t, demo.Small())
	prompts := map[int]int{}
	for n, before := range [][]Message{nil, {{Role: "user", Content: "why?"}, {Role: "assistant", Content: "so"}}} {
		chat := m.NewChat(ChatOptions{Messages: before})
		for range 2 {
			assert.ErrorContains(t, chat.SaveKV(t.Context(), io.Discard), "nothing has been generated")
		}
		_, err := Text(chat.Send(t.Context(), "b", MaxTokens(1)))
		require.NoError(t, err)
		prompts[n] = chat.Stats().PromptTokens
		assert.False(t, chat.isLocal())
		chat.Close()
	}
	assert.Greater(t, prompts[1], prompts[0]+2)
}

// TestDialRefused: options of a connection that are wrong.
func TestDialRefused(t *testing.T) {
	for want, o := range map[string]DialOptions{"timeout: -1ns is negative": {Timeout: -1}, "pin: ": {Pin: "12"}} {
		_, err := o.engineOptions()
		assert.ErrorContains(t, err, want)
	}
	o, err := DialOptions{Timeout: 1}.engineOptions()
	require.NoError(t, err)
	assert.Equal(t, engine.DialOptions{ConnectTimeout: 1}, o)
}

// TestText: the text of an answer is without its thought, and ends before an error.
func TestText(t *testing.T) {
	text, err := Text(func(yield func(Token, error) bool) {
		_ = yield(Token{Text: "t", Kind: KindThought}, nil) && yield(Token{Text: "a"}, nil) &&
			yield(Token{Text: "b"}, nil) && yield(Token{}, io.ErrUnexpectedEOF)
	})
	assert.Equal(t, io.ErrUnexpectedEOF, err)
	assert.Equal(t, "ab", text)
	assert.Equal(t, TemplateValue{Name: "enable_thinking", Value: true}, Thinking(true))
}

// TestScore: each token of a text with its log-probability, of which a caller may take some.
func TestScore(t *testing.T) {
	m := loaded(t, demo.Small())
	for _, most := range []int{1, 3} {
		var got []Token
		for token, err := range m.NewSession().Score(t.Context(), []int32{'A', 'B', 'C'}, 2) {
			require.NoError(t, err)
			if got = append(got, token); len(got) == most {
				break
			}
		}
		require.Len(t, got, most)
		for i, token := range got {
			assert.Equal(t, int32('A'+i), token.ID)
			assert.Equal(t, i, token.Pos)
			assert.Equal(t, string(rune('A'+i)), token.Text)
			assert.Equal(t, Edge, token.Origin)
			assert.Equal(t, i == 0, math.IsNaN(float64(token.LogProb)))
			assert.Positive(t, token.At)
		}
	}
	_, err := Text(m.NewSession().Score(t.Context(), make([]int32, 65), 0))
	assert.ErrorIs(t, err, ErrContext)
}

// TestSavedChat: a chat with the same messages continues from keys and values of another, and one with others does not.
func TestSavedChat(t *testing.T) {
	m, err := Load(demo.Small(), "demo.gguf", Options{Context: 128})
	require.NoError(t, err)
	defer m.Close()
	chat := m.NewChat(ChatOptions{Options: []Option{MaxTokens(3)}})
	_, err = Text(chat.Send(t.Context(), "who?"))
	require.NoError(t, err)
	var saved bytes.Buffer
	require.NoError(t, chat.SaveKV(t.Context(), &saved))
	for _, same := range []bool{true, false} {
		o := ChatOptions{Options: []Option{MaxTokens(3)}}
		if same {
			o.Messages = chat.Messages()
		}
		other := m.NewChat(o)
		err := other.LoadKV(t.Context(), bytes.NewReader(saved.Bytes()))
		assert.Equal(t, !same, errors.Is(err, ErrOtherSaved), "%v", err)
		_, err = Text(other.Send(t.Context(), "why?"))
		require.NoError(t, err)
		kept := chat.Stats().PromptTokens
		assert.Equal(t, same, other.Stats().ReusedTokens >= kept, "%d of %d", other.Stats().ReusedTokens, kept)
		require.ErrorIs(t, other.LoadKV(t.Context(), strings.NewReader("x")), ErrNotSaved)
	}
}

// TestUsualRoute: a route without a router has the usual one, and only one that verifies refuses penalties.
func TestUsualRoute(t *testing.T) {
	m := loaded(t, demo.Small())
	route, err := m.engineRoute(newRequest([]Option{Route{Cloud: &listener{}}}), nil)
	require.NoError(t, err)
	assert.NotNil(t, route.Router)
	for _, verify := range []bool{false, true} {
		err := m.Check(Settings{RepeatPenalty: 2}, Route{Cloud: &Gateway{}, Verify: verify})
		assert.Equal(t, verify, err != nil, "%v", err)
	}
}

// TestRefusedQuestions: the limits of a question of the caller's own are allowed, and nothing beyond.
func TestRefusedQuestions(t *testing.T) {
	for want, q := range map[string]Question{
		"": {Context: []int32{0, 4, 0}, Best: MostBest}, "the context is empty": {},
		"4 tokens are given, the large model takes 1 to 3":          {Context: make([]int32, 4)},
		"token 1 of the context is 5: ids of this model are 0 to 4": {Context: []int32{4, 5}},
		"token 0 of the context is -1":                              {Context: []int32{-1}},
		"best: 257 tokens are not possible":                         {Context: []int32{1}, Best: MostBest + 1},
		"best: -1 tokens are not possible":                          {Context: []int32{1}, Best: -1},
		"temperature": {Context: []int32{1},
			Sampling: Sampling{Temperature: -1}},
	} {
		if err := q.checkQuestion(5, 3); want == "" {
			assert.NoError(t, err)
			assert.ErrorIs(t, Question{Context: make([]int32, 4)}.checkQuestion(5, 3), ErrContext)
			assert.NoError(t, Question{Context: make([]int32, 4)}.checkQuestion(5, 0), "an unknown limit")
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

// TestRefusedRoutes: routers and routes that contradict themselves.
func TestRefusedRoutes(t *testing.T) {
	half := 0.5
	for _, name := range []string{"always", "never"} {
		_, err := NewRouter(RouterOptions{Policy: name})
		assert.NoError(t, err, name)
		for _, o := range []RouterOptions{{Threshold: &half}, {Budget: 0.1}, {Balance: new(Balance)}} {
			o.Policy = name
			_, err := NewRouter(o)
			assert.ErrorContains(t, err, "the policy "+name+" has no budget")
		}
	}
	local := Settings{Local: true}
	for want, options := range map[string][]Option{
		"a route without a cloud": {Route{}},
		"clouds cannot verify":    {Route{Cloud: &listener{}, Verify: true}},
		errUnverified.Error():     {Route{Cloud: &Gateway{}, Verify: true}, local},
		"best: -1 tokens":         {Best(-1)},
	} {
		_, err := new(Model).engineRoute(newRequest(options), nil)
		assert.ErrorContains(t, err, want)
	}
	assert.True(t, newRequest([]Option{local, Settings{}}).settings.Local, "later settings do not change that")
}
