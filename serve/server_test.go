package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// TestReuse: a second turn of a chat computes only the new tokens, and usage reports it; another chat has its own
// session, and a repeated request reuses the whole prompt.
func TestReuse(t *testing.T) {
	m := &fakeModel{answer: func(string, terms.Settings) string { return "fine" }}
	s := newTestServer(t, m, nil)
	cached := func(messages string) float64 {
		w := ask(t, s, "/v1/chat/completions", `{"messages":[`+messages+`]}`)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		return at(object(t, w.Body.Bytes()), "usage", "prompt_tokens_details", "cached_tokens").(float64)
	}
	const first = `{"role":"system","content":"You are a fish that is very, very brief."},` +
		`{"role":"user","content":"How are you?"}`
	assert.EqualValues(t, 0, cached(first))
	prompt := len(m.prompts[0])
	assert.EqualValues(t, prompt-1, cached(first), "all except the last token, which is always computed")
	next := first + `,{"role":"assistant","content":"fine"},{"role":"user","content":"And now, after all of that?"}`
	assert.EqualValues(t, prompt+len("fine"), cached(next))
	assert.EqualValues(t, 0, cached(`{"role":"user","content":"Another one, with a text of its own."}`))
	assert.Equal(t, 2, s.Load().Sessions)
	assert.EqualValues(t, len(m.prompts[2])-1, cached(next), "the first chat is still in memory")
}

