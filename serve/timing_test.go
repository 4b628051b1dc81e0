package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// long is an answer of n tokens.
func long(n int) func(string, terms.Settings) string {
	return func(string, terms.Settings) string { return strings.Repeat("x", n) }
}

const streaming = `{"prompt":"p","stream":true,"max_tokens":100000}`

// TestFlushEachToken: each token is sent when it is generated.
func TestFlushEachToken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: time.Second, answer: long(5)}, nil)
		w := newSlowWriter(nil)
		go s.ServeHTTP(w, post(t.Context(), "/v1/completions", streaming))
		for i := range 4 {
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, i+1, strings.Count(w.text(), "data: "), "after %d s", i+1)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Contains(t, w.text(), "[DONE]")
		assert.GreaterOrEqual(t, w.flushes, 5)
	})
}

// TestKeepAlive: comments are sent during silence before and between tokens, and are not events.
func TestKeepAlive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: 40 * time.Second, answer: long(2)}, nil)
		w := newSlowWriter(nil)
		s.ServeHTTP(w, post(t.Context(), "/v1/completions", streaming))
		assert.Equal(t, 4, strings.Count(w.text(), ": keep-alive\n\n"), w.text())
		all, done := events(t, []byte(w.text()))
		assert.True(t, done)
		assert.Len(t, all, 3)
		assert.Equal(t, http.StatusOK, w.status)
	})
}

// TestStreamsBegin: a stream has its status and its first events before its prompt is read, and even before it has a
// place, and then pings of its dialect: after the first event of the answer no longer those that would take it back.
// What is wrong with the request has a status of its own.
func TestStreamsBegin(t *testing.T) {
	for path, c := range map[string]struct{ body, first, ping, later string }{
		"/v1/chat/completions": {hello, `"delta":{"role":"assistant","content":""}`, ": keep-alive\n\n",
			": keep-alive\n\n"},
		"/v1/completions": {`"prompt":"p"`, "", ": keep-alive\n\n", ": keep-alive\n\n"},
		"/infill":         {`"input_prefix":"p","input_suffix":""`, "", ": keep-alive\n\n", ": keep-alive\n\n"},
		messages: {hello, "event: message_start\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n",
			"event: ping\n"},
		responses: {`"input":"p"`, "event: response.created\n", "event: response.in_progress\n",
			": keep-alive\n\n"},
	} {
		bubble.Test(t, func(t *testing.T) {
			m := &fakeModel{step: 50 * time.Second, answer: long(2), context: 60}
			s := newTestServer(t, m, func(o *Options) { o.Parallel, o.Queue = 1, 1 })
			w, waits := newSlowWriter(nil), newSlowWriter(nil)
			body := `{"stream":true,"max_tokens":9,` + c.body + `}`
			if path == responses {
				body = strings.Replace(body, "max_tokens", "max_output_tokens", 1)
			}
			var all sync.WaitGroup
			for _, to := range []*slowWriter{w, waits} {
				all.Go(func() { s.ServeHTTP(to, post(t.Context(), path, body)) })
				synctest.Wait()
				assert.Equal(t, http.StatusOK, to.status, path)
				assert.Equal(t, 1, to.flushes, path)
				assert.Contains(t, to.text(), c.first)
			}
			assert.Equal(t, http.StatusTooManyRequests, ask(t, s, path, body).Code, path)
			p := strings.Repeat("p", 70)
			tooLong := strings.NewReplacer(`"p"`, `"`+p+`"`, "hi", p).Replace(body)
			if path != "/infill" { // which leaves text out
				refused := ask(t, s, path, tooLong)
				assert.Equal(t, http.StatusBadRequest, refused.Code, path)
				assert.Contains(t, refused.Body.String(), "tokens > 59 maximum of a context of 60", path)
			}
			begun := strings.Count(w.text(), c.ping)
			time.Sleep(49 * time.Second)
			assert.Equal(t, begun+3, strings.Count(w.text(), c.ping), path)
			assert.Equal(t, begun+3, strings.Count(waits.text(), c.ping), path)
			before := len(w.text())
			time.Sleep(50 * time.Second)
			assert.Equal(t, 3, strings.Count(w.text()[before:], c.later), "%s: %s", path, w.text()[before:])
			all.Wait()
			for i, number := range regexp.MustCompile(`"sequence_number":\d+`).FindAllString(waits.text(), -1) {
				assert.Equal(t, fmt.Sprintf(`"sequence_number":%d`, i), number)
			}
		})
	}
}

