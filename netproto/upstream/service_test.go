package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// inWorld runs a test in virtual time with an Upstream for engines at the hosts "0", "1", …
func inWorld(
	t *testing.T, engines []*fakeengine.Engine, set func(*Options),
	test func(t *testing.T, w *fakeengine.Wire, u *Upstream),
) {
	bubble.Test(t, func(t *testing.T) {
		w := fakeengine.NewWire(map[string]http.Handler{})
		o := options(w)
		for i, e := range engines {
			w.Set(fmt.Sprint(i), e)
			o.URLs = append(o.URLs, fmt.Sprintf("http://%d", i))
		}
		if set != nil {
			set(&o)
		}
		u, err := Open(t.Context(), o)
		require.NoError(t, err)
		test(t, w, u)
		u.Close()
	})
}

// fault is a Fault for questions that is active while on is set.
type fault struct {
	on    atomic.Bool
	doing func(w http.ResponseWriter, r *http.Request)
	all   bool // also for health checks
}

func (f *fault) answer(w http.ResponseWriter, r *http.Request, _ []byte) bool {
	if !f.on.Load() || !f.all && r.Method == http.MethodGet {
		return false
	}
	f.doing(w, r)
	return true
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func saying(status int, body string, header ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func broken(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// ask asks a new question with a deadline.
func ask(t *testing.T, u *Upstream, session uint64, deadline time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), deadline, netproto.TooLate)
	defer cancel()
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), session))
	_, err := u.Ask(ctx, question(session, contextOf(r, 20)))
	return err
}

// TestDeadEngine: when an engine dies silently, open questions wait for their deadlines. After that, questions are
// refused at once until it is back.
func TestDeadEngine(t *testing.T) {
	for _, dialect := range []string{"llama", "sglang", "vllm"} {
		f := &fault{doing: hang, all: true}
		e := &fakeengine.Engine{Dialect: dialect, Fault: f.answer}
		inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
			require.NoError(t, ask(t, u, 1, time.Second))
			f.on.Store(true)
			var asking sync.WaitGroup
			for i := range uint64(10) {
				asking.Go(func() { assert.ErrorIs(t, ask(t, u, 10+i, 800*time.Millisecond), netproto.TooLate) })
			}
			asking.Wait()
			time.Sleep(pulseTime)
			synctest.Wait()
			require.Error(t, u.Ready())
			began := time.Now()
			err := ask(t, u, 3, 800*time.Millisecond)
			require.ErrorIs(t, err, netproto.Failed)
			assert.Zero(t, time.Since(began), "no question waits for an engine that is out of service")
			no, ok := errors.AsType[netproto.Refusal](err)
			require.True(t, ok)
			assert.Positive(t, no.RetryAfter)
			f.on.Store(false)
			time.Sleep(longestPause + joinTime)
			synctest.Wait()
			require.NoError(t, u.Ready())
			require.NoError(t, ask(t, u, 4, time.Second))
			assert.EqualValues(t, 1, u.Stats().Engines[0].Outages)
			assert.EqualValues(t, 10, u.Stats().Engines[0].Cancelled)
		})
	}
}

// TestShortDeadlines: questions with too short a deadline do not count against the engine, and do not start trials
// again and again.
func TestShortDeadlines(t *testing.T) {
	slow := &fault{doing: func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
	}}
	e := &fakeengine.Engine{Dialect: "llama", Fault: func(w http.ResponseWriter, r *http.Request, b []byte) bool {
		slow.answer(w, r, b)
		return false
	}}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		slow.on.Store(true)
		before := len(e.Calls("/health"))
		for i := range uint64(1000) {
			require.ErrorIs(t, ask(t, u, i, 10*time.Millisecond), netproto.TooLate)
		}
		assert.InDelta(t, 9, len(e.Calls("/health"))-before, 2, "in 10 seconds")
		time.Sleep(2 * pulse)
		require.NoError(t, u.Ready())
		require.NoError(t, ask(t, u, 1, time.Second))
		assert.Zero(t, u.Stats().Engines[0].Outages)
	})
}

