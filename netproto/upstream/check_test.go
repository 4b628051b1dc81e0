package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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
func checked(t *testing.T, e *fakeengine.Engine) (results map[string]Result, err error) {
	t.Helper()
	results = map[string]Result{}
	err = Check(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"), func(r Result) {
		results[r.Check] = r
		t.Logf("%s: %s: %s", r.Check, r.Verdict, r.Found)
	})
	return results, err
}

// TestCheck: a correct engine passes; features that it lacks are noted.
func TestCheck(t *testing.T) {
	racing.Spare(t)
	for _, c := range kinds() {
		results, err := checked(t, c.engine)
		require.NoError(t, err, c.name)
		assert.Len(t, results, 8)
		if c.engine.Dialect == "sglang" {
			for name, found := range map[string]string{
				"audit":    "136 positions; 0 differ from single questions",
				"too long": "568 tokens are refused", "probabilities": "tokens are drawn from up to 256",
				"start": "sglang 0.5.23 serves fake, contexts of 504 tokens (0: unknown), 16 questions at a time " +
					"(0: unknown); all 300 tokens have the same text",
				"cache": "of 399 repeated tokens, its cache had 399",
			} {
				assert.Equal(t, found, results[name].Found, name)
			}
			for _, call := range c.engine.Calls(c.path) {
				assert.Contains(t, string(call.Body), `"extra_key":"`, "it does not share a cache with clients")
			}
		}
		for name, result := range results {
			want := Pass
			if name == "audit" && c.audit == netproto.NoAudit {
				want = Note
			}
			assert.Equal(t, want, result.Verdict, name)
		}
	}
}

// engineFault is a fault of an engine, and what its check reports.
type engineFault struct {
	engine  *fakeengine.Engine
	check   string
	verdict Verdict
	found   string
}

// faulty returns an engine with a fault.
func faulty(fault func(http.ResponseWriter, *http.Request, []byte) bool) *fakeengine.Engine {
	return &fakeengine.Engine{Dialect: "sglang", Fault: fault}
}

// otherModels returns engines with another vocabulary or model than expected, or one that changes.
func otherModels() map[string]engineFault {
	v := fakeengine.NewVocabulary()
	table := fakeengine.Table(v, 1)
	changing := func() *fakeengine.Engine {
		var turn atomic.Uint64
		return &fakeengine.Engine{Dialect: "sglang", Model: func(ctx []int32) []float64 {
			return fakeengine.Table(v, turn.Add(1))(ctx)
		}}
	}
	shifted := func(by float64, when func() bool) *fakeengine.Engine {
		return &fakeengine.Engine{Dialect: "sglang", Model: func(ctx []int32) []float64 {
			p := table(ctx)
			if when() {
				for i := range p {
					p[i] += by
				}
			}
			return p
		}}
	}
	var turn atomic.Uint64
	return map[string]engineFault{
		"another vocabulary": {&fakeengine.Engine{Dialect: "llama", Vocabulary: v.Swapped(260, 261)}, "start", Fail,
			"vocabulary is not that of --tokenizer"},
		"other answers each time":  {changing(), "the same again", Note, "of 100 answers differ"},
		"audits of something else": {changing(), "audit", Note, "136 positions"},
		"rounding": {shifted(-0.25, func() bool { return turn.Add(1) == 150 }), "the same again", Pass,
			"0 of 100 answers differ; log-probabilities by up to 0.25"},
		"probabilities above 1": {shifted(3.5, func() bool { return true }), "probabilities", Fail, "sum up to"},
	}
}

// suspectReplies returns engines with replies that are inconsistent or lack a part, and some that only look like that.
func suspectReplies() map[string]engineFault {
	top := func(top string) *fakeengine.Engine {
		return faulty(replying(`{"output_ids":[6],"meta_info":{"output_top_logprobs":[` + top + `]}}`))
	}
	cached := func(tokens int) *fakeengine.Engine {
		return faulty(replying(fmt.Sprintf(`{"output_ids":[6],"meta_info":{"cached_tokens":%d}}`, tokens)))
	}
	bare := func() *fakeengine.Engine { return faulty(replying(`{"output_ids":[6]}`)) }
	return map[string]engineFault{
		"samples": {top("[[-0.1,5,null],[-3,6,null]]"), "probabilities", Fail,
			"it samples, or adds a penalty"},
		"a tie":            {top("[[-0.9,5,null],[-0.9,6,null]]"), "probabilities", Pass, ""},
		"no probabilities": {bare(), "probabilities", Note, "; they were missing for 100 of 100 tokens"},
		"no cache":         {cached(199), "cache", Note, "of 399 repeated tokens, its cache had 199: is prefix"},
		"a cache of half":  {cached(200), "cache", Pass, "its cache had 200"},
		"an unknown cache": {bare(), "cache", Note, "does not report"},
		"a shared cache":   {cached(1), "clients apart", Note, "another client found 1 tokens in the cache"},
		"long contexts":    {bare(), "too long", Note, "568 tokens were not refused"},
		"contexts that are too long to try": {&fakeengine.Engine{Dialect: "llama", MaxContext: 70000}, "too long", Note,
			"not tried"},
		"no rows": {faulty(noRows), "audit", Fail, "has 0 rows"},
	}
}

