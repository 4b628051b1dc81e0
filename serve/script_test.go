//go:build clients

package serve

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

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
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

// planMark is before what the answer will be.
const planMark = "\nplan:"

func (scripted) Context() int { return 1 << 20 }

func (scripted) ContextLimit() int { return 1 << 20 }

func (scripted) Vocabulary() (int, error) { return 256, nil }

func (scripted) Thinks([]int32) (bool, error) { return false, nil }

// ChatTokens writes a chat with its tools, and last what the answer will be.
func (m scripted) ChatTokens(turns []pilotfish.Message, tools [][]byte, _ ...pilotfish.TemplateValue) ([]int32, error) {
	var b strings.Builder
	for _, t := range tools {
		b.Write(t)
	}
	done := 0
	for _, msg := range turns {
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
	return idsOf(b.String() + planMark + plan + "\nassistant:"), nil
}

// next returns the text that follows a prompt.
func (m scripted) next(prompt string) string {
	_, plan, _ := strings.Cut(prompt[strings.LastIndex(prompt, planMark):], ":")
	plan, _, _ = strings.Cut(plan, "\n")
	switch {
	case plan == "":
		return m.text
	case strings.HasSuffix(prompt, callOver):
		return ""
	case strings.HasSuffix(prompt, callMark+"\n"):
		return plan
	}
	return callMark + "\n" + plan
}

func (scripted) Tokenize(text string, _ bool) ([]int32, error) { return idsOf(text), nil }

func (m scripted) TextTokens(text string) ([]int32, error) { return m.Tokenize(text, true) }

func (scripted) TokenBytes(id int32) ([]byte, error) { return []byte{byte(id)}, nil }

func (scripted) TokenName(int32) (string, error) { return "", nil }

func (scripted) InfillTokens(pilotfish.Infill) ([]int32, error) { return nil, pilotfish.ErrUnsupported }

func (scripted) Check(context.Context, terms.Settings) ([]string, error) { return nil, nil }

func (scripted) SavedText(io.Reader) ([]int32, error) { return nil, os.ErrNotExist }

func (m scripted) NewSession() session { return &scriptedSession{m: m} }

// scriptedSession is a text of the model. Nothing copies or saves it.
type scriptedSession struct {
	session
	m    scripted
	text []int32
	sum  engine.Summary
}

func (s *scriptedSession) Generate(_ context.Context, prompt []int32, _ terms.Settings) iter.Seq2[engine.Token,
	error] {
	return func(yield func(engine.Token, error) bool) {
		text := s.m.next(textOf(prompt))
		s.sum = engine.Summary{Text: text, Routing: engine.Routing{
			ReusedTokens: min(terms.CommonPrefix(s.text, prompt), len(prompt)-1)}}
		s.text = append(prompt, idsOf(text)...)
		for _, c := range []byte(text) {
			if !yield(engine.Token{ID: int32(c), Local: int32(c), Text: string(rune(c)), Origin: "edge"}, nil) {
				return
			}
		}
		s.sum.Stop = pilotfish.StopEnd
	}
}

func (s *scriptedSession) Summary() engine.Summary { return s.sum }

func (s *scriptedSession) End() *engine.Token { return nil }

func (s *scriptedSession) KVTokens() int { return len(s.text) }

func (s *scriptedSession) CopyKV(_ context.Context, from session, n int) error {
	s.text = slices.Clone(from.(*scriptedSession).text[:n])
	return nil
}

func (s *scriptedSession) Close() error { return nil }

// serveScript serves a script. It returns the base URL, and what the last request took.
func serveScript(t *testing.T, m scripted) (url string, last func() Event) {
	t.Helper()
	var mu sync.Mutex
	var event Event
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := newServer(m, Options{Names: []string{"fish"}, Fingerprint: "fp_script", Random: rand.Uint64, Log: log,
		Events: func(e Event) {
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
	return "http://" + listener.Addr().String() + "/v1", func() Event {
		mu.Lock()
		defer mu.Unlock()
		return event
	}
}