// TestRefusingEngine: an error of an engine becomes a refusal, with its time to retry. The engine stays in service if
// it is only overloaded, and is taken out if it fails repeatedly.
func TestRefusingEngine(t *testing.T) {
	for name, c := range map[string]struct {
		doing func(http.ResponseWriter, *http.Request)
		code  netproto.Code
		retry time.Duration
		stays bool
	}{
		"503": {saying(503, `{"error":{"message":"queue full"}}`, "Retry-After", "7"), netproto.Busy,
			7 * time.Second, true},
		"429":            {saying(429, ``, "Retry-After", "0.5"), netproto.TooFast, 500 * time.Millisecond, true},
		"a date":         {saying(429, ``, "Retry-After", "Sun, 22 Nov 2026 10:00:00 GMT"), netproto.TooFast, 0, true},
		"500":            {saying(500, `{"detail":"no"}`), netproto.Failed, 0, false},
		"no such token":  {saying(200, `{"tokens":[300]}`), netproto.Failed, 0, false},
		"a huge number":  {saying(200, `{"tokens":[99999999999]}`), netproto.Failed, 0, false},
		"a redirect":     {saying(302, ``, "Location", "http://elsewhere/"), netproto.Failed, 0, false},
		"a broken line":  {broken, netproto.Failed, 0, false},
		"a bad request":  {saying(400, `{"error":{"message":"secret text"}}`), netproto.Failed, 0, false},
		"another key":    {saying(401, `{"error":"Unauthorized"}`), netproto.Failed, 0, false},
		"not there":      {saying(404, ``), netproto.Failed, 0, false},
		"the wrong size": {saying(413, ``), netproto.TooLarge, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fault{doing: c.doing}
			e := &fakeengine.Engine{Dialect: "llama", Fault: f.answer}
			inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
				f.on.Store(true)
				for i := range uint64(3) {
					err := ask(t, u, i, time.Second)
					require.Error(t, err)
					if no, ok := errors.AsType[netproto.Refusal](err); ok && i == 0 {
						assert.Equal(t, c.code, no.Code)
						assert.Equal(t, c.retry, no.RetryAfter)
						assert.NotEmpty(t, no.Detail)
					} else if i == 0 {
						code, known := errors.AsType[netproto.Code](err)
						assert.True(t, !known && c.code == netproto.Failed || code == c.code, "%v", err)
					}
					assert.NotContains(t, err.Error(), "secret text", "an engine may repeat its prompt")
				}
				time.Sleep(pulseTime)
				synctest.Wait()
				assert.Equal(t, c.stays, u.Ready() == nil, "%v", u.Stats().Engines[0].Why)
				f.on.Store(false)
				time.Sleep(longestPause + time.Second)
				synctest.Wait()
				require.NoError(t, ask(t, u, 9, time.Second), "it is back")
			})
		})
	}
}

// TestWrongQuestion: an engine that refuses single questions, and answers a trial, stays in service.
func TestWrongQuestion(t *testing.T) {
	refuses := new(atomic.Int32)
	e := &fakeengine.Engine{Dialect: "llama", Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path != "/completion" || refuses.Add(-1) < 0 {
			return false
		}
		saying(400, "")(w, r)
		return true
	}}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		for i := range uint64(5) {
			refuses.Store(1)
			require.Error(t, ask(t, u, i, time.Second))
			time.Sleep(2 * minPulse)
			require.NoError(t, ask(t, u, 10+i, time.Second))
		}
		assert.Zero(t, u.Stats().Engines[0].Outages)
	})
}

// TestHangingEngine: an engine that hung is back soon after it responds again: no check waits for it.
func TestHangingEngine(t *testing.T) {
	for _, d := range []time.Duration{5 * time.Second, 18 * time.Second, time.Minute} {
		f := &fault{doing: hang, all: true}
		e := &fakeengine.Engine{Dialect: "llama", Fault: f.answer}
		inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
			f.on.Store(true)
			require.Error(t, ask(t, u, 1, time.Second))
			time.Sleep(d)
			require.Error(t, u.Ready())
			f.on.Store(false)
			time.Sleep(min(d, longestPause) + pulseTime + time.Second)
			require.NoError(t, u.Ready(), "after %v", d)
		})
	}
}