// TestErrorBehindSilence: in a stream, an error before the first token or after a comment is an event. The stream does
// not end like a complete one.
func TestErrorBehindSilence(t *testing.T) {
	for _, step := range []time.Duration{0, 20 * time.Second} {
		bubble.Test(t, func(t *testing.T) {
			m := &fakeModel{step: step, answer: func(string, terms.Settings) string {
				return strings.Repeat("x",
					int(step/time.Second)/20)
			},
				fail: func(string) error { return fmt.Errorf("broken at /secret") }}
			var log bytes.Buffer
			s := newTestServer(t, m, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			w := newSlowWriter(nil)
			s.ServeHTTP(w, post(t.Context(), "/v1/completions", streaming))
			assert.NotContains(t, w.text(), "[DONE]")
			assert.NotContains(t, w.text(), "secret")
			assert.Contains(t, w.text(), `"code":"internal_error"`)
			assert.Contains(t, log.String(), "broken at /secret", "the log has the reason")
			assert.Equal(t, http.StatusOK, w.status)
			assert.Contains(t, w.text(), "data: {\"error\":")
		})
	}
}

// TestDisconnect: when a client disconnects, its answer ends at once, and its place is free; streamed or not.
func TestDisconnect(t *testing.T) {
	for _, body := range []string{streaming, `{"prompt":"p","max_tokens":100000}`} {
		bubble.Test(t, func(t *testing.T) {
			var got []Event
			m := &fakeModel{step: time.Second, answer: long(1000)}
			s := newTestServer(t, m, func(o *Options) {
				o.Parallel = 1
				o.Events = func(e Event) { got = append(got, e) }
			})
			ctx, cancel := context.WithCancel(t.Context())
			go s.ServeHTTP(newSlowWriter(nil), post(ctx, "/v1/completions", body))
			time.Sleep(10*time.Second + time.Millisecond)
			assert.Equal(t, 1, s.Load().Active)
			cancel()
			synctest.Wait()
			assert.Zero(t, s.Load().Active)
			assert.Zero(t, m.running)
			require.Len(t, got, 1)
			assert.Equal(t, request.StatusGone, got[0].Status)
			assert.Equal(t, "cancelled", got[0].Code)
			assert.Equal(t, 10, got[0].Tokens)
			assert.Equal(t, 1, s.Load().Sessions, "its text is kept")
		})
	}
}

// TestDisconnectInQueue: a client that disconnects while it waits leaves the queue.
func TestDisconnectInQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &fakeModel{step: time.Second, answer: long(10)}
		s := newTestServer(t, m, func(o *Options) { o.Parallel, o.Queue = 1, 1 })
		go s.ServeHTTP(newSlowWriter(nil), post(t.Context(), "/v1/completions", streaming))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		w := newSlowWriter(nil)
		go s.ServeHTTP(w, post(ctx, "/v1/completions", streaming))
		synctest.Wait()
		assert.Equal(t, 1, s.Load().Waiting)
		cancel()
		synctest.Wait()
		assert.Zero(t, s.Load().Waiting)
		assert.Empty(t, m.prompts[1:])
		time.Sleep(time.Minute)
		assert.Zero(t, s.Load().Active)
	})
}

// TestQueue: a limited number of requests runs at the same time, a limited number waits in order, the others are
// refused with a time to retry.
func TestQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &fakeModel{step: time.Second, answer: func(prompt string, _ terms.Settings) string {
			return strings.Repeat("x", 10+int(prompt[0]-'0')) // no two end at the same time
		}}
		s := newTestServer(t, m, func(o *Options) { o.Parallel, o.Queue = 2, 3 })
		var mu sync.Mutex
		status, retry := map[int]int{}, ""
		for i := range 7 {
			go func() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, post(t.Context(), "/v1/completions", fmt.Sprintf(`{"prompt":"%d","max_tokens":100}`, i)))
				mu.Lock()
				defer mu.Unlock()
				status[w.Code]++
				if w.Code == http.StatusTooManyRequests {
					retry = w.Header().Get("Retry-After")
					assert.Contains(t, w.Body.String(), `"rate_limit_exceeded"`)
				}
			}()
			synctest.Wait()
		}
		assert.Equal(t, Load{Active: 2, Waiting: 3, Sessions: 2}, s.Load())
		assert.JSONEq(t, `{"status":"ok","active":2,"waiting":3,"stalled":0}`, ask(t, s, "/health", "").Body.String())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, map[int]int{200: 5, 429: 2}, status)
		assert.Equal(t, "1", retry)
		assert.Equal(t, []string{"0", "1", "2", "3", "4"}, m.prompts)
		assert.Equal(t, 2, m.parallel)
		assert.Zero(t, s.Load().Active+s.Load().Waiting)
	})
}

