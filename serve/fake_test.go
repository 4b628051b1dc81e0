package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Marks of a call in a text.
const (
	callMark = "<tool_call>"
	callOver = "</tool_call>"
)

// fakeModel answers as set by a test. Its tokens are bytes, with their values as ids; 256 is the end token.
type fakeModel struct {
	context int
	longest int           // that it allows; 0: context
	step    time.Duration // of a token
	// answer returns the continuation of a prompt with some settings, before the cut at Stop and MaxTokens. nil: "ok".
	answer func(prompt string, s terms.Settings) string
	fail   func(prompt string) error                                     // in place of an answer
	refuse func(s terms.Settings) error                                  // what Check says
	check  func(ctx context.Context, s terms.Settings) ([]string, error) // the same, with what it ignores
	short  func(text string) bool                                        // answers that end; nil: {} in a format
	solid  bool                                                          // it knows no gaps
	thinks bool                                                          // <think>…</think> is a thought
	change func(t *engine.Token)                                         // of each token; may be nil

	mu       sync.Mutex
	asked    []terms.Settings
	prompts  []string
	gaps     []pilotfish.Infill
	open     int // open sessions
	limit    int // max of open
	running  int // running answers
	parallel int // max of running
}

func (m *fakeModel) Context() int {
	if m.context == 0 {
		return 4096
	}
	return m.context
}

func (m *fakeModel) ContextLimit() int { return cmp.Or(m.longest, m.Context()) }

func (m *fakeModel) Vocabulary() (int, error) { return 257, nil }

// ChatTokens formats a chat as ROLE:CONTENT lines.
func (m *fakeModel) ChatTokens(turns []pilotfish.Message, tools [][]byte, values ...pilotfish.TemplateValue) ([]int32,
	error) {
	var b strings.Builder
	for _, t := range tools {
		b.WriteString("tool " + string(t) + "\n")
	}
	for _, msg := range turns {
		b.WriteString(msg.Role + ":")
		if msg.Thought != "" {
			b.WriteString("(" + msg.Thought + ")")
		}
		b.WriteString(msg.Content)
		for _, call := range msg.Calls {
			b.WriteString("[" + call.Name + string(call.Arguments) + "]")
		}
		b.WriteString("\n")
	}
	end := ""
	for _, v := range values {
		if v.Name != "enable_thinking" {
			continue
		}
		text := string(v.Value.(json.RawMessage))
		b.WriteString("thinking:" + text + "\n")
		if text == "false" && m.thinks {
			end = "<think></think>"
		}
	}
	return idsOf(b.String() + "assistant:" + end), nil
}

func (m *fakeModel) Thinks(prompt []int32) (bool, error) {
	text := textOf(prompt)
	return m.thinks && !strings.Contains(text[strings.LastIndex(text, "assistant:")+1:], "</think>"), nil
}

// kinds returns the kinds of the bytes of a text.
func (m *fakeModel) kinds(prompt []int32, text string) []string {
	all := make([]string, len(text))
	thought, rest, closed := strings.Cut(strings.TrimPrefix(text, "<think>\n"), "</think>")
	if thinks, _ := m.Thinks(prompt); !thinks || !strings.HasPrefix(text, "<think>\n") {
		return all
	}
	marks := len(text) // where the marks begin again
	if closed {
		marks = len("<think>\n") + len(thought)
	}
	for i := range len(text) - len(strings.TrimLeft(rest, "\n")) {
		all[i] = pilotfish.KindThought
		if i < len("<think>\n") || i >= marks {
			all[i] = pilotfish.KindMark
		}
	}
	return all
}

func (m *fakeModel) TextTokens(text string) ([]int32, error) { return m.Tokenize(text, true) }

// Tokenize recognises the end token by its name, if special is set.
func (m *fakeModel) Tokenize(text string, special bool) (ids []int32, _ error) {
	for special {
		before, after, found := strings.Cut(text, "<end>")
		if !found {
			break
		}
		ids, text = append(append(ids, idsOf(before)...), 256), after
	}
	return append(ids, idsOf(text)...), nil
}

func (m *fakeModel) TokenBytes(id int32) ([]byte, error) {
	if id == 256 {
		return nil, nil
	}
	return []byte{byte(id)}, nil
}

// TokenName returns the name of token 256.
func (m *fakeModel) TokenName(id int32) (string, error) {
	return map[int32]string{256: "<end>"}[id], nil
}

// InfillTokens formats a text with a gap with the bytes 1, 2 and 3 as marks, after other files.
func (m *fakeModel) InfillTokens(f pilotfish.Infill) ([]int32, error) {
	if m.solid {
		return nil, pilotfish.ErrUnsupported
	}
	m.mu.Lock()
	m.gaps = append(m.gaps, f)
	m.mu.Unlock()
	head := ""
	if f.Repo != "" {
		head = f.Repo + "/"
	}
	for _, other := range f.Files {
		head += other.Name + ":" + other.Text + ";"
	}
	return idsOf(head + f.Name + "\x01" + f.Prefix + "\x02" + f.Suffix + "\x03"), nil
}

