package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// reply is one request and the response to it.
type reply struct {
	s         *Server
	w         http.ResponseWriter
	rc        *http.ResponseController
	r         *http.Request
	e         Event
	begun     time.Time
	whole     atomic.Bool // the whole request has been read
	sent      bool        // the status has been sent
	formatter formatter   // of the response, once the request is known to be valid
}

// bodyHandler answers a request with this body.
type bodyHandler func(ctx context.Context, t *reply, body []byte) error

func (s *Server) handlePost(endpoint string, then bodyHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := &reply{s: s, w: w, rc: http.NewResponseController(w), r: r, begun: time.Now()}
		t.e = Event{Endpoint: endpoint, ID: s.newID("req_"), Status: http.StatusOK}
		w.Header().Set("X-Request-Id", t.e.ID)
		w.Header().Set("Request-Id", t.e.ID) // as Anthropic's clients look for it
		done, err := s.registerRequest()
		if err == nil {
			defer done() // writing an error is part of the request
			defer t.shortenDeadlinesOnClose()()
			err = t.handleBody(then)
		}
		if err == nil {
			_ = t.rc.SetWriteDeadline(time.Now().Add(s.o.Stall)) // for the rest of the response
		} else {
			t.sendError(err)
		}
		t.e.Took = time.Since(t.begun)
		s.o.Events(t.e)
		t.e.logRequest(s.o.Log)
	}
}

func (t *reply) handleBody(then bodyHandler) error {
	body, err := t.readBody()
	if err != nil {
		return err
	}
	ctx, release := t.s.requestContext(t.r)
	defer release()
	if err := then(ctx, t, body); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx) // any other error is a consequence
		}
		return err
	}
	return nil
}

func (t *reply) readBody() ([]byte, error) {
	if err := t.checkContentType(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(t.w, t.r.Body, t.s.o.MaxBody))
	t.e.Received = int64(len(body))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, request.Refuse(http.StatusRequestEntityTooLarge, "request_too_large",
			"the request has more than %d bytes, which is what this server takes", t.s.o.MaxBody)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && t.s.closing.Err() != nil {
		return nil, request.ErrDrained
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, request.Refuse(http.StatusRequestTimeout, "read_timeout", "the request was not there within %v",
			t.s.o.Read)
	}
	if _, broken := errors.AsType[net.Error](err); broken || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, request.ErrGone
	}
	if err != nil {
		return nil, request.Refuse(http.StatusBadRequest, "invalid_body",
			"the request's content does not come as its headers say: %v", err)
	}
	t.whole.Store(true)
	_ = t.rc.SetReadDeadline(time.Time{}) // otherwise the deadline would look like a disconnected client
	_ = t.rc.SetWriteDeadline(time.Time{})
	return body, nil
}

// checkContentType refuses a body that is not plain JSON according to its headers. Programs need not say that it is
// JSON, but web pages must: for other types, browsers do not ask first whether the page may send them.
func (t *reply) checkContentType() error {
	say, h := "", t.r.Header
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if (err != nil || kind != "application/json") && h.Get("Origin")+h.Get("Sec-Fetch-Site") != "" {
		say = "send JSON, and say so in the header Content-Type: application/json"
	} else if how := t.r.Header.Get("Content-Encoding"); how != "" && how != "identity" {
		say = "send the request as it is: this server takes none with the header Content-Encoding: " +
			request.Shown(how)
	}
	if say == "" {
		return nil
	}
	return request.Refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "%s", say)
}

// sendError sends an error, as far as the connection allows.
func (t *reply) sendError(err error) {
	e := request.ErrorOf(err)
	t.e.Status, t.e.Code, t.e.Err = e.Status, e.Code, err
	switch {
	case e.Status == request.StatusGone:
		_ = t.rc.SetWriteDeadline(time.Unix(1, 0)) // do not wait for data that has not been sent
	case t.sent:
		if t.e.Stream {
			for _, c := range t.formatter.errorEvents(e) {
				_ = t.writeAndFlush(encodeEvent(c))
			}
		}
	default:
		if e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable {
			t.w.Header().Set("Retry-After", "1")
		}
		_ = t.sendJSON(e.Status, e.Body(t.r, t.e.ID))
	}
}

func (t *reply) sendJSON(status int, body []byte) error {
	h := t.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	t.sent = true
	t.w.WriteHeader(status)
	return t.writeAndFlush(append(body, '\n'))
}

