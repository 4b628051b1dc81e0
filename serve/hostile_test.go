package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// exchange sends bytes over a connection to a server and returns the status and content of the answer.
func exchange(t *testing.T, s *Server, request string) (int, string) {
	t.Helper()
	web := httptest.NewServer(s)
	defer web.Close()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n"))
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(b)
}

// TestContentNeverComes: a request is answered even if its content does not arrive, whether the content is needed or
// not: net/http waits for it before it sends an answer.
func TestContentNeverComes(t *testing.T) {
	for head, want := range map[string]int{
		"POST /v1/completions": 408, "POST /v1/nowhere": 404, "GET /v1/models": 200, "POST /v1/embeddings": 404,
		"PUT /v1/completions": 405,
	} {
		s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Read = 20 * time.Millisecond })
		status, text := exchange(t, s,
			head+" HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: 100\n\n{")
		assert.Equal(t, want, status, "%s: %s", head, text)
	}
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Read = 20 * time.Millisecond })
	status, _ := exchange(t, s,
		"POST /v1/completions HTTP/1.1\nHost: x\nContent-Encoding: gzip\nContent-Length: 9\n\n{")
	assert.Equal(t, http.StatusUnsupportedMediaType, status)
}

// TestBrokenChunks: invalid chunks are an error, and are not mistaken for a disconnected client.
func TestBrokenChunks(t *testing.T) {
	for _, content := range []string{
		"zz\n{}\n0\n\n", "-5\n{}\n0\n\n", "1\n{}}}\n0\n\n", "ffffffffffffffffff\n{}\n0\n\n",
	} {
		s := newTestServer(t, &fakeModel{}, nil)
		status, text := exchange(t, s, "POST /v1/completions HTTP/1.1\nHost: x\nContent-Type: application/json\n"+
			"Transfer-Encoding: chunked\n\n"+content)
		assert.Equal(t, http.StatusBadRequest, status, "%q", content)
		assert.Contains(t, text, `"invalid_body"`)
	}
}

// TestContent: content that is not JSON in UTF-8 is refused with the right reason.
func TestContent(t *testing.T) {
	m := &fakeModel{}
	s := newTestServer(t, m, nil)
	for body, want := range map[string]string{
		" ":                  "the request has no content",
		"\xff\xfe{\x00}\x00": "not UTF-8 from byte 0 on", "{\"prompt\":\"a\xff\"}": "not UTF-8 from byte 12 on",
		"{\"prompt\":\"a\x00\"}":                          "this is not JSON",
		"{\"prompt\":" + strings.Repeat("[", 20000) + "}": "exceeded max depth", "[]": "give a JSON object",
		"{\"prompt\":\"a\xed\xa0\x80\"}": "not UTF-8 from byte 12 on",
	} {
		for _, path := range []string{"/v1/completions", "/v1/chat/completions"} {
			w := ask(t, s, path, body)
			assert.Equal(t, http.StatusBadRequest, w.Code, "%q", body)
			assert.Contains(t, w.Body.String(), want, "%q", body)
		}
	}
	w := ask(t, s, "/v1/completions", `{"prompt":"x"}`, "Content-Encoding", "gzip")
	assert.Equal(t, http.StatusUnsupportedMediaType, w.Code)
	assert.Contains(t, w.Body.String(), "Content-Encoding: gzip")
	assert.Empty(t, m.asked)
	w = ask(t, s, "/v1/completions", "\xef\xbb\xbf{\"prompt\":\"\ufffd ü\"}", "Content-Encoding", "identity")
	assert.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	assert.Equal(t, []string{"\ufffd ü"}, m.prompts)
}

// TestDeadlines: short answers have deadlines. An answer has none while it is generated, because HTTP/2 ends a stream
// if its deadline passes without a write, and again one at its end.
func TestDeadlines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: 12 * time.Second, answer: long(2)}, nil)
		w := newSlowWriter(nil)
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
		read, write := w.deadlines()
		assert.Equal(t, 30*time.Second, time.Until(read))
		assert.Equal(t, 40*time.Second, time.Until(write))
		for _, body := range []string{streaming, `{"prompt":"p","max_tokens":5}`} {
			w = newSlowWriter(nil)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.ServeHTTP(w, post(t.Context(), "/v1/completions", body))
			}()
			for range 2 {
				time.Sleep(11 * time.Second)
				synctest.Wait()
				read, write = w.deadlines()
				assert.Zero(t, read)
				assert.Zero(t, write)
			}
			<-ended
			_, write = w.deadlines()
			assert.Equal(t, 10*time.Second, time.Until(write))
		}
	})
}

// TestDrainCutsReaders: a client that does not read does not delay the end of a server.
func TestDrainCutsReaders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var got []Event
		s := newTestServer(t, &fakeModel{answer: long(1000)}, func(o *Options) {
			o.Events = func(e Event) { got = append(got, e) }
		})
		go s.ServeHTTP(newSlowWriter(make(chan struct{})), post(t.Context(), "/v1/completions", streaming))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, s.Drain(ctx), context.DeadlineExceeded)
		synctest.Wait()
		assert.LessOrEqual(t, time.Since(begin), time.Second+2*lastWords, "for the written data, and for the error")
		require.Len(t, got, 1)
	})
}

