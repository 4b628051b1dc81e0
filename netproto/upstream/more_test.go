package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// TestLeastOfAll: the features of several engines are those that all of them have; one with wrong answers is an error,
// whatever the others do.
func TestLeastOfAll(t *testing.T) {
	w := fakeengine.NewWire(map[string]http.Handler{
		"a": &fakeengine.Engine{Dialect: "vllm", MaxTop: 20, MaxContext: 400},
		"b": &fakeengine.Engine{Dialect: "vllm", MaxTop: 5},
		"c": &fakeengine.Engine{Dialect: "llama", Slots: 3},
		"d": &fakeengine.Engine{Dialect: "llama", Vocabulary: fakeengine.NewVocabulary().Swapped(260, 261)},
	})
	for _, hosts := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}} {
		info := open(t, options(w, hosts...)).Info()
		assert.Equal(t, 5, info.Choices)
		assert.Equal(t, 399, info.MaxContext)
		assert.Equal(t, netproto.NoAudit, info.Audit)
		assert.Equal(t, 64+64+3, info.Parallel)
	}
	w.Set("e", &fakeengine.Engine{Dialect: "vllm", Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"fake","owned_by":"vllm"}]}`)
		}
		return r.URL.Path == "/v1/models"
	}})
	for _, hosts := range [][]string{{"a", "e"}, {"e", "a"}} {
		assert.Equal(t, 399, open(t, options(w, hosts...)).Info().MaxContext, "one of them reports none")
	}
	_, err := Open(t.Context(), options(w, "a", "c", "d"))
	assert.ErrorContains(t, err, "http://d: its vocabulary is not that")
}

// TestNoProbabilities: an engine that returns no probabilities can only choose its best token, which is no unlimited
// choice.
func TestNoProbabilities(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "vllm", MaxTop: -1}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	assert.Equal(t, 1, u.Info().Choices)
	q := question(1, []int32{1, 2, 3})
	q.K, q.Sampling = 3, terms.Sampling{Temperature: 1, TopK: 1}
	a := mustAsk(t, u, q)
	assert.Equal(t, truth(e, q.Context)[0].ID, a.Token)
	assert.Empty(t, a.Top)
}

// TestCrowded: an engine that reports that it is full is used last, for the time that it states, or for a moment.
func TestCrowded(t *testing.T) {
	testCrowded(t, 7*time.Second, saying(429, "", "Retry-After", "7"))
	testCrowded(t, 100*time.Millisecond, saying(503, ""))
}

func testCrowded(t *testing.T, wait time.Duration, doing func(http.ResponseWriter, *http.Request)) {
	f := &fault{doing: doing}
	engines := []*fakeengine.Engine{{Dialect: "llama", Fault: f.answer}, {Dialect: "llama"}}
	inWorld(t, engines, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		session := sessionOf(u, "http://0")
		f.on.Store(true)
		require.NoError(t, ask(t, u, session, time.Second), "the other engine answers")
		f.on.Store(false)
		s := u.Stats().Engines[0]
		assert.Equal(t, "http://0", s.URL)
		assert.Equal(t, "llama", s.Facts.Dialect)
		assert.Equal(t, uint64(1), s.Failed)
		assert.Equal(t, "http://1", u.rankEngines(session)[0].url)
		time.Sleep(wait - time.Millisecond)
		assert.Equal(t, "http://1", u.rankEngines(session)[0].url)
		time.Sleep(2 * time.Millisecond)
		assert.Equal(t, "http://0", u.rankEngines(session)[0].url)
		require.NoError(t, ask(t, u, session, time.Second))
	})
}

// TestFaultsInARow: an engine that fails occasionally stays in service.
func TestFaultsInARow(t *testing.T) {
	f := &fault{doing: saying(500, "")}
	inWorld(t, []*fakeengine.Engine{{Dialect: "llama", Fault: f.answer}}, nil,
		func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
			for range 5 {
				f.on.Store(true)
				require.Error(t, ask(t, u, 1, time.Second))
				time.Sleep(time.Millisecond)
				require.Error(t, ask(t, u, 1, time.Second))
				f.on.Store(false)
				time.Sleep(time.Millisecond)
				require.NoError(t, ask(t, u, 1, time.Second))
				time.Sleep(time.Millisecond)
			}
			assert.Zero(t, u.Stats().Engines[0].Outages)
		})
}

// TestGivenUp: a question that was cancelled after longer than answers take also counts against the engine; one that
// was cancelled at once does not.
func TestGivenUp(t *testing.T) {
	for after, found := range map[time.Duration]bool{time.Millisecond: false, 300 * time.Millisecond: true} {
		t.Run(after.String(), func(t *testing.T) {
			f := &fault{doing: hang, all: true}
			inWorld(t, []*fakeengine.Engine{{Dialect: "llama", Fault: f.answer}}, nil,
				func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
					require.NoError(t, ask(t, u, 1, time.Second))
					f.on.Store(true)
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(after, cancel)
					_, err := u.Ask(ctx, question(2, []int32{1, 2}))
					require.ErrorIs(t, err, context.Canceled)
					time.Sleep(pulseTime + time.Millisecond)
					assert.Equal(t, found, u.Ready() != nil)
				})
		})
	}
}

// TestSlowIsNotDead: an engine that answers other questions while one times out is alive, even if a trial takes long.
func TestSlowIsNotDead(t *testing.T) {
	var late atomic.Bool
	e := &fakeengine.Engine{Dialect: "llama", Fault: func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if late.Load() && r.Method == http.MethodPost {
			select {
			case <-time.After(4 * time.Second): // longer than a trial may take
			case <-r.Context().Done():
			}
		}
		return false
	}}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		late.Store(true)
		patient := make(chan error, 20)
		for i := range 20 { // an answer every half second
			go func() {
				time.Sleep(time.Duration(i) * 500 * time.Millisecond)
				patient <- ask(t, u, uint64(i), time.Minute)
			}()
		}
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, ask(t, u, 99, 100*time.Millisecond), netproto.TooLate)
		time.Sleep(pulseTime + time.Second)
		assert.NoError(t, u.Ready())
		for range 20 {
			assert.NoError(t, <-patient)
		}
	})
}

// TestSlowPulse: an engine stays after one slow health check; after two, or without a connection, it is taken out of
// service.
func TestSlowPulse(t *testing.T) {
	for _, c := range []struct {
		name   string
		misses int
		doing  func(http.ResponseWriter, *http.Request)
		stays  bool
	}{
		{"one slow check", 1, hang, true},
		{"two slow checks", 2, hang, false},
		{"no connection", 1, broken, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var left atomic.Int64
			e := &fakeengine.Engine{Dialect: "llama"}
			e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.URL.Path != "/health" || left.Add(-1) < 0 {
					return false
				}
				c.doing(w, r)
				return true
			}
			inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
				left.Store(int64(c.misses))
				time.Sleep(2*(pulse+pulseTime) + pulse)
				assert.Equal(t, c.stays, u.Stats().Engines[0].Outages == 0)
				time.Sleep(2 * longestPause)
				require.NoError(t, u.Ready())
			})
		})
	}
}

// TestSlowOnceMore: one slow health check is tolerated, too, if the engine was overloaded before, or out of service.
func TestSlowOnceMore(t *testing.T) {
	var slow atomic.Int64
	var full atomic.Bool
	e := &fakeengine.Engine{Dialect: "llama", Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		switch {
		case r.URL.Path == "/health" && slow.Add(-1) >= 0:
			hang(w, r)
		case r.Method == http.MethodPost && full.Load():
			saying(503, "")(w, r)
		default:
			return false
		}
		return true
	}}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		outages := func() uint64 { return u.Stats().Engines[0].Outages }
		full.Store(true)
		require.ErrorIs(t, ask(t, u, 1, time.Second), netproto.Busy)
		time.Sleep(minPulse) // it is checked
		full.Store(false)
		slow.Store(1)
		time.Sleep(pulse + pulseTime + time.Second)
		assert.Zero(t, outages(), "after it was overloaded")
		slow.Store(2)
		back := func() bool { return outages() == 1 && u.Ready() == nil }
		require.Eventually(t, back, time.Minute, time.Millisecond) // in virtual time
		slow.Store(1)
		time.Sleep(pulse + pulseTime + time.Second)
		assert.EqualValues(t, 1, outages(), "after it was out of service")
	})
}

// TestPauses: an engine that is out of service is tried with growing pauses.
func TestPauses(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "llama"}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		f := &fault{doing: broken, all: true}
		f.on.Store(true)
		e.Fault = f.answer
		require.Error(t, ask(t, u, 1, time.Second))
		before := len(e.Calls("/health"))
		time.Sleep(2 * time.Minute)
		tries := len(e.Calls("/health")) - before
		assert.GreaterOrEqual(t, tries, 10) // after 1, 3, 7, 15, 30, 45, … seconds
		assert.LessOrEqual(t, tries, 12)
		f.on.Store(false)
		time.Sleep(longestPause + time.Second)
		require.NoError(t, u.Ready())

		f.on.Store(true)
		require.Error(t, ask(t, u, 1, time.Second))
		f.on.Store(false)
		time.Sleep(firstPause + pulse)
		require.NoError(t, u.Ready(), "pauses are short again after it has been in service")
	})
}

// TestTimesOfMonitoring: an engine in service is checked every five seconds. A check may take three seconds, and all
// requests before it goes in service a minute.
func TestTimesOfMonitoring(t *testing.T) {
	for _, c := range []struct {
		path string
		late time.Duration // of each reply
		ok   bool
	}{
		{"/health", 0, true}, {"/health", 2900 * time.Millisecond, true}, {"/health", 3100 * time.Millisecond, false},
		{"/props", 59 * time.Second, true}, {"/props", 61 * time.Second, false},
	} {
		t.Run(fmt.Sprint(c.path, " after ", c.late), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := &fakeengine.Engine{Dialect: "llama"}
				e.Fault = func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
					if r.URL.Path == c.path {
						_ = retry.Wait(r.Context(), c.late)
					}
					return false
				}
				o := options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one")
				u, err := Open(t.Context(), o)
				if c.path == "/props" {
					assert.Equal(t, c.ok, err == nil, "%v", err)
				} else {
					require.NoError(t, err)
					time.Sleep(62 * time.Second)
					assert.Equal(t, c.ok, u.Stats().Engines[0].Outages == 0)
				}
				if c.late == 0 {
					assert.Len(t, e.Calls("/health"), 12)
				}
				if err == nil {
					u.Close()
				}
			})
		})
	}
}

// TestRequested: what an engine is asked for is what the question needs, up to what the engine returns.
func TestRequested(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "vllm"}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	drawn := func(k int) terms.Sampling { return terms.Sampling{Temperature: 1, TopK: k} }
	for _, c := range []struct {
		name         string
		q            terms.Question
		k, from, row int
	}{
		{"nothing", terms.Question{}, 0, 0, 0},
		{"candidates and an audit", terms.Question{K: 3, AuditFrom: 2}, 3, 2, 0},
		{"more than the engine gives", terms.Question{K: 30, AuditFrom: 5}, 20, 0, 0}, // there is no position 5
		{"more for the draw", terms.Question{K: 3, Sampling: drawn(7), AuditFrom: 4}, 7, 4, 0},
		{"more candidates than for the draw", terms.Question{K: 9, Sampling: drawn(7)}, 9, 0, 0},
		{"choices", terms.Question{AuditFrom: 1, Verify: terms.EachChoice}, 0, 1, 0},
		{"drawn choices", terms.Question{AuditFrom: 1, Verify: terms.EachChoice, Sampling: drawn(7)}, 7, 1, 7},
		{"drawn scores", terms.Question{AuditFrom: 1, Verify: terms.EachScore, Sampling: drawn(70)}, 20, 1, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.Context = []int32{1, 2, 3, 4, 5}
			a := u.newEngineAsk(terms.Job{Question: c.q})
			assert.Equal(t, c.k, a.K)
			assert.Equal(t, c.from, a.AuditFrom)
			assert.Equal(t, c.row, a.Rows)
			assert.Equal(t, c.q.Verify != terms.AsItComes, a.All)
		})
	}
}

// TestBusyIsNotWarmed: text that is sent early waits while an engine has questions.
func TestBusyIsNotWarmed(t *testing.T) {
	f := &fault{doing: hang}
	inWorld(t, []*fakeengine.Engine{{Dialect: "llama", Slots: 4, Fault: f.answer}}, nil,
		func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 2)
			q := question(9, make([]int32, 300))
			for i := range 3 { // the number of open questions; half of the slots is left for others
				assert.Equal(t, i == 2, errors.Is(u.Warm(t.Context(), q), netproto.Busy))
				if i == 2 {
					break
				}
				f.on.Store(true)
				go func() { _, err := u.Ask(ctx, question(uint64(i), []int32{1, 2, int32(i)})); done <- err }()
				synctest.Wait()
				f.on.Store(false)
			}
			cancel()
			<-done
			<-done
			require.NoError(t, u.Warm(t.Context(), q))
		})
}

// TestOneSlotIsWarmed: an engine that answers one question at a time is sent text early while it has none.
func TestOneSlotIsWarmed(t *testing.T) {
	f := &fault{doing: hang}
	inWorld(t, []*fakeengine.Engine{{Dialect: "llama", Slots: 1, Fault: f.answer}}, nil,
		func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
			q := question(9, make([]int32, 300))
			require.NoError(t, u.Warm(t.Context(), q))
			f.on.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { _, err := u.Ask(ctx, question(1, []int32{1, 2})); done <- err }()
			synctest.Wait()
			require.ErrorIs(t, u.Warm(t.Context(), q), netproto.Busy)
			cancel()
			<-done
		})
}

// TestWarmingFails: a failure counts against the engine, also without a question; an end of the caller does not.
func TestWarmingFails(t *testing.T) {
	f := &fault{doing: broken}
	inWorld(t, []*fakeengine.Engine{{Dialect: "llama", Fault: f.answer}}, nil,
		func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
			f.on.Store(true)
			q := question(9, make([]int32, 300))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, u.Warm(ctx, q))
			require.NoError(t, u.Ready())
			require.Error(t, u.Warm(t.Context(), q))
			require.Error(t, u.Ready())
			require.ErrorIs(t, u.Warm(t.Context(), q), netproto.Failed, "there is no engine")
		})
}

// TestFailingTrial: an engine that fails a trial after a question without an answer is taken out of service, even if
// its health check succeeds.
func TestFailingTrial(t *testing.T) {
	var on atomic.Bool
	var questions atomic.Int64
	e := &fakeengine.Engine{Dialect: "llama", Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if !on.Load() || r.Method == http.MethodGet {
			return false
		}
		if questions.Add(1) == 1 {
			hang(w, r)
		} else {
			saying(500, "")(w, r)
		}
		return true
	}}
	inWorld(t, []*fakeengine.Engine{e}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		on.Store(true)
		require.ErrorIs(t, ask(t, u, 1, 500*time.Millisecond), netproto.TooLate)
		time.Sleep(minPulse)
		require.Error(t, u.Ready())
	})
}

// TestNextTry: with all engines out of service, a client is to ask again when the first of them is tried.
func TestNextTry(t *testing.T) {
	now := time.Now()
	for _, pauses := range [][]time.Duration{{4, 9}, {9, 4}, {4, 99}} {
		bubble.Test(t, func(t *testing.T) {
			u := new(Upstream)
			for _, p := range pauses {
				u.engines = append(u.engines, &managedEngine{next: time.Now().Add(p * time.Second)})
			}
			no, ok := errors.AsType[netproto.Refusal](u.noEngineError())
			require.True(t, ok)
			assert.Equal(t, 4*time.Second, no.RetryAfter)
		})
	}
	u := &Upstream{engines: []*managedEngine{{next: now.Add(-time.Hour)}}}
	no, _ := errors.AsType[netproto.Refusal](u.noEngineError())
	assert.Equal(t, 100*time.Millisecond, no.RetryAfter)
}

// TestCloseWhileChecking: an engine that is being checked at the end does not count as failed.
func TestCloseWhileChecking(t *testing.T) {
	f := &fault{doing: hang, all: true}
	var ended *Upstream
	inWorld(t, []*fakeengine.Engine{{Dialect: "llama", Fault: f.answer}}, nil,
		func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
			f.on.Store(true)
			require.ErrorIs(t, ask(t, u, 1, 50*time.Millisecond), netproto.TooLate)
			synctest.Wait()
			ended = u
		})
	assert.Zero(t, ended.Stats().Engines[0].Outages)
}

// TestPiecesInChunks: every token is compared once, in requests of limited size, and those with another text are named.
func TestPiecesInChunks(t *testing.T) {
	pieces := [][]byte{[]byte("a")}
	for id := 1; id < 9000; id++ {
		pieces = append(pieces, fmt.Appendf(nil, "<%d>", id))
	}
	v := fakeengine.VocabularyOf(pieces, 9000, func(string) []int32 { return []int32{0} })
	text := func(ids []int32) (all []byte) {
		for _, id := range ids {
			all = append(all, v.Piece(id)...)
		}
		return all
	}
	for _, other := range []int32{-1, 0, 4095, 4096, 8191, 8999} {
		seen := 0
		err := checkPieces(t.Context(), detokenizer(func(ids []int32) (string, error) {
			require.LessOrEqual(t, len(ids), 4097)
			seen += len(ids) - 1
			said := text(ids)
			if slices.Contains(ids[1:], other) {
				said = append(said, '-')
			}
			return string(said), nil
		}), v)
		if other < 0 {
			require.NoError(t, err)
			assert.Equal(t, 9000, seen)
			continue
		}
		first := other / 4096 * 4096
		assert.ErrorContains(t, err, fmt.Sprintf("tokens %d to %d have another", first, min(first+4095, 8999)))
	}
	for fails := 1; fails < 4; fails++ {
		calls := 0
		err := checkPieces(t.Context(), detokenizer(func(ids []int32) (string, error) {
			if calls++; calls == fails {
				return "", dialect.ErrReply
			}
			return string(text(ids)), nil
		}), v)
		assert.ErrorIs(t, err, dialect.ErrReply)
	}
}

// detokenizer is an engine of which only one method is called.
type detokenizer func(ids []int32) (string, error)

func (d detokenizer) Detokenize(_ context.Context, ids []int32) (string, error) { return d(ids) }

// TestRememberedTogether: the results of two questions about one text are merged, in any order.
func TestRememberedTogether(t *testing.T) {
	for _, first := range []bool{true, false} {
		e := &fakeengine.Engine{Dialect: "sglang"}
		u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
		wide, deep := question(1, []int32{1, 2, 3, 4, 5, 6}), question(1, []int32{1, 2, 3, 4, 5, 6})
		wide.AuditFrom, deep.K, deep.AuditFrom = 1, 9, 4
		for _, now := range []bool{first, !first} {
			q := wide
			if now {
				q = deep
			}
			mustAsk(t, u, q)
		}
		before := len(e.Calls("/generate"))
		q := deep
		q.AuditFrom = 1
		a := mustAsk(t, u, q)
		assert.Len(t, e.Calls("/generate"), before)
		assert.Len(t, a.Top, 9)
		assert.Equal(t, 5, a.Audited)
		checkAudit(t, e, netproto.ExactAudit, q.Context, 1, a.Audited, a.Audit)
	}
}

// TestLeadingSpace: a tokenizer that drops a leading space does not count as a different vocabulary.
func TestLeadingSpace(t *testing.T) {
	for _, dialect := range []string{"llama", "sglang", "vllm"} {
		v := fakeengine.NewVocabulary().Swapped(0, 256) // the first token is " the"
		o := options(fakeengine.NewWire(map[string]http.Handler{
			"one": &fakeengine.Engine{Dialect: dialect, Vocabulary: v, Strips: true}}), "one")
		o.Vocabulary = v
		open(t, o)
	}
}

// TestCancelAsksNobodyElse: a cancelled question is not sent to the next engine.
func TestCancelAsksNobodyElse(t *testing.T) {
	f := &fault{doing: hang}
	engines := []*fakeengine.Engine{{Dialect: "sglang", Fault: f.answer}, {Dialect: "sglang", Fault: f.answer}}
	inWorld(t, engines, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		f.on.Store(true)
		require.Error(t, ask(t, u, 1, 50*time.Millisecond))
		s := u.Stats()
		assert.EqualValues(t, 1, s.Engines[0].Cancelled+s.Engines[1].Cancelled)
	})
}

// TestOtherMerges: an engine with the same tokens but other merges counts as different.
func TestOtherMerges(t *testing.T) {
	v := fakeengine.NewVocabulary()
	var pieces [][]byte
	for id := range int32(v.Size()) {
		pieces = append(pieces, v.Piece(id))
	}
	other := fakeengine.VocabularyOf(pieces, v.Special(), func(text string) []int32 {
		ids := v.Encode(text)
		if len(ids) > 10 {
			ids[10] = 7
		}
		return ids
	})
	for _, dialect := range []string{"llama", "sglang", "vllm"} {
		e := &fakeengine.Engine{Dialect: dialect, Vocabulary: other}
		_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
		assert.ErrorContains(t, err, "the token 10 is 7 there")
	}
	fewer := fakeengine.VocabularyOf(pieces, v.Special(), func(text string) []int32 {
		ids := v.Encode(text)
		return ids[:min(len(ids), 10)]
	})
	e := &fakeengine.Engine{Dialect: "llama", Vocabulary: fewer}
	_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	assert.ErrorContains(t, err, "the token 10 is none there")
}

// TestUnusedRows: candidates end before the first id that is only padding.
func TestUnusedRows(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "llama"}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		fmt.Fprint(w, `{"tokens":[5],"completion_probabilities":[{"id":5,"logprob":-0.1,"top_logprobs":[`+
			`{"id":5,"logprob":-0.1},{"id":6,"logprob":-2},{"id":303,"logprob":-3},{"id":7,"logprob":-4}]}]}`)
		return true
	}
	q := question(1, []int32{1, 2, 3})
	q.K = 4
	a := mustAsk(t, u, q)
	assert.Equal(t, []terms.Candidate{{ID: 5, LogProb: -0.1}, {ID: 6, LogProb: -2}}, a.Top)
	q.Context, q.Sampling = []int32{4, 5}, terms.Sampling{Temperature: 1, TopK: 3}
	_, err := u.Ask(t.Context(), q)
	assert.ErrorIs(t, err, netproto.Failed, "there are not three candidates")
}

// TestStoredApart: what a caller does with an answer does not change the stored one.
func TestStoredApart(t *testing.T) {
	m, q := newAnswerCache(9), terms.Job{Question: terms.Question{Context: []int32{1, 2, 3}, K: 2, AuditFrom: 1}}
	answer := func() terms.Reply {
		return terms.Reply{Token: 5, Top: []terms.Candidate{{ID: 5, LogProb: -1}, {ID: 6, LogProb: -2}}, Audited: 2,
			Audit: []terms.Finding{{Pos: 1, Token: 7}, {Pos: 2, Token: 8}}}
	}
	spoil := func(a terms.Reply) {
		_ = append(a.Top[:1], terms.Candidate{ID: 99})
		_ = append(a.Audit[:1], terms.Finding{Pos: 99})
		a.Top[0].ID, a.Audit[0].Token = 99, 99
	}
	for range 2 {
		spoil(m.storeAnswer(1, 0, q, answer()))
		for range 2 {
			a, ok := m.lookupAnswer(1, q)
			require.True(t, ok)
			assert.Equal(t, answer(), a)
			q.K = 1
			one, ok := m.lookupAnswer(1, q)
			require.True(t, ok)
			spoil(one)
			q.K = 2
			spoil(a)
		}
	}
	m.dropAnswers()
	assert.Equal(t, answer(), m.storeAnswer(1, 0, q, answer()), "asked before")
	_, ok := m.lookupAnswer(1, q)
	assert.False(t, ok)
	m.storeAnswer(1, 1, q, answer())
	_, ok = m.lookupAnswer(1, q)
	assert.True(t, ok)
}

// TestStoredPart: a stored audit of fewer positions than requested does not count as one of all.
func TestStoredPart(t *testing.T) {
	m, q := newAnswerCache(1), terms.Job{Question: terms.Question{Context: []int32{1, 2, 3, 4}, AuditFrom: 1}}
	m.storeAnswer(1, 0, q, terms.Reply{Audited: 2})
	for from, want := range map[int]int{1: 2, 2: 2, 3: 1} {
		q.AuditFrom = from
		a, ok := m.lookupAnswer(1, q)
		require.True(t, ok)
		assert.Equal(t, want, a.Audited, "from %d", from)
	}
}

// TestStoredAudits: of two audits of one context, the better kind is stored, and of one kind the longer one.
func TestStoredAudits(t *testing.T) {
	audit := func(from int, v terms.Verify) storedAnswer {
		return storedAnswer{auditFrom: from, verify: v, Reply: terms.Reply{Audited: 10 - from}}
	}
	none, late, early := audit(0, 0), audit(3, terms.EachChoice), audit(2, terms.EachChoice)
	none.Audited = 0
	exact := audit(5, terms.EachScore)
	for _, c := range []struct {
		name              string
		before, now, want storedAnswer
	}{
		{"the first one", none, late, late},
		{"none later", late, none, late},
		{"a longer one", late, early, early},
		{"a shorter one", early, late, early},
		{"an equal one", late, late, late},
		{"a better one", early, exact, exact},
		{"a worse one", exact, early, exact},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.before.mergeWith(c.now)
			assert.Equal(t, c.want.auditFrom, got.auditFrom)
			assert.Equal(t, c.want.verify, got.verify)
			assert.Equal(t, c.want.Audited, got.Audited)
		})
	}
}

// TestRefusedByEngine: the client is told what it can act on: to wait, or that its context is too long.
func TestRefusedByEngine(t *testing.T) {
	for status, want := range map[int]netproto.Refusal{
		429: {Code: netproto.TooFast, RetryAfter: time.Second}, 503: {Code: netproto.Busy, RetryAfter: time.Second},
		413: {Code: netproto.TooLarge},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			said := &dialect.StatusError{Request: "POST /x", Status: status, RetryAfter: time.Second}
			err := errorForClient(fmt.Errorf("around: %w", said))
			no, ok := errors.AsType[netproto.Refusal](err)
			require.True(t, ok)
			assert.NotEmpty(t, no.Detail)
			no.Detail = ""
			assert.Equal(t, want, no)
			assert.ErrorIs(t, err, said)
		})
	}
	for _, err := range []error{
		nil, &dialect.StatusError{Status: 500, RetryAfter: time.Second}, dialect.ErrReply, netproto.Busy,
	} {
		assert.Equal(t, err, errorForClient(err))
	}
}

// TestGivenUpEarly: a question that its client cancels before answers usually take so long starts no check of the
// engine; one whose deadline has passed does, however short it was.
func TestGivenUpEarly(t *testing.T) {
	for why, found := range map[error]bool{
		netproto.TooLate: true, context.DeadlineExceeded: true, context.Canceled: false, netproto.Cancelled: false,
	} {
		t.Run(why.Error(), func(t *testing.T) {
			m := &managedEngine{suspect: make(chan struct{}, 1)}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(why)
			if why == context.DeadlineExceeded {
				past, end := context.WithDeadlineCause(t.Context(), time.Now(), netproto.Cancelled)
				defer end()
				ctx = past
			}
			m.stats.Open = 1
			m.finishQuestion(ctx, dialect.Ask{}, dialect.Reply{}, ctx.Err(), 0)
			assert.Len(t, m.suspect, map[bool]int{true: 1}[found])
			assert.Equal(t, uint64(1), m.stats.Cancelled)
			assert.Zero(t, m.stats.Failed)
			assert.Zero(t, m.stats.Open)
		})
	}
}

// TestRefusals: whether waiting helps after the reply of an engine to a first request, and what is reported.
func TestRefusals(t *testing.T) {
	said := func(status int) error { return &dialect.StatusError{Request: "GET /x", Status: status, Said: "no"} }
	for _, c := range []struct {
		err   error
		wrong bool
		text  string
	}{
		{said(400), true, `GET /x: 400 Bad Request: "no"`}, {said(404), true, `GET /x: 404 Not Found: "no"`},
		{said(401), true, `the engine requires another key: GET /x: 401 Unauthorized: "no"`},
		{said(403), true, `the engine requires another key: GET /x: 403 Forbidden: "no"`},
		{said(429), false, "GET /x: 429 Too Many Requests"}, {said(500), false, "GET /x: 500 Internal Server Error"},
		{said(503), false, "GET /x: 503 Service Unavailable"},
		{fmt.Errorf("x: %w", dialect.ErrReply), true, "x: the engine's reply is invalid"},
		{errors.New("no connection"), false, "no connection"},
	} {
		err := classifyRefusal(c.err)
		assert.Equal(t, c.wrong, isUnsuitable(err), c.text)
		assert.EqualError(t, err, c.text)
	}
}

// TestStoredProbabilities: a stored answer has all the probabilities that a question wants, or it is none.
func TestStoredProbabilities(t *testing.T) {
	counts := []int{0, 1, 15, 16, 17, netproto.MaxK}
	for _, stored := range counts {
		for _, wanted := range counts {
			m, q := newAnswerCache(1), terms.Job{Question: terms.Question{Context: []int32{1}, K: stored}}
			top := make([]terms.Candidate, stored)
			for i := range top {
				top[i].ID = int32(i)
			}
			m.storeAnswer(1, 0, q, terms.Reply{Top: top})
			held, _ := m.answers.Peek(1)
			assert.Len(t, held.Top, min(stored, 16))
			q.K = wanted
			a, ok := m.lookupAnswer(1, q)
			assert.Equal(t, wanted <= min(stored, 16), ok, "%d of %d", wanted, stored)
			assert.True(t, !ok || slices.Equal(a.Top, top[:wanted]), "%d of %d", wanted, stored)
		}
	}
}