// writeAndFlush sends bytes. It gives up if the reader accepts none for a while.
func (t *reply) writeAndFlush(b []byte) error {
	const limit = 16 << 10
	patience := t.s.o.Stall
	if !t.whole.Load() {
		patience += t.s.o.Read // net/http waits for the rest of the request: see [Server.ServeHTTP]
	}
	if t.s.closing.Err() != nil {
		patience = min(patience, lastWords)
	}
	for len(b) > 0 {
		n := min(len(b), limit)
		if err := t.rc.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return request.ErrGone
		}
		if _, err := t.w.Write(b[:n]); err != nil {
			return classifyWriteError(err)
		}
		t.e.Sent += int64(n)
		b = b[n:]
	}
	if err := t.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return classifyWriteError(err)
	}
	_ = t.rc.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream at its deadline, even if nothing is being written
	return nil
}

// lastWords is how long a write may block after the server has begun to stop.
const lastWords = 500 * time.Millisecond

// shortenDeadlinesOnClose makes reads and writes end soon after the server begins to stop, so that a slow client does
// not delay that. The caller calls the returned function at the end of the request.
func (t *reply) shortenDeadlinesOnClose() func() {
	ended := make(chan struct{})
	stop := context.AfterFunc(t.s.closing, func() {
		defer close(ended)
		if at := time.Now().Add(lastWords); !t.whole.Load() {
			_ = t.rc.SetReadDeadline(at)
		} else {
			_ = t.rc.SetWriteDeadline(at)
		}
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}

// classifyWriteError distinguishes slow readers from disconnected ones.
func classifyWriteError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return request.ErrSlow
	}
	return request.ErrGone
}

func (s *Server) newID(prefix string) string {
	return fmt.Sprintf("%s%016x%08x", prefix, s.o.Random(), uint32(s.o.Random()))
}

// job is the work for a request.
type job struct {
	*request.Request
	prompts   func() ([][]int32, error)
	plan      func(a *answer.Answer) // completes the settings of an answer
	chat      bool                   // the prompt is a chat, which later requests may continue
	tools     bool                   // there are tools: follow builds the schemas of their calls
	follow    func(ctx context.Context) error
	formatter formatter
}

func (t *reply) processJob(ctx context.Context, j *job) error {
	t.e.Stream = j.Stream
	t.reportIgnoredFields(j.Request)
	if err := t.s.validateRequest(j.Request); err != nil {
		return err
	}
	if err := t.checkModelSupport(ctx, j); err != nil {
		return err
	}
	t.formatter = j.formatter
	t.formatter.initResponse()
	prompts, err := t.tokenizePrompts(ctx, j)
	if err != nil {
		return err
	}
	in, err := t.s.limiter.reserveSlot()
	if err != nil {
		return err
	}
	if j.Stream {
		return t.streamAnswers(ctx, j, prompts, in)
	}
	return t.collectAnswers(ctx, j, prompts, in)
}

// validateRequest refuses what is quickly found to be invalid, and fills in what depends on the model.
func (s *Server) validateRequest(r *request.Request) *request.Error {
	switch {
	case r.Model == "":
		r.Model = s.o.Names[0]
	case !s.hasModelName(r.Model):
		return s.unknownModel(r.Model)
	}
	for _, id := range slices.Sorted(maps.Keys(r.Settings.LogitBias)) {
		if int(id) >= s.vocabularySize() {
			return request.Invalid("logit_bias", "logit_bias: the model has no token %d: its ids are below %d",
				id, s.vocabularySize())
		}
	}
	if !r.Seeded {
		r.Settings.Seed = s.o.Random() & (1<<53 - 1) // an integer that every client can represent
	}
	return nil
}

func (s *Server) maxPromptTokens() int { return s.model.Context() - 1 }

func (t *reply) tokenizePrompts(ctx context.Context, j *job) (all [][]int32, err error) {
	if err := t.withTokenizerSlot(ctx, func() (err error) { all, err = j.prompts(); return err }); err != nil {
		return nil, err
	}
	limit := t.s.maxPromptTokens()
	for _, ids := range all {
		t.e.Prompt += len(ids)
		if len(ids) > limit {
			return nil, request.Refuse(http.StatusBadRequest, "context_length_exceeded", // agents read code and numbers
				"the prompt is too long: %d tokens > %d maximum of a context of %d: make it shorter",
				len(ids), limit, t.s.model.Context()).Of(j.formatter.promptParam())
		}
	}
	return all, nil
}

