package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// checked runs all checks and returns their results.
func checked(t *testing.T, e *fakeengine.Engine, set func(*Options)) (results map[string]Result, err error) {
	t.Helper()
	o := options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one")
	if set != nil {
		set(&o)
	}
	results = map[string]Result{}
	err = Check(t.Context(), o, func(r Result) {
		results[r.Check] = r
		t.Logf("%s: %s: %s", r.Check, r.Verdict, r.Found)
	})
	return results, err
}

// TestCheck: a correct engine passes; features that it lacks are noted.
func TestCheck(t *testing.T) {
	racing.Spare(t)
	for _, c := range kinds() {
		bubble.Test(t, func(t *testing.T) {
			results, err := checked(t, c.engine, nil)
			require.NoError(t, err, c.name)
			assert.Len(t, results, 13)
			if !c.engine.Strict {
				assert.Equal(t, "100 questions were answered", results["answers"].Found)
			}
			if c.context > 0 {
				assert.Contains(t, results["cancel"].Found, "nothing to cancel", "it has no context that is too long")
			} else {
				assert.Contains(t, results["too long"].Found, "not tried")
				assert.Contains(t, results["cancel"].Found, "a question cancelled after 5 ms")
			}
			if c.engine.Dialect == "sglang" {
				for name, found := range map[string]string{
					"audit": "exact: 136 positions, with 24 extra tokens computed; 0 differ from single questions",
					"verification": "136 positions, with 0 extra requests for cached tokens; " +
						"0 differ from single questions",
					"too long": "568 tokens are refused", "probabilities": "tokens are drawn from up to 256",
					"start": "sglang 0.5.23 serves fake, contexts of 504 tokens (0: unknown), " +
						"16 questions at a time (0: unknown)", "vocabulary": "all 300 tokens have the same text",
					"cache": "of 399 repeated tokens, its cache had 399 (0 before)",
				} {
					assert.Equal(t, found, results[name].Found)
				}
				for _, call := range c.engine.Calls(c.path) {
					assert.Contains(t, string(call.Body), `"extra_key":"`, "it does not share a cache with clients")
				}
			}
			if c.engine.Dialect == "llama" {
				assert.Equal(t, "sampled: 24 positions, with 24 extra tokens computed; 0 differ from single questions",
					results["audit"].Found)
			}
			for name, result := range results {
				switch v := result.Verdict; {
				case name == "cache" || name == "clients apart" || name == "too long":
					assert.Equal(t, v == Note, c.engine.Dialect == "openai", name)
				case name == "vocabulary":
					assert.Equal(t, v == Note, c.engine.Dialect == "openai", name)
				case name == "audit":
					assert.Equal(t, v == Note, c.audit == netproto.NoAudit)
				case name == "verification":
					assert.Equal(t, v == Pass, c.audit == netproto.ExactAudit)
					assert.Equal(t, v == Note, c.audit != netproto.ExactAudit)
				case name == "answers" && c.engine.Strict:
					assert.Equal(t, Note, v)
				case (name == "probabilities" || name == "cache") && c.engine.Strict:
				default:
					assert.Equal(t, Pass, v, name)
				}
			}
		})
	}
}