// TestChatsStay: in each API for chats, two chats that begin alike have a session each, and keep their texts.
func TestChatsStay(t *testing.T) {
	system := strings.Repeat("You are a fish. ", 9)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`,
		messages:               `{"max_tokens":9,"system":%q,"messages":[{"role":"user","content":%q}]}`,
		responses:              `{"instructions":%q,"input":%q}`,
	} {
		var got []Event
		s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Events = func(e Event) { got = append(got, e) } })
		for i, question := range []string{"Who are you?", "What do you eat?", "Who are you?", "What do you eat?"} {
			w := ask(t, s, path, fmt.Sprintf(body, system, question))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			assert.Equal(t, i > 1, got[i].Cached == got[i].Prompt-1, "%s: %d of %d", path, got[i].Cached, got[i].Prompt)
		}
		assert.Equal(t, 2, s.Load().Sessions, path)
	}
}

// TestReuseOfPrompts: what each prompt of a request reuses counts, and not what its further answers do.
func TestReuseOfPrompts(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, nil)
	for _, want := range []int{3 + 3, 3 + 3 + 3} {
		w := ask(t, s, "/v1/completions", `{"prompt":["abcd","abcd","abcd"],"n":2}`)
		assert.EqualValues(t, want, at(object(t, w.Body.Bytes()), "usage", "prompt_tokens_details", "cached_tokens"))
	}
}

// TestReuseBehindLongAnswer: the lost part of a text is measured relative to its prompt, whatever the length of the
// answer.
func TestReuseBehindLongAnswer(t *testing.T) {
	s := newTestServer(t, &fakeModel{answer: long(100)}, nil)
	for range 2 {
		ask(t, s, "/v1/completions", `{"prompt":"ab","max_tokens":100}`)
	}
	assert.Equal(t, 1, s.Load().Sessions)
}

// TestPool: a prompt that continues a text gets its session; one with a common prefix gets a copy of the prefix in a
// new session, which replaces the least recently used one.
func TestPool(t *testing.T) {
	m := &fakeModel{}
	p := newSessionPool(m, 3, nil, slog.New(slog.DiscardHandler))
	put := func(h *pooledSession, text string, prompt int) {
		h.session.(*fakeSession).text = idsOf(text)
		p.releaseSession(h, idsOf(text), prompt)
	}
	take := func(prompt string) (h *pooledSession, known string) {
		h = p.acquireSession(t.Context(), idsOf(prompt), true)
		return h, textOf(h.session.(*fakeSession).text)
	}
	a, known := take("system a?")
	assert.Empty(t, known)
	put(a, "system a?yes", 9)
	b, known := take("system b?")
	assert.NotSame(t, a, b)
	assert.Equal(t, "system ", known)
	put(b, "system b?no", 9)
	for range 3 {
		got, known := take("system a?yes, and?")
		assert.Same(t, a, got)
		assert.Equal(t, "system a?yes", known)
		put(a, "system a?yes", 9)
		got, known = take("system b?")
		assert.Same(t, b, got, "a repeated request")
		assert.Equal(t, "system b?no", known)
		put(b, "system b?no", 9)
	}
	c, known := take("other")
	assert.Empty(t, known)
	put(c, "other", 5)
	require.Equal(t, 3, m.open)
	d, known := take("system d?")
	assert.Equal(t, "system a?yes", known, "its session is the oldest, and nothing is copied")
	assert.Same(t, a, d)
	put(d, "system d?", 9)
	e, known := take("outside")
	assert.Equal(t, "o", known)
	assert.True(t, b.session.(*fakeSession).closed, "the oldest session is closed")
	put(e, "outside", 7)
	assert.Equal(t, 3, m.open)
	p.releaseSession(p.acquireSession(t.Context(), idsOf("outside"), true), nil, 0)
	assert.Equal(t, 2, p.sessionCount(), "a session without a text is not kept")
	p.saveAndCloseIdle()
	assert.Zero(t, m.open)
}

// TestPoolOfCompletions: a completion uses a session if it shares half of the session's last prompt, so that an editor
// has one session; with less in common it starts with a copy.
func TestPoolOfCompletions(t *testing.T) {
	m := &fakeModel{}
	p := newSessionPool(m, 4, nil, slog.New(slog.DiscardHandler))
	a := p.acquireSession(t.Context(), idsOf("aabb"), false)
	p.releaseSession(a, idsOf("aabbcccc"), 4)
	got := p.acquireSession(t.Context(), idsOf("aaxx"), false)
	assert.Same(t, a, got)
	p.releaseSession(a, idsOf("aaxxcccc"), 4)
	a.session.(*fakeSession).text = idsOf("aaxxcccc")
	got = p.acquireSession(t.Context(), idsOf("ayyy"), false)
	assert.NotSame(t, a, got)
	assert.Equal(t, "a", textOf(got.session.(*fakeSession).text))
	p.releaseSession(got, idsOf("ayyy"), 4)
	p.saveAndCloseIdle()
}

// TestPoolOfCancelled: of a text whose computation was cancelled only that counts which was computed: it is not taken
// for the longest beginning of another prompt, and the same prompt goes on with it.
func TestPoolOfCancelled(t *testing.T) {
	p := newSessionPool(&fakeModel{}, 4, nil, slog.New(slog.DiscardHandler))
	defer p.saveAndCloseIdle()
	put := func(h *pooledSession, prompt, computed string) {
		h.session.(*fakeSession).text = idsOf(computed)
		p.releaseSession(h, idsOf(prompt), len(prompt))
	}
	part := p.acquireSession(t.Context(), idsOf("system that is cut"), true)
	whole := &pooledSession{session: p.model.NewSession()}
	p.used++
	put(part, "system that is cut", "sys")
	assert.Same(t, part, p.acquireSession(t.Context(), idsOf("system that is cut"), true))
	put(part, "system that is cut", "sys")
	put(whole, "system a?", "system a?")
	assert.Equal(t, sessionChoice{from: whole, same: 7}, p.longestPrefixSession(idsOf("system that was cut")))
	assert.Zero(t, p.used)
}

// slowCopy is a model with sessions that are copied slowly.
type slowCopy struct{ *fakeModel }

func (m slowCopy) NewSession() session {
	return slowSession{m.fakeModel.NewSession().(*fakeSession)}
}

type slowSession struct{ *fakeSession }

func (s slowSession) CopyKV(ctx context.Context, from session, n int) error {
	time.Sleep(time.Second)
	if from.(slowSession).closed {
		return errors.New("closed during a copy")
	}
	return s.fakeSession.CopyKV(ctx, from.(slowSession).fakeSession, n)
}

// TestPoolLends: a request that continues a text while its prefix is being copied waits for the copy, and has all of
// the text. A text that is being copied is not evicted; a new one waits for it.
func TestPoolLends(t *testing.T) {
	for text, goesOn := range map[string]bool{"system a and": true, "new": false} {
		bubble.Test(t, func(t *testing.T) {
			m := &fakeModel{}
			p := newSessionPool(slowCopy{m}, 2, nil, slog.New(slog.DiscardHandler))
			give := func(h *pooledSession, text string) {
				h.session.(slowSession).fakeSession.text = idsOf(text)
				p.releaseSession(h, idsOf(text), len(text))
			}
			give(p.acquireSession(t.Context(), idsOf("x"), true), "x")
			a := p.acquireSession(t.Context(), idsOf("system a"), true)
			give(a, "system a")
			var all sync.WaitGroup
			begin := time.Now()
			all.Go(func() {
				h := p.acquireSession(t.Context(), idsOf("system b"), true) // in place of x
				assert.Equal(t, "system ", textOf(h.session.(slowSession).text))
				assert.False(t, goesOn && a.session.(slowSession).closed)
				time.Sleep(time.Second) // in virtual time: the requests that waited for the copy continue meanwhile
				give(h, "system b")
			})
			synctest.Wait()
			all.Go(func() {
				h := p.acquireSession(t.Context(), idsOf(text), true)
				assert.Equal(t, goesOn, h == a)
				assert.Equal(t, time.Second, time.Since(begin))
				give(h, text)
			})
			all.Wait()
			assert.LessOrEqual(t, m.limit, 2)
			p.saveAndCloseIdle()
			assert.Zero(t, m.open)
		})
	}
}

// TestPoolWakesAll: when a copy is complete, all that waited for it go on.
func TestPoolWakesAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newSessionPool(slowCopy{&fakeModel{}}, 2, nil, slog.New(slog.DiscardHandler))
		defer p.saveAndCloseIdle()
		p.releaseSession(p.acquireSession(t.Context(), idsOf("system a"), true), idsOf("system a"), 8)
		var all sync.WaitGroup
		begin := time.Now()
		for _, prompt := range []string{"system b", "system a and", "new"} { // a copy, and two that need the first text
			all.Go(func() {
				h := p.acquireSession(t.Context(), idsOf(prompt), true)
				assert.Equal(t, time.Second, time.Since(begin), prompt)
				time.Sleep(time.Minute)
				p.releaseSession(h, nil, 0)
			})
			synctest.Wait()
		}
		all.Wait()
	})
}

// brokenCopy is a model with sessions that cannot be copied.
type brokenCopy struct{ *fakeModel }

func (m brokenCopy) NewSession() session { return brokenSession{m.fakeModel.NewSession()} }

type brokenSession struct{ session }

func (brokenSession) CopyKV(context.Context, session, int) error {
	return errors.New("no memory")
}

// TestPoolCopyFails: a text that cannot be copied is computed again, and is given back.
func TestPoolCopyFails(t *testing.T) {
	var log bytes.Buffer
	p := newSessionPool(brokenCopy{&fakeModel{}}, 3, nil, slog.New(slog.NewTextHandler(&log, nil)))
	defer p.saveAndCloseIdle()
	p.releaseSession(p.acquireSession(t.Context(), idsOf("system a"), true), idsOf("system a"), 8)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i, ctx := range []context.Context{ended, t.Context()} {
		p.releaseSession(p.acquireSession(ctx, idsOf("system b"), true), nil, 0)
		require.Len(t, p.idle, 1)
		assert.Zero(t, p.idle[0].lent)
		assert.Equal(t, i, strings.Count(log.String(), "could not be copied"), "not of a request that has ended")
	}
}

// TestPoolBound: sessions in use count, and the number of kept sessions is limited.
func TestPoolBound(t *testing.T) {
	m := &fakeModel{}
	p := newSessionPool(m, 2, nil, slog.New(slog.DiscardHandler))
	for i := range 20 {
		h := p.acquireSession(t.Context(), idsOf(fmt.Sprintf("%02d", i)), true)
		p.releaseSession(h, idsOf(fmt.Sprintf("%02d", i)), 2)
	}
	assert.LessOrEqual(t, m.limit, 2)
	assert.Equal(t, 2, p.sessionCount(), "and up to the limit")
	var all []*pooledSession
	for i := range 3 { // requests that stand aside have sessions beyond the limit
		all = append(all, p.acquireSession(t.Context(), idsOf(fmt.Sprint("x", i)), true))
	}
	assert.Equal(t, 3, p.sessionCount())
	for _, h := range all {
		p.releaseSession(h, idsOf("x"), 1)
	}
	assert.Equal(t, 2, p.sessionCount())
	p.saveAndCloseIdle()
	assert.Zero(t, m.open)
}

// TestKeys: with API keys, all requests except health need one of them.
func TestKeys(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "numbers") })
	s := newTestServer(t, &fakeModel{}, func(o *Options) {
		o.Keys, o.Metrics = []string{"one-key", "other-key"}, metrics
	})
	const body = `{"prompt":"x"}`
	for header, want := range map[string]int{
		"": 401, "Bearer one-key": 200, "bearer other-key": 200, "Bearer one-ke": 401, "Bearer one-keyx": 401,
		"Basic one-key": 401, "Bearer ": 401, "Bearer": 401, "one-key": 401,
	} {
		w := ask(t, s, "/v1/completions", body, "Authorization", header)
		assert.Equal(t, want, w.Code, header)
		if want == 401 {
			assert.Contains(t, w.Body.String(), `"invalid_api_key"`)
			given := strings.HasPrefix(strings.ToLower(header), "bearer o")
			assert.Equal(t, given, strings.Contains(w.Body.String(), "this API key is not the server's"), header)
			assert.NotContains(t, w.Body.String(), "one-key")
		}
		for _, path := range []string{"/v1/models", "/metrics", "/v1/models/fish"} {
			assert.Equal(t, want, ask(t, s, path, "", "Authorization", header).Code, path)
		}
		assert.Equal(t, map[bool]int{true: 401, false: 404}[want == 401],
			ask(t, s, "/", "", "Authorization", header).Code, "there is no page")
		assert.Equal(t, 200, ask(t, s, "/health", "").Code)
		assert.Equal(t, want == 401, w.Header().Get("WWW-Authenticate") == "Bearer", header)
	}
	for _, both := range [][]string{{"Bearer other", "one-key"}, {"Bearer one-key", "other"}} {
		assert.Equal(t, 200, ask(t, s, "/v1/completions", body, "Authorization", both[0], "X-Api-Key", both[1]).Code,
			"one of them is accepted")
	}
	open := newTestServer(t, &fakeModel{}, nil)
	assert.Equal(t, 200, ask(t, open, "/v1/completions", body, "Authorization", "Bearer anything").Code,
		"without keys any key is accepted")
	assert.Equal(t, 404, ask(t, open, "/metrics", "").Code)
}

// TestOrigins: browser pages may send requests only from allowed origins.
func TestOrigins(t *testing.T) {
	const page = "https://example.org"
	for name, c := range map[string]struct {
		allowed []string
		from    string
		status  int
	}{
		"none allowed, no page":        {nil, "", 200},
		"none allowed":                 {nil, page, 403},
		"none allowed, a page of disk": {nil, "null", 403},
		"allowed":                      {[]string{page}, page, 200},
		"begins like an allowed one":   {[]string{page}, page + ".evil", 403},
		"all allowed":                  {[]string{"*"}, page, 200},
		"one allowed, no page":         {[]string{page}, "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			m := &fakeModel{}
			s := newTestServer(t, m, func(o *Options) { o.Origins, o.Keys = c.allowed, []string{"key-of-this"} })
			w := ask(t, s, "/v1/completions", `{"prompt":"x"}`, "Origin", c.from, "Authorization", "Bearer key-of-this")
			assert.Equal(t, c.status, w.Code, "%v", c)
			if c.from != "" {
				assert.Equal(t, "Origin", w.Header().Get("Vary"), "caches must separate origins")
			}
			if c.status != 200 {
				assert.Empty(t, m.asked)
				assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
			} else if c.from != "" {
				assert.Equal(t, c.from, w.Header().Get("Access-Control-Allow-Origin"))
				assert.Equal(t, "X-Request-Id, Request-Id, Retry-After, X-Pilotfish-Ignored",
					w.Header().Get("Access-Control-Expose-Headers"))
			}
			r := httptest.NewRequest(http.MethodOptions, "/v1/completions", nil)
			r.Header.Set("Origin", c.from)
			r.Header.Set("Access-Control-Request-Headers", "authorization, content-type, x-stainless-os")
			w = httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if c.from != "" && c.status == 200 {
				assert.Equal(t, http.StatusNoContent, w.Code, "a preflight request needs no key")
				assert.Empty(t, w.Body.String(), "nothing follows")
				assert.Equal(t,
					"authorization, content-type, x-stainless-os", w.Header().Get("Access-Control-Allow-Headers"))
				assert.Equal(t, "600", w.Header().Get("Access-Control-Max-Age"))
				assert.Equal(t, "GET, POST, DELETE, OPTIONS", w.Header().Get("Access-Control-Allow-Methods"))
			} else {
				assert.Equal(t, map[bool]int{true: 401, false: 403}[c.from == ""], w.Code)
				assert.Empty(t, w.Header().Get("Access-Control-Allow-Methods"), "a foreign page is told nothing")
				assert.Empty(t, w.Header().Get("Access-Control-Allow-Headers"))
			}
		})
	}
}

// TestModels: the list of models says how long the context is, and what the model can do: tools only if its template
// has them, thoughts and gaps.
func TestModels(t *testing.T) {
	for name, c := range map[string]struct {
		m    model
		want []any
	}{
		"tools and gaps": {&fakeModel{context: 77, longest: 99}, []any{"completion", "tools", "tool_use", "insert"}},
		"tools and thoughts": {&fakeModel{context: 77, longest: 99, thinks: true, solid: true},
			[]any{"completion", "tools", "tool_use", "thinking"}},
		"no tools": {toolless{&fakeModel{context: 77, longest: 99}}, []any{"completion", "insert"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t, c.m, nil)
			one := object(t, ask(t, s, "/v1/models/small", "").Body.Bytes())
			assert.Equal(t, at(object(t, ask(t, s, "/v1/models", "").Body.Bytes()), "data", 1), any(one))
			for name, want := range map[string]any{"max_model_len": 77.0, "loaded_context_length": 77.0,
				"context_length": 77.0, "context_window": 77.0, "max_input_tokens": 76.0, "max_context_length": 99.0,
				"id":   "small",
				"meta": map[string]any{"n_ctx": 77.0, "n_ctx_train": 99.0, "n_vocab": 257.0}, "capabilities": c.want} {
				assert.Equal(t, want, one[name], name)
			}
			for name, can := range map[string]string{"tools": "tools", "reasoning": "thinking", "top_k": "completion"} {
				got := one["supported_parameters"].([]any)
				assert.Equal(t, slices.Contains(c.want, any(can)), slices.Contains(got, any(name)), name)
			}
		})
	}
}

// toolless is a model with a template that leaves tools out.
type toolless struct{ *fakeModel }

func (m toolless) ChatTokens(turns []pilotfish.Message, _ [][]byte, values ...pilotfish.TemplateValue) ([]int32,
	error) {
	return m.fakeModel.ChatTokens(turns, nil, values...)
}

// TestCountRefused: counting the tokens of a prompt is refused like an answer to it, and does not wait for answers, but
// for others that count.
func TestCountRefused(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Parallel, o.Queue = 1, -1 })
	for body, want := range map[string]int{`{}`: 400, `{` + hello + `,"model":"other"}`: 404, `{` + hello + `}`: 200} {
		assert.Equal(t, want, ask(t, s, messages+"/count_tokens", body).Code, body)
	}
	answering, err := s.limiter.acquireSlot(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 200, ask(t, s, messages+"/count_tokens", `{`+hello+`}`).Code)
	answering.releaseSlot()
	place, err := s.tokenizers.acquireSlot(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 429, ask(t, s, messages+"/count_tokens", `{`+hello+`}`).Code)
	place.releaseSlot()
	assert.Equal(t, 200, ask(t, s, messages+"/count_tokens", `{`+hello+`}`).Code, "the place is given back")
}

// TestNotTCP: a client of a socket without ports is known by the socket's name.
func TestNotTCP(t *testing.T) {
	var log bytes.Buffer
	s := newTestServer(t, &fakeModel{}, func(o *Options) {
		o.Hosts, o.Log = []string{"localhost"}, slog.New(slog.NewTextHandler(&log, nil))
	})
	r := post(t.Context(), "/v1/completions", `{"prompt":"x"}`)
	r.RemoteAddr = "@"
	assert.Equal(t, "@", s.clientID(r))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	assert.Equal(t, http.StatusForbidden, w.Code, "its host is example.com")
	assert.Contains(t, log.String(), " from=@\n")
}

// TestTransport: errors of a request that do not depend on its content.
func TestTransport(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.MaxBody = 100 })
	w := ask(t, s, "/v1/completions", fmt.Sprintf("%-100s", `{"prompt":"x"}`))
	assert.Equal(t, http.StatusOK, w.Code)
	w = ask(t, s, "/v1/completions", fmt.Sprintf("%-101s", `{"prompt":"x"}`))
	assert.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	assert.Contains(t, w.Body.String(), "100 bytes")
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", ""} { // as of curl -d
		w = ask(t, s, "/v1/completions", `{"prompt":"x"}`, "Content-Type", kind)
		assert.Equal(t, http.StatusOK, w.Code, kind)
		for name, value := range map[string]string{"Origin": "http://example.com", "Sec-Fetch-Site": "cross-site"} {
			s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Origins = []string{"*"} })
			w = ask(t, s, "/v1/completions", `{"prompt":"x"}`, "Content-Type", kind, name, value)
			assert.Equal(t, http.StatusUnsupportedMediaType, w.Code, "%s: a page would send it without asking", kind)
		}
	}
	w = ask(t, s, "/v1/completions", `{"prompt":"x"}`, "Content-Type", "application/json; charset=utf-8")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Regexp(t, "^req_", w.Header().Get("X-Request-Id"))
	assert.Equal(t, w.Header().Get("X-Request-Id"), w.Header().Get("Request-Id"), "for Anthropic's clients")
	w = ask(t, s, "/v1/completions", "")
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
	assert.Equal(t, "POST", w.Header().Get("Allow"))
	w = ask(t, s, "/health", "{}")
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
	assert.Equal(t, "GET", w.Header().Get("Allow"))
	for path, want := range map[string]int{"/health": 200, "/v1/models": 200, "/v1/completions": 405} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, nil))
		assert.Equal(t, want, w.Code, path)
	}
}

// TestModelNames: a name may have slashes, as those on the hub; the first name is that of answers.
func TestModelNames(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Names = []string{"Owner/Name", "small"} })
	for name, want := range map[string]int{"Owner/Name": 200, "small": 200, "Owner": 404, "Owner/Name/x": 404,
		"": 404} {
		w := ask(t, s, "/v1/models/"+name, "")
		assert.Equal(t, want, w.Code, name)
		if want == http.StatusOK {
			assert.Equal(t, name, object(t, w.Body.Bytes())["id"])
		}
	}
	s.begun = time.Date(2024, 5, 6, 7, 8, 9, 10, time.FixedZone("", 3600))
	assert.Equal(t, "2024-05-06T06:08:09Z", object(t, ask(t, s, "/v1/models/small", "").Body.Bytes())["created_at"])
	for body, want := range map[string]string{`{"prompt":"x"}`: "Owner/Name",
		`{"prompt":"x","model":"small"}`: "small"} {
		assert.Equal(t, want, object(t, ask(t, s, "/v1/completions", body).Body.Bytes())["model"])
	}
}

// TestHeaders: what is sent says what it is, whole or streamed, and also if it is an error.
func TestHeaders(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, nil)
	for body, stream := range map[string]bool{`{"prompt":"x"}`: false, `{"prompt":"x","stream":true}`: true,
		`{"prompt":""}`: false, `{"prompt":"","stream":true}`: false} {
		w := ask(t, s, "/v1/completions", body)
		want := map[string]string{"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache",
			"X-Accel-Buffering": "no", "Content-Length": ""}
		if !stream {
			want = map[string]string{"Content-Type": "application/json; charset=utf-8",
				"X-Content-Type-Options": "nosniff", "Content-Length": fmt.Sprint(w.Body.Len())}
		}
		for name, value := range want {
			assert.Equal(t, value, w.Header().Get(name), "%s: %s", body, name)
		}
	}
}

// TestDefaults: the values that stand for zero and for negative numbers; others stay.
func TestDefaults(t *testing.T) {
	numbers := func(o Options) []int64 {
		o = o.withDefaults()
		o.Events(Event{}) // there is always one
		return []int64{int64(o.Parallel), int64(o.Queue), int64(o.Sessions), o.MaxBody, int64(o.Kept),
			int64(o.Read / time.Second), int64(o.Timeout / time.Second), int64(o.Stall / time.Second),
			int64(o.KeepAlive / time.Second)}
	}
	assert.Equal(t, []int64{4, 64, 8, 4 << 20, 64 << 20, 30, 600, 10, 15}, numbers(Options{}))
	assert.Equal(t, []int64{3, 0, 6, 4 << 20, 64 << 20, 30, 600, 10, 15}, numbers(Options{Parallel: 3, Queue: -1}))
	assert.Equal(t, []int64{3, 2, 3, 4, 5, 6, 7, 8, 9}, numbers(Options{Parallel: 3, Queue: 2, Sessions: 1, MaxBody: 4,
		Kept: 5, Read: 6 * time.Second, Timeout: 7 * time.Second, Stall: 8 * time.Second, KeepAlive: 9 * time.Second}))
}

// TestSlowSender: the server does not wait for a request that does not arrive.
func TestSlowSender(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Read = 20 * time.Millisecond })
	web := httptest.NewServer(s)
	defer web.Close()
	body, end := io.Pipe()
	defer end.Close()
	go func() { _, _ = end.Write([]byte(`{"prompt":`)) }()
	r, err := http.NewRequest(http.MethodPost, web.URL+"/v1/completions", body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := web.Client().Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	assert.Equal(t, http.StatusRequestTimeout, answer.StatusCode)
}

// TestReadDeadlineIsLifted: an answer may take longer than the read timeout of a request.
func TestReadDeadlineIsLifted(t *testing.T) {
	m := &fakeModel{step: 10 * time.Millisecond, answer: long(10)}
	s := newTestServer(t, m, func(o *Options) { o.Read = 20 * time.Millisecond })
	web := httptest.NewServer(s)
	defer web.Close()
	answer, err := web.Client().Post(web.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x"}`))
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Contains(t, string(b), "xxxxxxxxxx")
}