// lateBody fails as after a deadline, once a server stops.
type lateBody <-chan struct{}

func (b lateBody) Read([]byte) (int, error) { <-b; return 0, os.ErrDeadlineExceeded }

// TestDrainCutsSenders: a client that does not send its request learns that the server has ended.
func TestDrainCutsSenders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{}, nil)
		r, w := post(t.Context(), "/v1/completions", ""), newSlowWriter(nil)
		r.Body = io.NopCloser(lateBody(s.closing.Done()))
		go s.ServeHTTP(w, r)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Drain(ctx), context.DeadlineExceeded)
		synctest.Wait()
		assert.Equal(t, http.StatusServiceUnavailable, w.status)
		assert.Contains(t, w.text(), "draining")
		read, _ := w.deadlines()
		assert.Equal(t, lastWords, time.Until(read), "a real connection ends the read")
	})
}

// TestBodyErrors: what a request gets, or is in the log, if its content cannot be read.
func TestBodyErrors(t *testing.T) {
	var got Event
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Events = func(e Event) { got = e } })
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"it ends early":       {io.ErrUnexpectedEOF, request.StatusGone, "cancelled"},
		"the connection ends": {&net.OpError{Op: "read", Err: errors.New("reset")}, request.StatusGone, "cancelled"},
		"it is slow":          {os.ErrDeadlineExceeded, http.StatusRequestTimeout, "read_timeout"},
		"it is invalid":       {errors.New("invalid chunk"), http.StatusBadRequest, "invalid_body"},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(t.Context(), "/v1/completions", "")
			r.Body = io.NopCloser(iotest.ErrReader(c.err))
			s.ServeHTTP(httptest.NewRecorder(), r)
			assert.Equal(t, c.status, got.Status)
			assert.Equal(t, c.code, got.Code)
		})
	}
}

// TestPatienceInParts: a long answer may be read for longer than a reader may pause, if parts of it are read meanwhile.
func TestPatienceInParts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{answer: long(17000), context: 1 << 15}, nil)
		take := make(chan struct{})
		w := newSlowWriter(take)
		go s.ServeHTTP(w, post(t.Context(), "/v1/completions", `{"prompt":"p","max_tokens":20000}`))
		for range 2 {
			time.Sleep(9 * time.Second)
			take <- struct{}{}
		}
		synctest.Wait()
		assert.True(t, strings.HasSuffix(w.text(), "}\n"), "all of it")
	})
}

// TestPanicBefore: a panic while a request is prepared is an error of that request, and its place is freed.
func TestPanicBefore(t *testing.T) {
	m := &fakeModel{refuse: func(s terms.Settings) error {
		if s.JSON {
			panic("a bug")
		}
		return nil
	}}
	s := newTestServer(t, m, func(o *Options) { o.Parallel, o.Queue = 1, -1 })
	for range 2 {
		w := ask(t, s, "/v1/completions", `{"prompt":"x","response_format":{"type":"json_object"}}`)
		assert.Equal(t, http.StatusInternalServerError, w.Code)
	}
	assert.Equal(t, http.StatusOK, ask(t, s, "/v1/completions", `{"prompt":"x"}`).Code)
}