// failures returns engines that fail at some of their requests.
func failures() map[string]engineFault {
	var asked atomic.Uint64
	generate := func(r *http.Request, b []byte) bool {
		return r.URL.Path == "/generate" && !bytes.Contains(b, []byte("-trial-"))
	}
	return map[string]engineFault{
		"500 after a context that is too long": {failingAfter(strings.Repeat("0,", 500), true, generate), "too long",
			Fail, "after a context that was too long: "},
		"500 after an audit": {failingAfter(`"logprob_start_len":-1`, false, generate), "audit", Fail, "500"},
		"500 for some questions": {faulty(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			fails := r.URL.Path == "/generate" && asked.Add(1)%50 == 0
			if fails {
				w.WriteHeader(500)
			}
			return fails
		}), "answers", Fail, "500"},
		"500 for a context that it may have": {failing("1,9,19,", 1), "cache", Fail, "500"},
		"500 for a context that it has":      {failing("1,9,19,", 2), "cache", Fail, "500"},
		"500 for one client":                 {failing("2,10,20,", 1), "clients apart", Fail, "500"},
		"500 for another client":             {failing("2,10,20,", 2), "clients apart", Fail, "500"},
	}
}

// failingAfter is an engine that fails at the next of some requests after one that has, or lacks, a text.
func failingAfter(text string, has bool, some func(*http.Request, []byte) bool) *fakeengine.Engine {
	var before atomic.Bool
	return faulty(func(w http.ResponseWriter, r *http.Request, b []byte) bool {
		switch {
		case !some(r, b):
		case bytes.Contains(b, []byte(text)) == has:
			before.Store(true)
		case before.CompareAndSwap(true, false):
			w.WriteHeader(500)
			return true
		}
		return false
	})
}

// TestCheckFinds: each fault of an engine is found by its check.
func TestCheckFinds(t *testing.T) {
	racing.Spare(t)
	for _, faults := range []map[string]engineFault{otherModels(), suspectReplies(), failures()} {
		for name, c := range faults {
			t.Run(name, func(t *testing.T) {
				results, err := checked(t, c.engine)
				assert.Equal(t, c.verdict, results[c.check].Verdict)
				assert.Contains(t, results[c.check].Found, c.found)
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
				if c.check == "answers" {
					assert.Len(t, results, 2, "the other checks compare with the answers")
				}
			})
		}
	}
}

// failing is an engine that fails at the n-th question about a context with a text.
func failing(text string, n int) *fakeengine.Engine {
	asked := 0
	return &fakeengine.Engine{Dialect: "sglang", Fault: func(w http.ResponseWriter, r *http.Request, b []byte) bool {
		if r.URL.Path != "/generate" || !bytes.Contains(b, []byte("["+text)) {
			return false
		}
		if asked++; asked != n {
			return false
		}
		w.WriteHeader(500)
		return true
	}}
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

// noRows answers questions without the audit that they ask for.
func noRows(w http.ResponseWriter, r *http.Request, b []byte) bool {
	audit := r.URL.Path == "/generate" && !bytes.Contains(b, []byte(`"logprob_start_len":-1`))
	if audit {
		_, _ = w.Write([]byte(`{"output_ids":[5]}`))
	}
	return audit
}

// TestCheckTimes: the times of the answers are reported: half of them took at most the first one.
func TestCheckTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		asked := 0
		e := &fakeengine.Engine{Dialect: "sglang", Fault: func(_ http.ResponseWriter, r *http.Request, b []byte) bool {
			if r.URL.Path == "/generate" && asked < 100 && !bytes.Contains(b, []byte("-trial-")) {
				asked++
				time.Sleep(time.Duration(asked*37%101) * time.Millisecond) // each number from 1 to 100 once
			}
			return false
		}}
		results, err := checked(t, e)
		require.NoError(t, err)
		assert.Equal(t, "100 questions were answered: 50ms for half of them, 90ms for 90%, 100ms for the slowest",
			results["answers"].Found)
	})
}

// TestCheckEnds: a cancelled check reports nothing more, in particular no failure of the engine.
func TestCheckEnds(t *testing.T) {
	stopped := errors.New("stopped by the operator")
	for _, last := range []string{"start", "answers", "too long"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		w := fakeengine.NewWire(map[string]http.Handler{"one": &fakeengine.Engine{Dialect: "sglang"}})
		var name string
		err := Check(ctx, options(w, "one"), func(r Result) {
			assert.NotEqual(t, last, name)
			if name = r.Check; name == last {
				cancel(stopped)
			}
		})
		want := stopped
		if last == "too long" { // it was the last check
			want = nil
		}
		assert.Equal(t, want, err, last)
		assert.Equal(t, last, name)
	}
}