// TestFaultsForgotten: an engine that is back may fail as often as one that never failed.
func TestFaultsForgotten(t *testing.T) {
	f := &fault{doing: saying(500, `{}`)}
	e := &fakeengine.Engine{Dialect: "llama", Fault: f.answer}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		for range 2 {
			f.on.Store(true)
			for i := range uint64(3) {
				require.NoError(t, u.Ready(), i)
				require.Error(t, ask(t, u, i, time.Second))
			}
			require.Error(t, u.Ready())
			f.on.Store(false)
			time.Sleep(longestPause + time.Second)
			synctest.Wait()
		}
	})
}

// TestNextEngine: if one engine does not answer, another one does for the same question; sessions of the other engines
// stay, and moved sessions return when it is back.
func TestNextEngine(t *testing.T) {
	for name, doing := range map[string]func(http.ResponseWriter, *http.Request){
		"broken": broken, "500": saying(500, ""), "503": saying(503, ""), "429": saying(429, ""),
		"garbage": saying(200, "}"), "401": saying(401, ""), "403": saying(403, ""), "404": saying(404, ""),
		"400": saying(400, ""), "307": saying(307, ""),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fault{doing: doing, all: true}
			engines := []*fakeengine.Engine{{Dialect: "llama", Fault: f.answer}, {Dialect: "llama"}, {Dialect: "llama"}}
			inWorld(t, engines, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
				home := func() (all []string) {
					for s := range uint64(60) {
						all = append(all, u.rankEngines(s)[0].url)
					}
					return all
				}
				before := home()
				share := map[string]int{}
				for _, url := range before {
					share[url]++
				}
				assert.Len(t, share, 3)
				for url, n := range share {
					assert.InDelta(t, 20, n, 17, url) // by chance it is further off once in 10⁵ times
				}
				f.on.Store(true)
				for s := range uint64(60) {
					require.NoError(t, ask(t, u, s, time.Second))
				}
				time.Sleep(pulseTime)
				synctest.Wait()
				for s, url := range home() {
					if before[s] != "http://0" {
						assert.Equal(t, before[s], url, "only its own sessions move")
					}
					assert.NotEqual(t, "http://0", url)
				}
				f.on.Store(false)
				time.Sleep(2 * longestPause)
				synctest.Wait()
				assert.Equal(t, before, home())
			})
		})
	}
}

// TestOneOutage: questions that fail at the same time are one outage.
func TestOneOutage(t *testing.T) {
	f := &fault{doing: func(w http.ResponseWriter, r *http.Request) { time.Sleep(time.Second); broken(w, r) }}
	inWorld(t, []*fakeengine.Engine{{Dialect: "llama", Fault: f.answer}}, nil,
		func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
			f.on.Store(true)
			var asking sync.WaitGroup
			for i := range uint64(3) {
				asking.Go(func() { assert.Error(t, ask(t, u, i, time.Minute)) })
			}
			asking.Wait()
			s := u.Stats().Engines[0]
			assert.EqualValues(t, 3, s.Failed)
			assert.EqualValues(t, 1, s.Outages)
		})
}

// TestFullEngine: questions skip an engine that is at its limit or reports that it is full.
func TestFullEngine(t *testing.T) {
	f := &fault{doing: hang}
	engines := []*fakeengine.Engine{{Dialect: "llama", Slots: 2, Fault: f.answer}, {Dialect: "llama", Slots: 2}}
	inWorld(t, engines, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		assert.Equal(t, 4, u.Info().Parallel)
		session := sessionOf(u, "http://0")
		f.on.Store(true)
		var asking sync.WaitGroup
		for range 2 {
			asking.Go(func() { assert.Error(t, ask(t, u, session, 500*time.Millisecond)) })
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.NoError(t, ask(t, u, session, 100*time.Millisecond), "the other engine is free")
		asking.Wait()
	})
}