// TestForeignText: text of clients in errors and in the log cannot control a terminal, wherever it comes from.
func TestForeignText(t *testing.T) {
	const evil = "\x1b[1mx"
	var log strings.Builder
	s := newTestServer(t, &fakeModel{}, func(o *Options) {
		o.Hosts, o.Log = []string{"example.com"}, slog.New(slog.NewTextHandler(&log, nil))
	})
	const user = `"messages":[{"role":"user","content":"x"}]`
	get := func(r *http.Request) { r.URL.Path, r.Method = r.URL.Path+evil, http.MethodGet }
	for _, c := range []struct {
		where, path, body string
		change            func(r *http.Request)
	}{
		{"a field of a chat", chatPath, `{` + user + `,"pilotfish":{"E":1}}`, nil},
		{"a model of a chat", chatPath, `{` + user + `,"model":"E"}`, nil},
		{"a field of a message", chatPath, `{"messages":[{"role":"user","content":"x","pilotfish":{"E":1}}]}`, nil},
		{"a token", textPath, `{"prompt":"x","logit_bias":{"E":1}}`, nil},
		{"a response before", responses, `{"input":"x","previous_response_id":"E"}`, nil},
		{"an item", responses, `{"input":[{"type":"item_reference","id":"E"}]}`, nil},
		{"a model of messages", messages, `{` + user + `,"model":"E"}`, nil},
		{"a path", "/v1/x", `{}`, func(r *http.Request) { r.URL.Path += evil }},
		{"a name of a model", "/v1/models/x", `{}`, get},
		{"an id of a response", responses + "/x", `{}`, get},
		{"a method", textPath, `{}`, func(r *http.Request) { r.Method = evil }},
		{"a host", textPath, `{}`, func(r *http.Request) { r.Host = evil }},
		{"an origin", textPath, `{}`, func(r *http.Request) { r.Header.Set("Origin", evil) }},
		{"an encoding", textPath, `{}`, func(r *http.Request) { r.Header.Set("Content-Encoding", evil) }},
	} {
		t.Run(c.where, func(t *testing.T) {
			r := post(t.Context(), c.path, strings.ReplaceAll(c.body, "E", `\u001b[1mx`))
			if c.change != nil {
				c.change(r)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			assert.GreaterOrEqual(t, w.Code, 400)
			say, _ := at(object(t, w.Body.Bytes()), "error", "message").(string)
			param, _ := at(object(t, w.Body.Bytes()), "error", "param").(string)
			assert.Contains(t, say, "[1mx")
			assert.NotContains(t, say+param, "\x1b")
		})
	}
	assert.NotContains(t, log.String(), "\x1b")
}

// panicking is a model that panics when it makes a prompt.
type panicking struct{ *fakeModel }

func (panicking) ChatTokens([]pilotfish.Message, [][]byte, ...pilotfish.TemplateValue) ([]int32, error) {
	panic("a bug")
}

// TestPanicInPrompt: a panic while a prompt is made is an error of that request, and its place is freed.
func TestPanicInPrompt(t *testing.T) {
	s := newTestServer(t, panicking{&fakeModel{}}, func(o *Options) { o.Parallel, o.Queue = 1, -1 })
	for _, path := range []string{"/v1/chat/completions", messages, messages + "/count_tokens"} {
		w := ask(t, s, path, `{`+hello+`}`)
		assert.Equal(t, http.StatusInternalServerError, w.Code, path)
		assert.NotContains(t, w.Body.String(), "a bug")
	}
	assert.Equal(t, http.StatusOK, ask(t, s, "/v1/completions", `{"prompt":"x"}`).Code)
}

// TestArgumentsAreObjects: parameters without a type do not allow arguments that are not objects, and references in
// them are resolved.
func TestArgumentsAreObjects(t *testing.T) {
	m := newToolModel("", `{"name": "f", "arguments": {}}`)
	s := newTestServer(t, m, nil)
	const mine = `{"allOf":[{"type":"object"},`
	for parameters, want := range map[string]string{
		`{}`:                         `{"type":"object","properties":{}}`,
		`{"type":"string"}`:          mine + `{"type":"string"}]}`,
		`{"type":"object"}`:          `{"type":"object","properties":{}}`,
		`{"type":["object","null"]}`: mine + `{"type":["object","null"]}]}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#"}}}`: mine +
			`{"$ref":"#/properties/arguments/allOf/1/$defs/a",` +
			`"$defs":{"a":{"$ref":"#/properties/arguments/allOf/1"}}}]}`,
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`: `{"type":"object",` +
			`"properties":{"a":{"$ref":"#/properties/arguments"}}}`,
		`{"properties":{"type":{"const":"object"}}}`: mine + `{"properties":{"type":{"const":"object"}}}]}`,
	} {
		m.schemas = nil
		w := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"tool_choice":"required",
			"tools":[{"type":"function","function":{"name":"f","parameters":`+parameters+`}}]}`)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		require.Len(t, m.schemas, 1)
		assert.Equal(t, `{"type":"object","properties":{"name":{"const":"f"},"arguments":`+want+
			`},"required":["name","arguments"],"additionalProperties":false}`, m.schemas[0])
	}
	m.refuse = func(s terms.Settings) error {
		if strings.Contains(string(s.Schema), `"string"`) {
			return errors.New("no value fits")
		}
		return nil
	}
	w := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"tool_choice":"required",
		"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"string"}}}]}`)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "no value fits (as arguments are an object)")
}

// TestMarksCount: the marks of calls, which the model does not choose, count for max_tokens.
func TestMarksCount(t *testing.T) {
	call := `{"name": "f", "arguments": {}}`
	for limit, want := range map[int]int{1: 0, len(callMark) + 1: 0, len(callMark) + 2: len(callMark) + 2,
		len(callMark) + 1 + len(call): len(callMark) + 1 + len(call)} {
		s := newTestServer(t, newToolModel("", call), nil)
		w := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"tool_choice":"required",
			"tools":[{"type":"function","function":{"name":"f"}}],"max_tokens":`+string(request.Encode(limit))+`}`)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		assert.EqualValues(t, want, at(object(t, w.Body.Bytes()), "usage", "completion_tokens"), "of %d", limit)
	}
}

// TestPatience: net/http may wait for the content of a request before it sends an answer, so that the answer has more
// time than after a complete request.
func TestPatience(t *testing.T) {
	for encoding, want := range map[string]time.Duration{"gzip": 40 * time.Second, "": 10 * time.Second} {
		bubble.Test(t, func(t *testing.T) {
			s := newTestServer(t, &fakeModel{}, nil)
			r := post(t.Context(), "/v1/completions", `{"prompt":"x"}`)
			r.Header.Set("Content-Encoding", encoding)
			begin := time.Now()
			s.ServeHTTP(newSlowWriter(make(chan struct{})), r)
			assert.Equal(t, want, time.Since(begin), encoding)
		})
	}
}