// TestNoQueue: without a queue, a request needs a free place.
func TestNoQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: time.Second, answer: long(3)}, func(o *Options) {
			o.Parallel, o.Queue = 1,
				-1
		})
		go s.ServeHTTP(newSlowWriter(nil), post(t.Context(), "/v1/completions", streaming))
		synctest.Wait()
		assert.Equal(t, http.StatusTooManyRequests, ask(t, s, "/v1/completions", `{"prompt":"x"}`).Code)
		time.Sleep(time.Minute)
		assert.Equal(t, http.StatusOK, ask(t, s, "/v1/completions", `{"prompt":"x"}`).Code)
	})
}

// TestTimeout: a request that takes too long ends with a status, or as a stream with an error.
func TestTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: time.Second, answer: long(1000)},
			func(o *Options) { o.Timeout = 30 * time.Second })
		begin := time.Now()
		w := ask(t, s, "/v1/completions", `{"prompt":"x","max_tokens":5000}`)
		assert.Equal(t, http.StatusGatewayTimeout, w.Code)
		assert.Contains(t, w.Body.String(), `"timeout"`)
		assert.Equal(t, 30*time.Second, time.Since(begin))
		stream := newSlowWriter(nil)
		s.ServeHTTP(stream, post(t.Context(), "/v1/completions", streaming))
		assert.Contains(t, stream.text(), `"timeout"`)
		assert.NotContains(t, stream.text(), "[DONE]")
		assert.Zero(t, s.Load().Active)
	})
}

// slowBody takes a while to arrive.
type slowBody struct {
	io.Reader
	wait time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	time.Sleep(b.wait)
	b.wait = 0
	return b.Reader.Read(p)
}

// TestTimeoutAfterReading: the time in which a request arrives is not a part of its limit.
func TestTimeoutAfterReading(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: time.Second, answer: long(25)},
			func(o *Options) { o.Timeout = 30 * time.Second })
		r, w := post(t.Context(), "/v1/completions", ""), httptest.NewRecorder()
		r.Body = io.NopCloser(&slowBody{strings.NewReader(`{"prompt":"x","max_tokens":50}`), 20 * time.Second})
		begin := time.Now()
		s.ServeHTTP(w, r)
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, 45*time.Second, time.Since(begin))
	})
}

// TestSlowReader: a client that does not read does not delay generating while the buffer has room, then for a limited
// time, and is then disconnected.
func TestSlowReader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var got []Event
		m := &fakeModel{step: 10 * time.Millisecond, answer: long(2000)}
		s := newTestServer(t, m, func(o *Options) {
			o.Parallel, o.Timeout, o.Events = 1, time.Hour, func(e Event) { got = append(got, e) }
		})
		take := make(chan struct{})
		w := newSlowWriter(take)
		go s.ServeHTTP(w, post(t.Context(), "/v1/completions", streaming))
		time.Sleep(9 * time.Second)
		synctest.Wait()
		assert.Equal(t, Load{Stalled: 1, Sessions: 1}, s.Load(), "the place is free for others")
		assert.JSONEq(t, `{"status":"ok","active":0,"waiting":0,"stalled":1}`, ask(t, s, "/health", "").Body.String())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, Load{Sessions: 1}, s.Load(), "the reader is dropped 10 s after the first write")
		require.Len(t, got, 1)
		assert.Equal(t, request.StatusGone, got[0].Status)
		assert.LessOrEqual(t, got[0].Tokens, 1002)
		_, write := w.deadlines()
		assert.Equal(t, time.Unix(1, 0), write, "unsent data is dropped")
	})
}

// lingering is a model with answers that end a while after they are cancelled, with an error of its own.
type lingering struct {
	*fakeModel
	busy *atomic.Int32 // answers
}

