//go:build clients

package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/serve"
	"github.com/pilotfish-ai/pilotfish/serve/answer"
)

// step is a call of a tool that a script makes.
type step struct {
	Tool      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// scripted is a model that follows a script, so that what is tested with an agent is the server. Its tokens are bytes.
// To each chat with the tool of the next step it answers with that call, and after the last one, or without the tool,
// with a text.
type scripted struct {
	steps []step
	text  string
}

// Marks of calls.
const (
	callBegin = "<tool_call>\n"
	callEnd   = "</tool_call>"
	planMark  = "\nplan:"
)

func (scripted) Context() int { return 1 << 20 }

func (scripted) Vocabulary() int { return 256 }

func (scripted) Thinks([]int32) bool { return false }

// Chat writes a chat with its tools, and last what the answer will be.
func (m scripted) Chat(c answer.Conversation) ([]int32, error) {
	var b strings.Builder
	for _, t := range c.Tools {
		b.Write(t)
	}
	done := 0
	for _, msg := range c.Messages {
		fmt.Fprintf(&b, "\n%s:%s", msg.Role, msg.Content)
		done += len(msg.Calls)
	}
	plan := ""
	if done < len(m.steps) && strings.Contains(b.String(), fmt.Sprintf(`"name":%q`, m.steps[done].Tool)) {
		b, err := json.Marshal(m.steps[done])
		if err != nil {
			return nil, err
		}
		plan = string(b)
	}
	return bytesOf(b.String() + planMark + plan + "\nassistant:"), nil
}

// next returns the text that follows a prompt.
func (m scripted) next(prompt string) string {
	_, plan, _ := strings.Cut(prompt[strings.LastIndex(prompt, planMark):], ":")
	plan, _, _ = strings.Cut(plan, "\n")
	switch {
	case plan == "":
		return m.text
	case strings.HasSuffix(prompt, callEnd):
		return ""
	case strings.HasSuffix(prompt, callBegin):
		return plan
	}
	return callBegin + plan
}

func (scripted) Tokenize(text string, _ bool) ([]int32, error) { return bytesOf(text), nil }

func bytesOf(text string) (ids []int32) {
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids
}

func (scripted) Bytes(id int32) []byte { return []byte{byte(id)} }

func (scripted) Name(int32) string { return "" }

func (scripted) Infill(answer.Infill) ([]int32, error) { return nil, answer.ErrNoInfill }

func (scripted) Check(context.Context, answer.Settings) ([]string, error) { return nil, nil }

func (scripted) SavedText(io.Reader) ([]int32, error) { return nil, os.ErrNotExist }

func (m scripted) NewSession() answer.Session { return &scriptedSession{m: m} }

// scriptedSession is a text of the model. Nothing copies or saves it.
type scriptedSession struct {
	answer.Session
	m    scripted
	text []int32
	sum  answer.Summary
}

func (s *scriptedSession) Generate(_ context.Context, prompt []int32, _ answer.Settings) iter.Seq2[answer.Token,
	error] {
	return func(yield func(answer.Token, error) bool) {
		b := make([]byte, len(prompt))
		for i, id := range prompt {
			b[i] = byte(id)
		}
		text := s.m.next(string(b))
		s.sum = answer.Summary{Text: text, Reused: min(terms.CommonPrefix(s.text, prompt), len(prompt)-1)}
		s.text = append(prompt, bytesOf(text)...)
		for _, c := range []byte(text) {
			if !yield(answer.Token{ID: int32(c), Text: string(rune(c)), Origin: "edge"}, nil) {
				return
			}
		}
		s.sum.Stop = answer.StopEnd
	}
}

func (s *scriptedSession) Summary() answer.Summary { return s.sum }

func (s *scriptedSession) KVTokens() int { return len(s.text) }

func (s *scriptedSession) CopyKV(_ context.Context, from answer.Session, n int) error {
	s.text = slices.Clone(from.(*scriptedSession).text[:n])
	return nil
}

func (s *scriptedSession) Close() error { return nil }

// serveScript serves a script. It returns the base URL, and what the last request took.
func serveScript(t *testing.T, m scripted) (url string, last func() serve.Event) {
	t.Helper()
	var mu sync.Mutex
	var event serve.Event
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := serve.New(m, serve.Options{Names: []string{"fish"}, Fingerprint: "fp_script", Random: rand.Uint64, Log: log,
		Events: func(e serve.Event) {
			mu.Lock()
			defer mu.Unlock()
			event = e
		}})
	web := &http.Server{Handler: s}
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, web.Close())
		require.NoError(t, s.Close())
	})
	return "http://" + listener.Addr().String() + "/v1", func() serve.Event {
		mu.Lock()
		defer mu.Unlock()
		return event
	}
}