// TestCancel: cancelling a question ends the request, and aborts it at SGLang, however many were aborted before.
func TestCancel(t *testing.T) {
	f := &fault{doing: hang}
	e := &fakeengine.Engine{Dialect: "sglang", Fault: func(w http.ResponseWriter, r *http.Request, b []byte) bool {
		return r.URL.Path == "/generate" && f.answer(w, r, b)
	}}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		f.on.Store(true)
		const times = 70 // more than may be under way
		for i := range times {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			began := time.Now()
			_, err := u.Ask(ctx, question(1, []int32{1, 2, 3}))
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 10*time.Millisecond, time.Since(began))
			synctest.Wait()
			calls := e.Calls("/generate")
			var id string
			_, err = fmt.Sscanf(string(calls[len(calls)-1].Body), `{"rid":%q`, &id)
			require.NoError(t, err)
			aborts := e.Calls("/abort_request")
			require.Len(t, aborts, i+1)
			assert.JSONEq(t, fmt.Sprintf(`{"rid":%q}`, id), string(aborts[i].Body))
		}
		s := u.Stats().Engines[0]
		assert.EqualValues(t, times, s.Cancelled)
		assert.Zero(t, s.Failed)
	})
}

// TestAbortsEnd: a hanging engine delays neither cancelled callers nor Close.
func TestAbortsEnd(t *testing.T) {
	f := &fault{doing: hang}
	e := &fakeengine.Engine{Dialect: "sglang", Fault: f.answer}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		f.on.Store(true)
		var asking sync.WaitGroup
		for i := range uint64(200) {
			asking.Go(func() { assert.Error(t, ask(t, u, i, 10*time.Millisecond)) })
		}
		asking.Wait()
		synctest.Wait()
		assert.LessOrEqual(t, len(e.Calls("/abort_request")), 64, "the engine notices the rest by itself")
	})
}

// TestEqualAnswers: an engine with changing rounding errors changes no answer, whether questions are sequential or
// concurrent, and the share of repeated answers is counted.
func TestEqualAnswers(t *testing.T) {
	var turn atomic.Int64
	e := &fakeengine.Engine{Dialect: "sglang", Model: func(ctx []int32) []float64 {
		p := fakeengine.Table(fakeengine.NewVocabulary(), uint64(turn.Add(1)))(ctx)
		return p
	}}
	e.Fault = func(http.ResponseWriter, *http.Request, []byte) bool { time.Sleep(time.Millisecond); return false }
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		text := []int32{5, 6, 7, 8}
		first := make([]int32, 8)
		var asking sync.WaitGroup
		for i := range first {
			asking.Go(func() {
				a, err := u.Ask(t.Context(), question(1, text))
				assert.NoError(t, err)
				first[i] = a.Token
			})
		}
		asking.Wait()
		for _, token := range first {
			assert.Equal(t, first[0], token)
		}
		assert.Positive(t, u.Stats().Differing)
		q := question(2, text) // another session of the same client, with more candidates
		q.K = 12
		a := mustAsk(t, u, q)
		assert.Equal(t, first[0], a.Token)
		assert.Len(t, a.Top, 12)
		before := len(e.Calls("/generate"))
		q.K = 5
		again := mustAsk(t, u, q)
		assert.Equal(t, a.Top[:5], again.Top)
		assert.Len(t, e.Calls("/generate"), before, "from memory")
		assert.EqualValues(t, 1, u.Stats().Repeats)
		for range 3 { // another client's questions find nothing in memory
			q.Client++
			mustAsk(t, u, q)
		}
		assert.Len(t, e.Calls("/generate"), before+3)
	})
}

// TestRemember: the number of stored answers is limited.
func TestRemember(t *testing.T) {
	w := fakeengine.NewWire(map[string]http.Handler{"one": &fakeengine.Engine{Dialect: "sglang"}})
	u := open(t, options(w, "one"))
	u.cache = newAnswerCache(2)
	for i, repeats := range []uint64{0, 0, 1, 1, 1} {
		mustAsk(t, u, question(1, []int32{[]int32{1, 2, 1, 3, 2}[i]}))
		assert.Equal(t, repeats, u.Stats().Repeats, "%d", i)
	}
}