func (t *reply) withTokenizerSlot(ctx context.Context, tokenize func() error) (err error) {
	in, err := t.s.tokenizers.acquireSlot(ctx)
	if err != nil {
		return err
	}
	defer in.releaseSlot()
	defer recoverPanic(&err)
	return tokenize()
}

func (t *reply) countPromptTokens(ctx context.Context, r *request.Chat) (n int, err error) {
	t.reportIgnoredFields(&r.Request)
	if err := t.s.validateRequest(&r.Request); err != nil {
		return 0, err
	}
	err = t.withTokenizerSlot(ctx, func() error {
		ids, err := t.pinnedPrompt(r)
		n = len(ids)
		return err
	})
	return n, err
}

// recoverPanic converts a panic to an error: a bug of the model ends the request, not the server, and frees its slot.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// generateAnswers waits for its slot and generates all answers in order: those to one prompt share its computation.
func (t *reply) generateAnswers(ctx context.Context, j *job, prompts [][]int32, in *requestSlot,
	tell func(index int, p answer.Piece) error, finish func(index int, e answer.Ending) error) (err error) {
	err = in.waitForSlot(ctx)
	t.e.Queue = time.Since(t.begun)
	if err != nil {
		return err
	}
	defer in.releaseSlot()
	defer recoverPanic(&err)
	for i, prompt := range prompts {
		if err := t.answerPrompt(ctx, j, i*j.N, prompt, tell, finish); err != nil {
			return err
		}
	}
	return nil
}

func (t *reply) answerPrompt(ctx context.Context, j *job, first int, prompt []int32,
	tell func(index int, p answer.Piece) error, finish func(index int, e answer.Ending) error) error {
	h, text := t.s.pool.acquireSession(ctx, prompt, j.chat), []int32(nil)
	defer func() { t.s.pool.releaseSession(h, text, len(prompt)) }()
	for i := range j.N {
		index := first + i
		text = nil // after a panic the session is not kept
		a := &answer.Answer{Model: t.s.model, Session: h, Prompt: prompt, Settings: j.Settings}
		a.Settings.Seed += uint64(i)
		a.Emit = func(p answer.Piece) error {
			if t.e.First == 0 {
				t.e.First = max(time.Since(t.begun)-t.e.Queue, 1)
			}
			return tell(index, p)
		}
		j.plan(a)
		why, err := a.Run(ctx)
		t.e.Answers++
		t.e.Tokens += len(a.IDs)
		t.e.Thought += a.Total.Thought
		t.e.Cloud += a.Total.CloudTokens
		t.e.Asks += a.Total.Asks
		t.e.Left = t.e.Left.Plus(a.Total.Receipt)
		t.e.Unlike = t.e.Unlike || a.Total.Unlike
		if i == 0 {
			t.e.Cached += a.Total.ReusedTokens
		}
		text = append(prompt[:len(prompt):len(prompt)], a.IDs...)
		if err == nil {
			t.e.Finish = why
			err = finish(index, answer.Ending{Finish: why, Stopped: a.Total.Stopped, Shortened: a.Total.Shortened,
				Stop: a.Total.Stop, Sent: t.e.Left})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *reply) collectAnswers(ctx context.Context, j *job, prompts [][]int32, in *requestSlot) error {
	all := make([]answer.Result, len(prompts)*j.N)
	err := t.generateAnswers(ctx, j, prompts, in,
		func(i int, p answer.Piece) error { all[i].Take(p); return nil },
		func(i int, e answer.Ending) error { all[i].Ending = e; return nil })
	if err != nil {
		return err
	}
	return t.sendJSON(http.StatusOK, request.Encode(j.formatter.wholeResponse(all, t.currentUsage())))
}

// usage has the costs of a request.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Of struct {
		Thought int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`

	first, took time.Duration // until the first token, and from then on
	sent        pilotfish.Receipt
}

func (t *reply) currentUsage() usage {
	u := usage{Prompt: t.e.Prompt, Completion: t.e.Tokens, Total: t.e.Prompt + t.e.Tokens}
	u.Details.Cached, u.Of.Thought = t.e.Cached, t.e.Thought
	u.sent = t.e.Left
	u.first, u.took = t.e.First, time.Since(t.begun)-t.e.Queue-t.e.First
	return u
}