func (m *fakeModel) Check(ctx context.Context, s terms.Settings) ([]string, error) {
	if m.check != nil {
		return m.check(ctx, s)
	}
	if m.refuse == nil {
		return nil, nil
	}
	return nil, m.refuse(s)
}

func (m *fakeModel) NewSession() session {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	m.limit = max(m.limit, m.open)
	return &fakeSession{m: m}
}

func idsOf(text string) (ids []int32) {
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids
}

func textOf(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = append(b, byte(id))
	}
	return string(b)
}

// fakeSession is a text of a fakeModel.
type fakeSession struct {
	m      *fakeModel
	text   []int32
	sum    engine.Summary
	end    *engine.Token
	closed bool
}

func (s *fakeSession) Summary() engine.Summary { return s.sum }

func (s *fakeSession) End() *engine.Token { return s.end }

// KVTokens implements Session. Without a text it has what the pool's test says.
func (s *fakeSession) KVTokens() int {
	if len(s.text) == 0 {
		return math.MaxInt
	}
	return len(s.text)
}

func (s *fakeSession) Close() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.closed {
		panic("a session is closed twice")
	}
	s.closed = true
	s.m.open--
	return nil
}

func (m *fakeModel) SavedText(r io.Reader) (ids []int32, err error) {
	b, err := io.ReadAll(r)
	text, ok := strings.CutPrefix(string(b), "saved:")
	if err == nil && !ok {
		err = errors.New("not saved here")
	}
	if err != nil {
		return nil, err
	}
	return idsOf(text), nil
}

func (s *fakeSession) CopyKV(_ context.Context, from session, n int) error {
	other := from.(*fakeSession)
	if other.closed || s.closed {
		panic("a closed session is used")
	}
	s.text = append([]int32{}, other.text[:min(n, len(other.text))]...)
	return nil
}

func (s *fakeSession) SaveKV(ctx context.Context, w io.Writer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := io.WriteString(w, "saved:"+textOf(s.text))
	return err
}

func (s *fakeSession) LoadKV(ctx context.Context, r io.Reader) (ids []int32, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.text, err = s.m.SavedText(r)
	return s.text, err
}

// note records a request.
func (s *fakeSession) note(prompt []int32, o terms.Settings) (text string, err error) {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.closed {
		panic("a closed session is used")
	}
	m.running++
	m.parallel = max(m.parallel, m.running)
	m.asked, m.prompts = append(m.asked, o), append(m.prompts, textOf(prompt))
	if m.fail != nil {
		err = m.fail(textOf(prompt))
	}
	if m.answer == nil {
		return "ok", err
	}
	return m.answer(textOf(prompt), o), err
}

// Generate implements Session.
func (s *fakeSession) Generate(ctx context.Context, prompt []int32, o terms.Settings) iter.Seq2[engine.Token,
	error] {
	return func(yield func(engine.Token, error) bool) {
		text, err := s.note(prompt, o)
		defer func() {
			s.m.mu.Lock()
			s.m.running--
			s.m.mu.Unlock()
		}()
		same := min(terms.CommonPrefix(s.text, prompt), len(prompt)-1)
		s.sum, s.end = engine.Summary{Routing: engine.Routing{ReusedTokens: same}}, nil
		s.text = append([]int32{}, prompt...)
		stop, stopped := pilotfish.StopEnd, ""
		for _, mark := range o.Stop {
			if before, _, found := strings.Cut(text, mark); found {
				text, stop, stopped = before, pilotfish.StopString, mark
			}
		}
		var held []byte // of an incomplete character
		begin, kinds := time.Now(), s.m.kinds(prompt, text)
		for i, id := range idsOf(text) {
			if o.MaxTokens > 0 && i == o.MaxTokens {
				s.sum.Stop = pilotfish.StopLength
				return
			}
			if !sleep(ctx, s.m.step) {
				yield(engine.Token{}, context.Cause(ctx))
				return
			}
			s.text = append(s.text, id)
			held = append(held, byte(id))
			shown := ""
			if utf8.Valid(held) {
				shown, held = string(held), nil
			}
			s.sum.Text += shown
			t := s.token(id, shown, o, time.Since(begin))
			if t.Kind = kinds[i]; !yield(t, nil) {
				return
			}
		}
		if err != nil {
			yield(engine.Token{}, err)
			return
		}
		s.sum.Stopped = stopped
		if stop == pilotfish.StopEnd {
			s.end = &engine.Token{ID: 256, Local: 256, Origin: "edge", LogProb: -0.5,
				Top: []terms.Candidate{{ID: 256, LogProb: -0.5}}}
		}
		s.sum.Stop, s.sum.Shortened = stop, text == "{}" && (o.JSON || o.Schema != nil)
		if s.m.short != nil {
			s.sum.Shortened = s.m.short(text)
		}
		if s.sum.Shortened = s.sum.Shortened && o.Complete; s.sum.Shortened {
			s.sum.Stop = pilotfish.StopLength
		}
	}
}