// TestLateEngine: an engine that is down at the start joins later; if all are down, the start waits for one.
func TestLateEngine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := fakeengine.NewWire(map[string]http.Handler{"1": &fakeengine.Engine{Dialect: "llama"}})
		u, err := Open(t.Context(), options(w, "0", "1"))
		require.NoError(t, err)
		s := u.Stats()
		assert.False(t, s.Engines[0].In)
		assert.True(t, s.Engines[1].In)
		w.Set("0", &fakeengine.Engine{Dialect: "llama"})
		time.Sleep(longestPause + time.Second)
		synctest.Wait()
		assert.True(t, u.Stats().Engines[0].In)
		u.Close()

		w.Set("0", nil)
		o := options(w, "0")
		_, err = Open(t.Context(), o)
		require.Error(t, err, "without patience")
		var log bytes.Buffer
		o.Patience, o.Log = time.Minute+time.Second, slog.New(slog.NewTextHandler(&log, nil))
		began := time.Now()
		_, err = Open(t.Context(), o)
		require.Error(t, err)
		assert.Equal(t, o.Patience, time.Since(began))
		assert.Equal(t, 31, strings.Count(log.String(), "waiting for an engine"), "every two seconds")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began = time.Now()
		_, err = Open(ctx, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(began), "unless the caller ends")
		time.AfterFunc(9*time.Second, func() { w.Set("0", &fakeengine.Engine{Dialect: "llama"}) })
		ctx, cancel = context.WithCancel(t.Context())
		began = time.Now()
		u, err = Open(ctx, o)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, time.Since(began))
		cancel() // it is only for Open
		w.Set("0", nil)
		require.Error(t, ask(t, u, 1, time.Second))
		w.Set("0", &fakeengine.Engine{Dialect: "llama"})
		time.Sleep(longestPause)
		require.NoError(t, u.Ready())
		u.Close()
	})
}

// TestAnotherComesBack: an engine that returns with another model, or with fewer features, stays out of service, and
// the log has the reason.
func TestAnotherComesBack(t *testing.T) {
	for why, e := range map[string]*fakeengine.Engine{
		"vocabulary":  {Dialect: "vllm", Vocabulary: fakeengine.NewVocabulary().Swapped(260, 261)},
		"400 tokens":  {Dialect: "vllm", MaxContext: 401},
		"5 probabili": {Dialect: "vllm", MaxTop: 5},
	} {
		t.Run(why, func(t *testing.T) {
			var log bytes.Buffer
			inWorld(t, []*fakeengine.Engine{{Dialect: "vllm"}}, func(o *Options) {
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
			}, func(t *testing.T, w *fakeengine.Wire, u *Upstream) {
				w.Set("0", nil)
				require.Error(t, ask(t, u, 1, time.Second))
				w.Set("0", e)
				time.Sleep(3 * longestPause)
				synctest.Wait()
				require.Error(t, u.Ready())
				w.Set("0", &fakeengine.Engine{Dialect: "vllm"})
				time.Sleep(2 * longestPause)
				synctest.Wait()
				require.NoError(t, u.Ready())
			})
			assert.Equal(t, 1, strings.Count(log.String(), "an engine stays out of service"), "once for each reason")
			assert.Contains(t, log.String(), why)
			assert.Equal(t, 1, strings.Count(log.String(), "an engine is out of service"))
			assert.Equal(t, 2, strings.Count(log.String(), "an engine is in service"), "at first, and when it is back")
		})
	}
}

// noisy is a model whose log-probabilities differ by up to this much.
func noisy(model func([]int32) []float64, by float64) func([]int32) []float64 {
	return func(context []int32) []float64 {
		all := slices.Clone(model(context))
		r := rand.New(rand.NewPCG(uint64(len(context)), 3))
		for i := range all {
			all[i] += by * (2*r.Float64() - 1)
		}
		return all
	}
}

