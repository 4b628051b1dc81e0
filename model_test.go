package pilotfish

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
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

// TestDefaultRouter: without a router 7% of the tokens are asked for.
func TestDefaultRouter(t *testing.T) {
	r, err := NewRouter(RouterOptions{})
	require.NoError(t, err)
	assert.Equal(t, 0.07, r.(policy).r.Balance().Total().Budget)
}

// TestCertifiedRouter: the threshold of a certificate holds for the policy of the file, unless the caller gives a
// threshold, a budget or a balance. A budget starts from the confidences in the file, for the policy of the file.
func TestCertifiedRouter(t *testing.T) {
	f, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	file, err := router.Read(f)
	require.NoError(t, err)
	file.Certificate = &router.Certificate{Threshold: 0.25, Prompts: 1, Tokens: 1, MaxTokens: 1}
	file.Confidences = []float32{0.25, 0.5}
	var b bytes.Buffer
	require.NoError(t, file.Write(gguf.NewWriter(&b)))
	path, own := filepath.Join(t.TempDir(), "router.gguf"), 0.5
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	for _, c := range []struct {
		o                 RouterOptions
		threshold, budget float64
	}{
		{RouterOptions{}, 0.25, 0}, {RouterOptions{Threshold: &own}, 0.5, 0}, {RouterOptions{Budget: 0.2}, 0, 0.2},
		{RouterOptions{Balance: new(Balance)}, 0, DefaultBudget}, {RouterOptions{Policy: "margin"}, 0, DefaultBudget},
	} {
		c.o.File = path
		made, err := NewRouter(c.o)
		require.NoError(t, err)
		if r := made.(policy).r; c.budget > 0 {
			assert.Equal(t, c.budget, r.Balance().Total().Budget, "%+v", c.o)
		} else {
			assert.Equal(t, c.threshold, r.Threshold(), "%+v", c.o)
		}
	}
	for _, o := range []router.Options{{Policy: router.Learned, Calibration: file.Confidences},
		{Policy: router.Margin}} {
		o.Budget, o.Net = 0.2, file.Net
		want, err := router.New(o)
		require.NoError(t, err)
		made, err := NewRouter(RouterOptions{Policy: string(o.Policy), Budget: 0.2, File: path})
		require.NoError(t, err)
		assert.Equal(t, policy{want}, made)
	}
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
	assert.Equal(t, 1, m.drafter.Threads())
	s, err := m.Serve(ServeOptions{Tokens: 100, Rows: 9})
	require.NoError(t, err)
	defer s.Close()
	assert.Equal(t, [2]int{100, 9}, [2]int{s.s.Slots(), s.s.Rows()})
}

// TestChatCopies: a chat and its caller do not change each other's lists.
func TestChatCopies(t *testing.T) {
	m, err := Load(demo.Small(), "demo.gguf", Options{Context: 64})
	require.NoError(t, err)
	defer m.Close()
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
	_, err = Text(chat.Send(t.Context(), "b", MaxTokens(3)))
	require.NoError(t, err)
	assert.Equal(t, 3, chat.Stats().Tokens, "the option of the question comes after that of the chat")
}

// openFar counts the sessions that are open.
type openFar struct {
	open int
	err  error // of each answer
}

func (f *openFar) Session(context.Context) (engine.Cloud, func(), error) {
	f.open++
	return f, func() { f.open-- }, nil
}

func (f *openFar) Ask(context.Context, engine.CloudQuestion) (engine.CloudAnswer, error) {
	return engine.CloudAnswer{}, f.err
}

// TestAskEnds: the session of a question of the caller's own ends with its answer or error.
func TestAskEnds(t *testing.T) {
	for _, f := range []*openFar{{}, {err: errors.New("no answer")}} {
		_, err := askOnce(t.Context(), f, Question{Context: []int32{1}}, 2, 2)
		assert.ErrorIs(t, err, f.err)
		assert.Zero(t, f.open)
	}
}
