package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/serve"
)

// recorder is a large model that records all texts that arrive at its gateway.
type recorder struct {
	id netproto.Identity

	mu    sync.Mutex
	texts [][]int32
}

func (r *recorder) Info() gateway.Info { return gateway.Info{Model: "recorder", Identity: r.id} }

func (r *recorder) Forget(uint64) {}

func (r *recorder) Warm(_ context.Context, q terms.Job) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, slices.Clone(q.Context))
	return nil
}

func (r *recorder) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	return terms.Reply{Token: 300 + int32(len(q.Context)%50)}, r.Warm(ctx, q)
}

// recorded starts a gateway that records, and a server of a tiny model with it, which keeps one text in memory and
// others in files.
func recorded(t *testing.T) (*recorder, http.Handler, *pilotfish.Model) {
	file := clitest.TinyModel(t, "q8_0")
	e, err := engine.Open(file, engine.Options{})
	require.NoError(t, err)
	r := new(recorder)
	r.id, err = e.Identity()
	require.NoError(t, err)
	require.NoError(t, e.Close())
	g, err := gateway.New(gateway.Options{}, r)
	require.NoError(t, err)
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		assert.NoError(t, socket.Close())
	})
	m, err := pilotfish.Open(file, pilotfish.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	cloud, err := m.Dial(t.Context(), socket.LocalAddr().String(), pilotfish.DialOptions{Pin: g.Fingerprint().String()})
	require.NoError(t, err)
	t.Cleanup(func() { cloud.Close() })
	route := pilotfish.Route{Cloud: cloud, Deadline: -1, Warm: 1}
	route.Router, err = pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "always"})
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	folder, err := serve.OpenFolder(t.TempDir(), 1<<30, log)
	require.NoError(t, err)
	t.Cleanup(folder.Close)
	s := serve.New(m, serve.Options{Names: []string{"m"}, Log: log, Route: &route, Parallel: 1, Sessions: 1,
		Folder: folder, Random: rand.New(rand.NewPCG(3, 4)).Uint64})
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return r, s, m
}

// object is JSON.
type object = map[string]any

// said is an answer, which later requests continue.
type said struct {
	local    bool // nothing of it may leave the device
	id, item string
	turns    []any // of a chat, with the answer
}

// chain makes random requests that continue earlier ones.
type chain struct {
	*rand.Rand
	t       *testing.T
	server  http.Handler
	chats   []said
	stored  []said   // of /v1/responses
	secrets []string // texts of local answers
}

// do sends a request, which is local or not, and returns the response, with its text.
func (c *chain) do(path string, body object, local bool) (o struct {
	ID     string
	Output []struct{ ID string }
}, text string) {
	var b, out bytes.Buffer
	body["max_tokens"], body["temperature"] = 16, 100
	require.NoError(c.t, json.NewEncoder(&b).Encode(body))
	w := httptest.NewRecorder()
	c.server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, &b))
	require.Equal(c.t, http.StatusOK, w.Code, w.Body)
	require.NoError(c.t, json.Unmarshal(w.Body.Bytes(), &o))
	var all struct {
		Own     struct{ Receipt struct{ Tokens int } } `json:"pilotfish"`
		Choices []struct {
			Text    string
			Message struct{ Content string }
		}
		Output  []struct{ Content []struct{ Text string } }
		Content json.RawMessage
	}
	require.NoError(c.t, json.Unmarshal(w.Body.Bytes(), &all))
	require.Equal(c.t, local, all.Own.Receipt.Tokens == 0, "%s %v: %s", path, body, w.Body)
	for _, choice := range all.Choices {
		out.WriteString(choice.Text + choice.Message.Content)
	}
	for _, item := range all.Output {
		out.WriteString(item.Content[0].Text)
	}
	var blocks []struct{ Text string }
	if json.Unmarshal(all.Content, &text) == nil {
		out.WriteString(text)
	} else if json.Unmarshal(all.Content, &blocks) == nil && len(blocks) > 0 {
		out.WriteString(blocks[0].Text)
	}
	if local {
		c.secrets = append(c.secrets, out.String())
	}
	return o, out.String()
}

// step sends one request.
func (c *chain) step(n int) {
	body, local := object{}, false
	if mark := c.IntN(6); mark < 2 {
		local = mark == 0
		body["pilotfish"] = object{"local": local}
	}
	question := object{"role": "user", "content": fmt.Sprintf("question %d", c.IntN(5))}
	marked := c.IntN(8) == 0
	if marked {
		question["content"], question["pilotfish"] = fmt.Sprintf("question of step %d", n), object{"local": true}
	}
	switch path := []string{"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/responses",
		"/v1/completions"}[c.IntN(5)]; path {
	case "/v1/chat/completions", "/v1/messages":
		from := c.chats[c.IntN(len(c.chats))]
		turns := append(append([]any{}, from.turns...), question)
		body["messages"] = turns
		is := said{local: local || marked || from.local}
		_, text := c.do(path, body, is.local)
		is.turns = append(turns, object{"role": "assistant", "content": text, "pilotfish": object{"local": is.local}})
		c.chats = append(c.chats, is)
	case "/v1/responses":
		from, input := c.stored[c.IntN(len(c.stored))], []any{}
		if from.id != "" && c.IntN(2) == 0 {
			body["previous_response_id"] = from.id
		} else if from.id != "" {
			input = append(input, object{"type": "item_reference", "id": from.item})
		}
		body["input"] = append(input, question)
		is := said{local: local || marked || from.local}
		o, _ := c.do(path, body, is.local)
		is.id, is.item = o.ID, o.Output[0].ID
		c.stored = append(c.stored, is)
	default:
		body["prompt"] = "question 1"
		c.do(path, body, local)
	}
}

// TestLocalChains: of random chains of requests in all APIs, no part of a local answer arrives at the gateway: neither
// with requests that continue it by its id or refer to its item, nor with those that send it back with its mark, nor
// from the texts that sessions and files keep. Such requests are local, whatever they say themselves.
func TestLocalChains(t *testing.T) {
	there, server, m := recorded(t)
	c := &chain{Rand: rand.New(rand.NewPCG(1, 2)), t: t, server: server, chats: []said{{}}, stored: []said{{}}}
	for n := range 80 {
		c.step(n)
	}
	there.mu.Lock()
	defer there.mu.Unlock()
	var arrived strings.Builder
	for _, ids := range there.texts {
		for _, id := range ids {
			b, err := m.TokenBytes(id)
			require.NoError(t, err)
			arrived.Write(b)
		}
		arrived.WriteByte('\n')
	}
	require.Contains(t, arrived.String(), "question 1")
	require.Greater(t, len(c.secrets), 20)
	const part = 48 // bytes of five tokens or more: three were the same in other random answers, once in 40 runs
	for _, secret := range c.secrets {
		for i := range len(secret) - part {
			if some := secret[i : i+part]; !strings.Contains(some, "\ufffd") {
				require.False(t, strings.Contains(arrived.String(), some), "%q arrived", some)
			}
		}
	}
	assert.NotContains(t, arrived.String(), "of step", "a marked question")
}