// TestOtherWeights: an engine with other weights than the first one is refused at the start, and when it takes the
// place of another one, even between two checks. One that rounds otherwise is not.
func TestOtherWeights(t *testing.T) {
	v := fakeengine.NewVocabulary()
	one, two := fakeengine.Table(v, 1), fakeengine.Table(v, 2)
	for _, dialect := range []string{"llama", "sglang", "vllm"} {
		engine := func(model func([]int32) []float64) *fakeengine.Engine {
			return &fakeengine.Engine{Dialect: dialect, Model: model}
		}
		bubble.Test(t, func(t *testing.T) {
			w := fakeengine.NewWire(map[string]http.Handler{"a": engine(one), "b": engine(two)})
			o := options(w)
			o.URLs = []string{"http://a", "http://b"}
			_, err := Open(t.Context(), o)
			assert.ErrorContains(t, err, "its answers are not those of http://")
		})
		inWorld(t, []*fakeengine.Engine{engine(one), engine(noisy(one, 0.005))}, nil,
			func(t *testing.T, w *fakeengine.Wire, u *Upstream) {
				out := func() (all int) {
					for _, e := range u.Stats().Engines {
						if e.Why != nil {
							all++
							assert.ErrorContains(t, e.Why, "it has another model, or other weights")
						}
					}
					return all
				}
				time.Sleep(5 * examPeriod)
				require.Zero(t, out())
				w.Set("1", engine(two)) // nobody asks meanwhile
				time.Sleep(examPeriod + pulse + time.Second)
				assert.Equal(t, 1, out())
				require.NoError(t, u.Ready(), "the other one")
				w.Set("1", engine(one))
				time.Sleep(longestPause + time.Second)
				assert.Zero(t, out())
			})
	}
}

// TestAnswersOfAnother: when an engine turns out to be another model, its answers are not used any more.
func TestAnswersOfAnother(t *testing.T) {
	v := fakeengine.NewVocabulary()
	engine := func(model uint64) *fakeengine.Engine {
		return &fakeengine.Engine{Dialect: "vllm", Model: fakeengine.Table(v, model)}
	}
	inWorld(t, []*fakeengine.Engine{engine(1)}, nil, func(t *testing.T, w *fakeengine.Wire, u *Upstream) {
		answer := func() int32 {
			a, err := u.Ask(t.Context(), question(1, []int32{7, 8, 9}))
			require.NoError(t, err)
			return a.Token
		}
		w.Set("0", engine(2))
		others := answer()
		time.Sleep(examPeriod + pulse + time.Second)
		require.Error(t, u.Ready())
		w.Set("0", engine(1))
		time.Sleep(longestPause + time.Second)
		require.NotEqual(t, others, answer())
	})
}

// TestFingerprint: the difference of two fingerprints is the mean of those of their log-probabilities.
func TestFingerprint(t *testing.T) {
	list := func(all ...float32) (top []terms.Candidate) {
		for i := 0; i < len(all); i += 2 {
			top = append(top, terms.Candidate{ID: int32(all[i]), LogProb: all[i+1]})
		}
		return top
	}
	one := fingerprint{list(1, -1, 2, -2)}
	assert.Zero(t, one.meanDifference(one))
	assert.InDelta(t, 0.25, one.meanDifference(fingerprint{list(2, -1.5, 1, -1)}), 1e-6, "the order does not matter")
	assert.InDelta(t, (1+1+0.5+0.5)/4, one.meanDifference(fingerprint{list(3, -1.5, 1, -2)}), 1e-6,
		"1 twice, 2 and 3 lack")
	assert.Greater(t, fingerprint{list(1, 0)}.meanDifference(fingerprint{list(2, 0)}), mostApart,
		"without probabilities")
}

// TestUnknownContext: an engine that returns and no longer reports its maximum context is used as before.
func TestUnknownContext(t *testing.T) {
	length := `,"max_model_len":100`
	e := &fakeengine.Engine{Dialect: "vllm"}
	e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path == "/v1/models" {
			fmt.Fprintf(w, `{"data":[{"id":"fake","owned_by":"vllm"%s}]}`, length)
		}
		return r.URL.Path == "/v1/models"
	}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	assert.Equal(t, 99, u.Info().MaxContext)
	length = ""
	assert.NoError(t, u.engines[0].putInService(t.Context()))
}

// TestConcurrentQuestions: an engine answers as many questions at a time as it reports, up to a limit; one that is not
// in service counts, too.
func TestConcurrentQuestions(t *testing.T) {
	for want, engine := range map[int]*fakeengine.Engine{3: {Dialect: "llama", Slots: 3},
		4096: {Dialect: "llama", Slots: 5000}, 16: {Dialect: "sglang"}, 64: {Dialect: "vllm"}} {
		w := fakeengine.NewWire(map[string]http.Handler{"one": engine})
		assert.Equal(t, want, open(t, options(w, "one")).Info().Parallel, engine.Dialect)
		assert.Equal(t, want+64, open(t, options(w, "one", "down")).Info().Parallel, engine.Dialect)
	}
}