// TestHangUp: over a real connection, too, an answer ends when the client disconnects.
func TestHangUp(t *testing.T) {
	ended := make(chan Event, 1)
	m := &fakeModel{step: time.Millisecond, answer: long(1 << 20), context: 1 << 21}
	s := newTestServer(t, m, func(o *Options) { o.Events = func(e Event) { ended <- e } })
	web := httptest.NewServer(s)
	defer web.Close()
	answer, err := web.Client().Post(web.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"x","stream":true,"max_tokens":1000000}`))
	require.NoError(t, err)
	_, err = io.ReadFull(answer.Body, make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	e := <-ended
	assert.Equal(t, request.StatusGone, e.Status)
	assert.Zero(t, s.Load().Active)
}

// TestLog: a line for each request, without text of the user or the model, and without keys.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	var got []Event
	m := &fakeModel{answer: func(string, terms.Settings) string { return "private answerC" }}
	s := newTestServer(t, m, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Keys = []string{"a-very-secret-key"}
		o.Events = func(e Event) { got = append(got, e) }
	})
	key := []string{"Authorization", "Bearer a-very-secret-key"}
	sent := ask(t, s, "/v1/completions", `{"prompt":"private prompt","n":2}`, key...).Body.Len()
	ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"private"}],"a private name":1,`+
		`"more":"private","user":"private"}`, append(key, "User-Agent", "agent/1")...)
	streamed := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"private"}],"stream":true}`,
		key...).Body.Len()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 4)
	assert.NotContains(t, log.String(), "private")
	assert.NotContains(t, log.String(), "secret")
	assert.Contains(t, lines[0],
		"endpoint=completions status=200 stream=false answers=2 prompt_tokens=14 cached_tokens=0 tokens=30 finish=stop")
	assert.Contains(t, lines[0], "cloud_tokens=2 asks=2")
	assert.Contains(t, lines[1], `msg=ignored fields="[user (a name of 14 bytes) more]" agent=agent/1 from=192.0.2.1`)
	assert.Contains(t, lines[2], "status=200")
	assert.Contains(t, lines[3], "stream=true")
	require.Len(t, got, 3)
	assert.EqualValues(t, []int{sent, streamed}, []int{int(got[0].Sent), int(got[2].Sent)})
	assert.EqualValues(t, len(`{"prompt":"private prompt","n":2}`), got[0].Received)
}

// TestPanic: a panic of the model is an error of one request, streamed or not; its place is freed and no session is
// lost.
func TestPanic(t *testing.T) {
	m := &fakeModel{answer: func(prompt string, s terms.Settings) string {
		if prompt == "panic" || prompt == "second" && s.Seed == 8 {
			panic("a bug")
		}
		return "ok"
	}}
	var log bytes.Buffer
	s := newTestServer(t, m, func(o *Options) {
		o.Parallel, o.Queue, o.Log = 1, -1, slog.New(slog.NewTextHandler(&log,
			nil))
	})
	for body, status := range map[string]int{`{"prompt":"panic"}`: 500, `{"prompt":"panic","stream":true}`: 200,
		`{"prompt":"second","n":2,"seed":7}`: 500} {
		w := ask(t, s, "/v1/completions", body)
		assert.Equal(t, status, w.Code)
		assert.Contains(t, w.Body.String(), `"internal_error"`)
		assert.NotContains(t, w.Body.String(), "a bug")
		assert.Contains(t, log.String(), "panic: a bug")
		assert.Zero(t, m.open, "a session in an unknown state is not kept")
	}
	assert.Equal(t, http.StatusOK, ask(t, s, "/v1/completions", `{"prompt":"x"}`).Code)
	assert.Equal(t, 1, m.open)
}