// TestCheckFinds: each fault of an engine is found by its check.
func TestCheckFinds(t *testing.T) {
	racing.Spare(t)
	var turn atomic.Uint64
	v := fakeengine.NewVocabulary()
	table := fakeengine.Table(v, 1)
	for name, c := range map[string]struct {
		e       *fakeengine.Engine
		check   string
		verdict Verdict
	}{
		"another vocabulary": {&fakeengine.Engine{Dialect: "llama", Vocabulary: v.Swapped(260, 261)}, "start", Fail},
		"other answers each time": {&fakeengine.Engine{Dialect: "sglang", Model: func(ctx []int32) []float64 {
			return fakeengine.Table(v, turn.Add(1))(ctx)
		}}, "the same again", Note},
		"audits of something else": {&fakeengine.Engine{Dialect: "sglang", Model: func(ctx []int32) []float64 {
			return fakeengine.Table(v, turn.Add(1))(ctx)
		}}, "audit", Note},
		"sampled audits of something else": {&fakeengine.Engine{Dialect: "llama", Model: func(ctx []int32) []float64 {
			return fakeengine.Table(v, turn.Add(1))(ctx)
		}}, "audit", Note},
		"verification of something else": {&fakeengine.Engine{Dialect: "sglang", Model: func(ctx []int32) []float64 {
			return fakeengine.Table(v, turn.Add(1))(ctx)
		}}, "verification", Note},
		"probabilities above 1": {&fakeengine.Engine{Dialect: "sglang", Model: func(ctx []int32) []float64 {
			p := table(ctx)
			for i := range p {
				p[i] += 3.5
			}
			return p
		}}, "probabilities", Fail},
		"samples": {&fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[6],"meta_info":` +
			`{"output_top_logprobs":[[[-0.1,5,null],[-3,6,null]]]}}`)}, "probabilities", Fail},
		"a tie": {&fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[6],"meta_info":` +
			`{"output_top_logprobs":[[[-0.9,5,null],[-0.9,6,null]]]}}`)}, "probabilities", Pass},
		"no probabilities": {&fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[6]}`)},
			"probabilities", Note},
		"no cache": {&fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[6],"meta_info":` +
			`{"cached_tokens":199}}`)}, "cache", Note},
		"a cache of half": {&fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[6],"meta_info":` +
			`{"cached_tokens":200}}`)}, "cache", Pass},
		"a shared cache": {&fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[6],"meta_info":` +
			`{"cached_tokens":1}}`)}, "clients apart", Note},
		"contexts that are too long": {&fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[6]}`)},
			"too long", Note},
		"no rows":                  {&fakeengine.Engine{Dialect: "sglang", Fault: noRows}, "audit", Fail},
		"no rows for verification": {&fakeengine.Engine{Dialect: "sglang", Fault: noRows}, "verification", Fail},
		"contexts that are too long to try": {&fakeengine.Engine{Dialect: "llama", MaxContext: 70000},
			"too long", Note},
		"500 after a context that is too long": {&fakeengine.Engine{Dialect: "sglang",
			Fault: func(w http.ResponseWriter, _ *http.Request, b []byte) bool {
				if bytes.Contains(b, []byte(strings.Repeat("0,", 500))) {
					turn.Store(1)
				} else if turn.CompareAndSwap(1, 0) {
					w.WriteHeader(500)
					return true
				}
				return false
			}}, "too long", Fail},
		"500 for the second comparison": {&fakeengine.Engine{Dialect: "llama",
			Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				fails := r.URL.Path == "/detokenize" && turn.Add(1) > 1
				if fails {
					w.WriteHeader(500)
				}
				return fails
			}}, "vocabulary", Fail},
		"500 for all but the first questions": {&fakeengine.Engine{Dialect: "sglang",
			Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.URL.Path == "/generate" && turn.Add(1)%50 == 0 {
					w.WriteHeader(500)
					return true
				}
				return false
			}}, "answers", Fail},
		"500 for all questions": {&fakeengine.Engine{Dialect: "sglang",
			Fault: func(w http.ResponseWriter, r *http.Request, b []byte) bool {
				if r.URL.Path == "/generate" && !bytes.Contains(b, []byte("-trial-")) {
					w.WriteHeader(500)
					return true
				}
				return false
			}}, "answers", Fail},
	} {
		t.Run(name, func(t *testing.T) {
			turn.Store(0)
			results, err := checked(t, c.e, nil)
			assert.Equal(t, c.verdict, results[c.check].Verdict)
			assert.Contains(t, results[c.check].Found, map[string]string{
				"500 after a context that is too long": "after a context that was too long: ",
				"a cache of half":                      "its cache had 200 (200 before)",
				"no cache":                             "of 399 repeated tokens, its cache had 199: is prefix",
				"a shared cache":                       "another client found 1 tokens in the cache",
				"no probabilities":                     "; they were missing for 100 of 100 tokens",
			}[name])
			failed := 0
			for _, r := range results {
				if r.Verdict == Fail {
					failed++
				}
			}
			assert.Equal(t, failed > 0, err != nil)
			if failed > 0 && c.check != "start" {
				assert.ErrorContains(t, err, fmt.Sprintf("%d checks failed", failed))
			}
		})
	}
}

// replying answers questions with a reply without audits.
func replying(reply string) func(http.ResponseWriter, *http.Request, []byte) bool {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path == "/generate" {
			_, _ = w.Write([]byte(reply))
		}
		return r.URL.Path == "/generate"
	}
}

// TestCheckTimes: the last check reports the times of the answers: half of them took at most the first one. Questions
// are asked in company in one check only.
func TestCheckTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		last, asked, now, most := false, 0, 0, 0
		e := &fakeengine.Engine{Dialect: "sglang", Fault: func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path != "/generate" {
				return false
			}
			mu.Lock()
			now, asked = now+1, asked+1
			most = max(most, now)
			pause := time.Microsecond
			if last {
				pause = time.Duration(asked*37%101) * time.Millisecond // each number from 1 to 100 once
			}
			mu.Unlock()
			time.Sleep(pause)
			mu.Lock()
			now--
			mu.Unlock()
			return false
		}}
		o := options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one")
		var found string
		together := map[string]int{}
		require.NoError(t, Check(t.Context(), o, func(r Result) {
			mu.Lock()
			defer mu.Unlock()
			if most > 1 {
				together[r.Check] = most
			}
			last, found, asked, most = r.Check == "too long", r.Found, 0, 0
		}))
		assert.Equal(t, "51ms for half of the answers, 91ms for 90%, 100ms for the slowest of 100", found)
		assert.Equal(t, map[string]int{"the same in company": 8}, together)
	})
}

// noRows answers questions without the audit that they ask for.
func noRows(w http.ResponseWriter, r *http.Request, b []byte) bool {
	audit := r.URL.Path == "/generate" && !bytes.Contains(b, []byte(`"logprob_start_len":-1`))
	if audit {
		_, _ = w.Write([]byte(`{"output_ids":[5]}`))
	}
	return audit
}

// TestCheckRounding: the check reports by how much log-probabilities differ.
func TestCheckRounding(t *testing.T) {
	var turn atomic.Uint64
	table := fakeengine.Table(fakeengine.NewVocabulary(), 1)
	results, err := checked(t, &fakeengine.Engine{Dialect: "sglang", Model: func(ctx []int32) []float64 {
		p := table(ctx)
		if turn.Add(1) == 150 {
			for i := range p {
				p[i] -= 0.25
			}
		}
		return p
	}}, nil)
	require.NoError(t, err)
	assert.Contains(t, results["the same again"].Found, "0 of 100 answers differ; log-probabilities by up to 0.25")
}

// TestCheckTrusts: unverified assumptions are reported as such.
func TestCheckTrusts(t *testing.T) {
	results, err := checked(t, &fakeengine.Engine{Dialect: "openai"}, func(o *Options) { o.TrustVocabulary = true })
	require.NoError(t, err)
	assert.Equal(t, Note, results["vocabulary"].Verdict)
	results, err = checked(t, &fakeengine.Engine{Dialect: "sglang"}, func(o *Options) { o.TrustVocabulary = true })
	require.NoError(t, err)
	assert.Equal(t, Pass, results["vocabulary"].Verdict, "what can be verified is")
}

// TestCheckEnds: a cancelled check reports nothing more, in particular no failure of the engine.
func TestCheckEnds(t *testing.T) {
	stopped := errors.New("stopped by the operator")
	for _, last := range []string{"vocabulary", "answers", "cancel"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		w := fakeengine.NewWire(map[string]http.Handler{"one": &fakeengine.Engine{Dialect: "sglang"}})
		var name string
		err := Check(ctx, options(w, "one"), func(r Result) {
			assert.NotEqual(t, last, name)
			if name = r.Check; name == last {
				cancel(stopped)
			}
		})
		assert.Equal(t, []any{stopped, last}, []any{err, name})
	}
}