// Score implements Session: the log-probability of each token but the first depends on its position.
func (s *fakeSession) Score(ctx context.Context, text []int32, top int) iter.Seq2[engine.Token, error] {
	return func(yield func(engine.Token, error) bool) {
		if s.m.fail != nil {
			yield(engine.Token{}, s.m.fail(textOf(text)))
			return
		}
		var held []byte // of an incomplete character
		for i, id := range text {
			t := engine.Token{ID: id, Local: id, Origin: "edge", LogProb: float32(math.NaN())}
			if held = append(held, byte(id)); utf8.Valid(held) {
				t.Text, held = string(held), nil
			}
			for k := range min(i, 1) * top {
				t.Top = append(t.Top, terms.Candidate{ID: id + int32(k), LogProb: -float32(i+k) / 8})
			}
			if i > 0 {
				t.LogProb = -float32(i) / 8
			}
			if !yield(t, context.Cause(ctx)) {
				return
			}
		}
	}
}

// token returns a byte with the requested fields.
func (s *fakeSession) token(id int32, text string, o terms.Settings, at time.Duration) engine.Token {
	t := engine.Token{ID: id, Local: id, Text: text, Origin: "edge", Confidence: 0.5, At: at, LogProb: -0.25}
	if id == 'C' {
		t.Origin = "cloud"
		s.sum.CloudTokens++
		s.sum.Asks++
		s.sum.Receipt = s.sum.Receipt.Plus(pilotfish.Receipt{Tokens: 3, Bytes: 7, To: "gw:1"})
	}
	if s.m.change != nil {
		s.m.change(&t)
	}
	if o.LogProbs {
		for i := range o.Top {
			t.Top = append(t.Top, terms.Candidate{ID: id + int32(i), LogProb: -0.25 * float32(i+1)})
		}
	}
	return t
}

// sleep waits, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// newTestServer returns a server for a model, with numbered ids.
func newTestServer(t testing.TB, m model, change func(*Options)) *Server {
	t.Helper()
	var mu sync.Mutex
	n := uint64(0)
	o := Options{Names: []string{"fish", "small"}, Fingerprint: "fp_x", Log: slog.New(slog.DiscardHandler),
		Temperature: 1,
		Random: func() uint64 {
			mu.Lock()
			defer mu.Unlock()
			n++
			return n
		}}
	if change != nil {
		change(&o)
	}
	s := newServer(m, o)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// ask sends a request to a handler and returns the answer.
func ask(t testing.TB, h http.Handler, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// object parses JSON.
func object(t testing.TB, b []byte) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(b, &v), "%s", b)
	return v
}

// events parses a stream: the objects, and whether it ended regularly.
func events(t testing.TB, body []byte) (all []map[string]any, done bool) {
	t.Helper()
	for part := range strings.SplitSeq(string(body), "\n\n") {
		if part == "" || strings.HasPrefix(part, ":") {
			continue
		}
		require.False(t, done, "data after [DONE]: %s", part)
		data, ok := strings.CutPrefix(part, "data: ")
		require.True(t, ok, part)
		if data == "[DONE]" {
			done = true
			continue
		}
		all = append(all, object(t, []byte(data)))
	}
	return all, done
}

// at returns a part of JSON by its path.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// slowWriter is a response with a reader controlled by the test: each write waits for take.
type slowWriter struct {
	header   http.Header
	take     chan struct{} // nil: it accepts everything at once
	mu       sync.Mutex
	status   int
	body     bytes.Buffer
	deadline time.Time
	moved    chan struct{} // closed when the deadline changes
	reading  time.Time     // read deadline of the request
	flushes  int
}

func newSlowWriter(take chan struct{}) *slowWriter {
	return &slowWriter{header: http.Header{}, take: take, moved: make(chan struct{})}
}

func (w *slowWriter) Header() http.Header { return w.header }

func (w *slowWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *slowWriter) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = at
	close(w.moved)
	w.moved = make(chan struct{})
	return nil
}

func (w *slowWriter) SetReadDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading = at
	return nil
}

// deadlines returns the deadlines of reading and writing.
func (w *slowWriter) deadlines() (read, write time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reading, w.deadline
}

func (w *slowWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushes++
	return nil
}

func (w *slowWriter) Write(b []byte) (int, error) {
	for took := w.take == nil; !took; {
		w.mu.Lock()
		left, moved := time.Until(w.deadline), w.moved
		w.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-w.take:
			took = true
		case <-moved:
		case <-timer.C:
			return 0, os.ErrDeadlineExceeded
		}
		timer.Stop()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(b)
}

func (w *slowWriter) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.String()
}

// post returns a request to a handler.
func post(ctx context.Context, path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, io.NopCloser(strings.NewReader(body)))
	r.Header.Set("Content-Type", "application/json")
	return r.WithContext(ctx)
}