func (m lingering) NewSession() session { return lingers{m.fakeModel.NewSession(), m.busy} }

type lingers struct {
	session
	busy *atomic.Int32
}

func (s lingers) Generate(ctx context.Context, prompt []int32, o terms.Settings) iter.Seq2[engine.Token, error] {
	return func(yield func(engine.Token, error) bool) {
		s.busy.Add(1)
		defer s.busy.Add(-1)
		defer time.Sleep(time.Second)
		s.session.Generate(ctx, prompt, o)(func(t engine.Token, err error) bool {
			if err != nil {
				err = errors.New("the model was interrupted")
			}
			return yield(t, err)
		})
	}
}

// TestEndsWithAnswer: a request is over when its answer has ended, also if its reader was cut off before.
func TestEndsWithAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := lingering{&fakeModel{step: time.Second, answer: long(1000)}, new(atomic.Int32)}
		s := newTestServer(t, m, nil)
		begin := time.Now()
		s.ServeHTTP(newSlowWriter(make(chan struct{})), post(t.Context(), "/v1/completions", streaming))
		assert.Equal(t, 12*time.Second, time.Since(begin), "a second each for the first and the last token")
		assert.Zero(t, m.busy.Load())
		assert.Equal(t, Load{Sessions: 1}, s.Load())
	})
}

// TestCauseOfEnd: a request that is ended fails for that reason, whatever error the model returns then.
func TestCauseOfEnd(t *testing.T) {
	for code, after := range map[string]func(s *Server, leave func()){
		"timeout":   func(*Server, func()) {},
		"cancelled": func(_ *Server, leave func()) { leave() },
		"draining":  func(s *Server, _ func()) { assert.NoError(t, s.Close()) },
	} {
		for _, body := range []string{streaming, `{"prompt":"p"}`} {
			bubble.Test(t, func(t *testing.T) {
				m := lingering{&fakeModel{step: time.Second, answer: long(1000)}, new(atomic.Int32)}
				var got Event
				s := newTestServer(t, m, func(o *Options) {
					o.Timeout, o.Events = 9*time.Second, func(e Event) { got = e }
				})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				time.AfterFunc(4*time.Second, func() { after(s, leave) })
				s.ServeHTTP(newSlowWriter(nil), post(ctx, "/v1/completions", body))
				assert.Equal(t, code, got.Code)
				time.Sleep(time.Minute)
			})
		}
	}
}

// TestDrippingReader: a client that reads a little now and then may delay an answer for a limited total time; an answer
// that fits into the buffer does not wait for the client, and its place is free when it is generated.
func TestDrippingReader(t *testing.T) {
	for tokens, cut := range map[int]bool{200: false, 4000: true} {
		bubble.Test(t, func(t *testing.T) {
			var got []Event
			m := &fakeModel{step: time.Millisecond, answer: long(tokens), context: 10000}
			s := newTestServer(t, m, func(o *Options) {
				o.Timeout, o.Events = time.Hour, func(e Event) { got = append(got, e) }
			})
			take := make(chan struct{})
			w := newSlowWriter(take)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.ServeHTTP(w, post(t.Context(), "/v1/completions", streaming))
			}()
			drip := time.NewTicker(3 * time.Second)
			defer drip.Stop()
			go func() {
				for {
					select {
					case <-drip.C:
						select {
						case take <- struct{}{}:
						case <-ended:
							return
						}
					case <-ended:
						return
					}
				}
			}()
			time.Sleep(time.Second)
			synctest.Wait()
			if !cut {
				assert.Zero(t, s.Load().Active, "the answer is generated, although the client has not received it")
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			assert.Zero(t, s.Load().Active)
			<-ended
			require.Len(t, got, 1)
			if cut {
				assert.Equal(t, "slow_reader", got[0].Code)
				assert.NotContains(t, w.text(), "[DONE]")
			} else {
				assert.Equal(t, http.StatusOK, got[0].Status)
				assert.Contains(t, w.text(), "[DONE]")
			}
		})
	}
}

// TestStallsAdd: the times for which a client stalls an answer add up.
func TestStallsAdd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		in, err := newRequestLimiter(1, 0, 1).acquireSlot(t.Context())
		require.NoError(t, err)
		b := &stream{chunks: make(chan []byte), left: 10 * time.Second, slot: in}
		go func() {
			for range 2 {
				time.Sleep(4 * time.Second)
				<-b.chunks
			}
		}()
		require.NoError(t, b.pushChunk(t.Context(), nil))
		require.NoError(t, b.pushChunk(t.Context(), nil))
		begin := time.Now()
		require.ErrorIs(t, b.pushChunk(t.Context(), nil), request.ErrSlow)
		assert.Equal(t, 2*time.Second, time.Since(begin))
		in.releaseSlot()
	})
}

// TestOthersGoOn: while one client does not read, others get their answers.
func TestOthersGoOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &fakeModel{step: time.Millisecond, answer: long(100)}
		s := newTestServer(t, m, func(o *Options) { o.Parallel = 1 })
		for range 5 {
			go s.ServeHTTP(newSlowWriter(make(chan struct{})), post(t.Context(), "/v1/completions", streaming))
		}
		synctest.Wait()
		begin := time.Now()
		assert.Equal(t, http.StatusOK, ask(t, s, "/v1/completions", `{"prompt":"x"}`).Code)
		assert.Equal(t, 516*time.Millisecond, time.Since(begin),
			"after the answers of the five, not after their readers")
		time.Sleep(time.Minute)
	})
}

// TestWholeAnswersGoOn: a client that does not read an answer that is sent whole has no place.
func TestWholeAnswersGoOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: time.Second, answer: long(3)}, func(o *Options) {
			o.Parallel, o.Queue = 1, -1
		})
		for range 2 {
			go s.ServeHTTP(newSlowWriter(make(chan struct{})), post(t.Context(), "/v1/completions", `{"prompt":"x"}`))
			time.Sleep(3*time.Second + time.Millisecond)
			assert.Zero(t, s.Load().Active)
		}
		assert.Equal(t, http.StatusOK, ask(t, s, "/v1/completions", `{"prompt":"x"}`).Code)
		time.Sleep(time.Minute)
	})
}

// TestStalled: clients that do not read long texts do not delay others, which get their answers at full speed; if more
// than the limit stall, they are disconnected at once.
func TestStalled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		codes := map[string]int{}
		m := &fakeModel{step: time.Millisecond, context: 10000, answer: func(prompt string, _ terms.Settings) string {
			return strings.Repeat("x", map[string]int{"p": 5000}[prompt]+10)
		}}
		s := newTestServer(t, m, func(o *Options) {
			o.Parallel, o.Sessions = 1, 3
			o.Events = func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				codes[e.Code]++
			}
		})
		for range 5 {
			go s.ServeHTTP(newSlowWriter(make(chan struct{})), post(t.Context(), "/v1/completions", streaming))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, Load{Stalled: 2, Sessions: 3}, s.Load())
		begin := time.Now()
		assert.Equal(t, http.StatusOK, ask(t, s, "/v1/completions", `{"prompt":"x"}`).Code)
		assert.Equal(t, 10*time.Millisecond, time.Since(begin))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, map[string]int{"slow_reader": 5, "": 1}, codes)
		assert.Zero(t, s.Load().Stalled)
		assert.LessOrEqual(t, m.limit, 4)
	})
}

// TestBackInTurn: an answer that comes back waits for a place. That is not its reader's time, and if the answer ends
// then, the others keep their places.
func TestBackInTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newRequestLimiter(1, 0, 1)
		enter := func() *requestSlot {
			in, err := g.acquireSlot(t.Context())
			require.NoError(t, err)
			return in
		}
		in := enter()
		b := &stream{chunks: make(chan []byte), left: 10 * time.Second, slot: in}
		time.AfterFunc(time.Second, func() { time.AfterFunc(8*time.Second, enter().releaseSlot) })
		time.AfterFunc(4*time.Second, func() { <-b.chunks })
		begin := time.Now()
		require.NoError(t, b.pushChunk(t.Context(), nil))
		assert.Equal(t, []time.Duration{9 * time.Second, 6 * time.Second}, []time.Duration{time.Since(begin), b.left})

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.True(t, in.yieldSlot())
		other := enter()
		require.ErrorIs(t, in.reacquireSlot(ended), context.Canceled)
		in.releaseSlot()
		active, _, stalled := g.currentLoad()
		assert.Equal(t, []int{1, 0}, []int{active, stalled})
		other.releaseSlot()
		active, _, _ = g.currentLoad()
		assert.Zero(t, active)
	})
}

// TestEventTimes: the times of a request: until it has a place, from there to its first token, and in all.
func TestEventTimes(t *testing.T) {
	for _, body := range []string{`{"prompt":"p"}`, `{"prompt":"p","stream":true}`} {
		bubble.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var got []Event
			s := newTestServer(t, &fakeModel{step: time.Second, answer: long(4)}, func(o *Options) {
				o.Parallel, o.Events = 1, func(e Event) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, e)
				}
			})
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() { s.ServeHTTP(newSlowWriter(nil), post(t.Context(), "/v1/completions", body)) })
				synctest.Wait()
			}
			all.Go(func() {
				s.ServeHTTP(newSlowWriter(nil), post(t.Context(), "/v1/messages/count_tokens", `{`+hello+`}`))
			})
			all.Wait()
			type seconds struct{ queue, first, took float64 }
			var times []seconds
			for _, e := range got {
				times = append(times, seconds{e.Queue.Seconds(), e.First.Seconds(), e.Took.Seconds()})
			}
			assert.ElementsMatch(t, []seconds{{queue: 0, first: 1, took: 4}, {queue: 4, first: 1, took: 8}, {}}, times)
			assert.Zero(t, s.Load().Active)
		})
	}
}

// TestComesBack: an answer continues after its client reads again, when there is room for it. One may always wait.
func TestComesBack(t *testing.T) {
	for sessions := range 2 {
		bubble.Test(t, func(t *testing.T) { testComesBack(t, sessions) })
	}
}

func testComesBack(t *testing.T, sessions int) {
	s := newTestServer(t, &fakeModel{step: time.Millisecond, context: 10000, answer: long(2000)},
		func(o *Options) { o.Parallel, o.Sessions = 1, sessions })
	take := make(chan struct{})
	w := newSlowWriter(take)
	go s.ServeHTTP(w, post(t.Context(), "/v1/completions", streaming))
	time.Sleep(5 * time.Second)
	assert.Equal(t, 1, s.Load().Stalled)
	close(take) // from now on it accepts everything at once
	time.Sleep(2 * time.Second)
	synctest.Wait()
	assert.Contains(t, w.text(), "[DONE]")
	assert.Equal(t, 2001, strings.Count(w.text(), `"text":"`))
	assert.Equal(t, Load{Sessions: 1}, s.Load())
}

// TestDrain: running and waiting requests finish, new ones are refused, and health says so.
func TestDrain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: time.Second, answer: long(10)}, func(o *Options) { o.Parallel = 1 })
		var all []*slowWriter
		for range 2 {
			w := newSlowWriter(nil)
			all = append(all, w)
			go s.ServeHTTP(w, post(t.Context(), "/v1/completions", streaming))
			synctest.Wait()
		}
		drained := make(chan error, 1)
		go func() { drained <- s.Drain(t.Context()) }()
		synctest.Wait()
		w := ask(t, s, "/v1/completions", `{"prompt":"x"}`)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Equal(t, "1", w.Header().Get("Retry-After"))
		w = ask(t, s, "/health", "")
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Contains(t, w.Body.String(), `"draining"`)
		assert.Equal(t, http.StatusOK, ask(t, s, "/v1/models", "").Code)
		begin := time.Now()
		require.NoError(t, <-drained)
		assert.Equal(t, 20*time.Second, time.Since(begin))
		for _, w := range all {
			assert.Contains(t, w.text(), "[DONE]")
		}
	})
}

// TestDrainEnds: requests that do not finish in time end with an error.
func TestDrainEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, &fakeModel{step: time.Second, answer: long(100)}, func(o *Options) { o.Parallel = 1 })
		w, waits := newSlowWriter(nil), newSlowWriter(nil)
		go s.ServeHTTP(w, post(t.Context(), "/v1/completions", streaming))
		synctest.Wait()
		go s.ServeHTTP(waits, post(t.Context(), "/v1/completions", streaming))
		synctest.Wait()
		late := errors.New("the time is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second+time.Millisecond, late)
		defer cancel()
		require.ErrorIs(t, s.Drain(ctx), late)
		synctest.Wait()
		assert.Equal(t, 6, strings.Count(w.text(), "data: "))
		assert.Contains(t, w.text(), `"code":"draining"`)
		assert.Contains(t, waits.text(), `"code":"draining"`)
		assert.Zero(t, s.Load().Active)
	})
}
