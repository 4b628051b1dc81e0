package dialect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// sglangReplay returns an engine that replays a recording of a real one.
func sglangReplay(t *testing.T, name string) (*SGLang, *fakeengine.Transcript) {
	t.Helper()
	c, r := replay(t, "sglang", name)
	return NewSGLang(c), r
}

// sglangRecorded returns the question of a transcript.
func sglangRecorded(t *testing.T, r *fakeengine.Transcript) (a Ask) {
	t.Helper()
	require.NoError(t, r.Field(&a.Context, "input_ids"))
	require.NoError(t, r.Field(&a.Name, "rid"))
	return a
}

// optional fields were not sent in the recording, or sent without effect.
var optional = []string{"logprob_start_len", "top_logprobs_num", "return_text_in_logprobs", "priority"}

// TestReplayedAnswersSGLang: answers of a real server are parsed correctly, and requests equal the recorded ones.
func TestReplayedAnswersSGLang(t *testing.T) {
	for name, want := range map[string]struct {
		k, token, top, cached int
		salt                  string
	}{
		"ask": {0, 379, 0, 30, ""}, "ask-again": {0, 379, 0, 39, ""}, "ask-k5": {5, 379, 5, 39, ""},
		"ask-k20": {20, 411, 20, -1, ""}, "ask-end": {2, 767, 2, -1, ""},
		"ask-other-client": {0, 379, 0, 0, "client 1"}, "longest": {0, 767, 0, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := sglangReplay(t, name)
			a := sglangRecorded(t, r)
			a.K, a.Salt = want.k, want.salt
			got, err := e.Ask(t.Context(), a)
			require.NoError(t, err)
			assert.EqualValues(t, want.token, got.Token)
			if want.cached >= 0 {
				assert.Equal(t, want.cached, got.Cached)
			}
			require.Len(t, got.Top, want.top)
			if want.top > 0 {
				assert.EqualValues(t, want.token, got.Top[0].ID)
			}
			asRecorded(t, r, optional...)
		})
	}
}

// TestReplayedRowsSGLang: the rows for verification, as a real server gave them. The numbers were read from the
// transcript by hand.
func TestReplayedRowsSGLang(t *testing.T) {
	e, r := sglangReplay(t, "ask-audit")
	a := sglangRecorded(t, r)
	a.K, a.AuditFrom, a.Rows = 5, 36, 3
	got, err := e.Ask(t.Context(), a)
	require.NoError(t, err)
	require.NoError(t, got.Unheard)
	asRecorded(t, r, "priority") // no additional rows are requested
	require.Len(t, got.Rows, len(a.Context)-36)
	assert.Equal(t, Row{Top: []terms.Candidate{{ID: 271, LogProb: -0.0009158230968751013},
		{ID: 401, LogProb: -8.679407119750977}, {ID: 396, LogProb: -9.161283493041992}}, Stands: -13.982767105102539},
		got.Rows[0])
	assert.Equal(t, []float32{-13.237296104431152, -12.854506492614746},
		[]float32{got.Rows[1].Stands, got.Rows[2].Stands})

	e, r = sglangReplay(t, "ask-audit")
	a.K, a.Rows = 2, 5
	got, err = e.Ask(t.Context(), a)
	require.NoError(t, err)
	asRecorded(t, r, "priority") // the max number that any position needs
	assert.Len(t, got.Top, 2)
	assert.Len(t, got.Rows[0].Top, 5)

	e, r = sglangReplay(t, "ask-audit-of-nothing") // a row is missing
	a = sglangRecorded(t, r)
	a.AuditFrom = len(a.Context) - 1
	got, err = e.Ask(t.Context(), a)
	require.NoError(t, err)
	assert.ErrorIs(t, got.Unheard, ErrReply)
	assert.Empty(t, got.Rows)
}

// TestUnheardPart: if a row of an audit is invalid, the rows before it are not used either.
func TestUnheardPart(t *testing.T) {
	for kind, reply := range map[string]string{
		"sglang": `{"output_ids":[5],"meta_info":{"input_top_logprobs":[null,[[-1,9,null]],[]],` +
			`"input_token_logprobs":[[null,1,null],[-2,2,null],[-2,3,null]]}}`,
		"generate": `{"choices":[{"token_ids":[5]}],"prompt_logprobs":[null,{"9":{"logprob":-1,"rank":1}},` +
			`{"9":{"rank":1}}]}`,
	} {
		t.Run(kind, func(t *testing.T) {
			e := engineOf(t, kind, answering(reply))
			if v, ok := e.(*VLLM); ok {
				v.rows = true
			}
			got, err := e.Ask(t.Context(), Ask{Context: []int32{1, 2, 3}, AuditFrom: 1})
			require.NoError(t, err)
			assert.ErrorIs(t, got.Unheard, ErrReply)
			assert.Empty(t, got.Rows)
		})
	}
}

// TestRowsSGLang: valid and invalid rows of an audit. Without valid rows the answer is used.
func TestRowsSGLang(t *testing.T) {
	const top, own = `[null,[[-1,7,null]],[[-1,3,null]]]`, `[[null,0,null],[-2,2,null],[-1,3,null]]`
	for name, c := range map[string]struct {
		top, own string
		ok       bool
	}{
		"good":                 {top, own, true},
		"no rows":              {`[]`, own, false},
		"fewer":                {`[null,[[-1,3,null]]]`, `[[null,0,null],[-1,3,null]]`, false},
		"no tokens":            {top, `null`, false},
		"fewer tokens":         {top, `[[null,0,null],[-2,2,null]]`, false},
		"other tokens":         {top, `[[null,0,null],[-2,9,null],[-1,3,null]]`, false},
		"better than the best": {top, `[[null,0,null],[-0.5,2,null],[-1,3,null]]`, false},
		"never the best":       {`[null,[[null,7,null]],[[-1,3,null]]]`, own, false},
		"impossible":           {`[null,[[0.5,7,null]],[[-1,3,null]]]`, own, false},
		"never the token":      {top, `[[null,0,null],[null,2,null],[-1,3,null]]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := engineOf(t, "sglang", answering(`{"output_ids":[5],"meta_info":{"input_top_logprobs":`+c.top+
				`,"input_token_logprobs":`+c.own+`}}`)).Ask(t.Context(), Ask{Context: []int32{1, 2, 3}, AuditFrom: 1})
			require.NoError(t, err)
			assert.EqualValues(t, 5, got.Token)
			if !c.ok {
				assert.ErrorIs(t, got.Unheard, ErrReply)
				assert.Empty(t, got.Rows)
				return
			}
			require.NoError(t, got.Unheard)
			require.Len(t, got.Rows, 2)
			assert.Equal(t, []terms.Candidate{{ID: 7, LogProb: -1}}, got.Rows[0].Top)
			assert.EqualValues(t, -1, got.Rows[1].Stands)
		})
	}
}

// TestReplayedRefusalsSGLang: refusals of a real server are distinguished.
func TestReplayedRefusalsSGLang(t *testing.T) {
	for name, want := range map[string]netproto.Code{
		"too-long": netproto.TooLarge, "beyond-longest": netproto.TooLarge, "no-ids": netproto.Failed,
		"wrong-key": netproto.Failed, "busy": netproto.Busy, "unknown-sampling-field": netproto.Failed,
	} {
		t.Run(name, func(t *testing.T) {
			e, r := sglangReplay(t, name)
			_, err := e.Ask(t.Context(), sglangRecorded(t, r))
			assert.Equal(t, want, codeOf(err))
		})
	}
}

// TestAborts: each cancelled question is aborted by name, in the background: up to 64 at a time, each for up to two
// seconds, and Close waits for them.
func TestAborts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		aborted := map[string]int{}
		e := NewSGLang(client(t, "", fakeengine.NewWire(map[string]http.Handler{"engine": http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				var q struct{ RID string }
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&q))
				if strings.HasSuffix(r.URL.Path, "/abort_request") {
					mu.Lock()
					aborted[q.RID]++
					mu.Unlock()
				}
				<-r.Context().Done()
			})})))
		for round := range 2 {
			var all sync.WaitGroup
			for i := range 70 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					_, err := e.Ask(ctx, Ask{Name: fmt.Sprint(round, i), Context: []int32{1}})
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				})
			}
			all.Wait()
			began := time.Now()
			e.c.Close()
			assert.Equal(t, 2*time.Second, time.Since(began))
			mu.Lock() // handlers end with their requests, but nobody waits for them
			assert.Len(t, aborted, 64*(round+1))
			mu.Unlock()
		}
	})
}

// TestReplayedRestSGLang: the other paths.
func TestReplayedRestSGLang(t *testing.T) {
	e, r := sglangReplay(t, "warm")
	require.NoError(t, e.Warm(t.Context(), sglangRecorded(t, r)))
	asRecorded(t, r, optional...)
	e, _ = sglangReplay(t, "health")
	require.NoError(t, e.Alive(t.Context()))
	e, _ = sglangReplay(t, "tokenize")
	ids, err := e.Tokenize(t.Context(), "Where does a mavgri sleep?<|im_end|>")
	require.NoError(t, err)
	assert.Equal(t, []int32{344, 333, 257, 754, 402, 63, 767}, ids)
	e, r = sglangReplay(t, "detokenize")
	require.NoError(t, r.Field(&ids, "tokens"))
	text, err := e.Detokenize(t.Context(), ids)
	require.NoError(t, err)
	assert.Equal(t, "Hi €\x00\uFFFDch has<|endoftext|><|im_start|><|im_end|>", text)
	asRecorded(t, r, "model")
	e, _ = sglangReplay(t, "models")
	models, err := Models(t.Context(), e.c)
	require.NoError(t, err)
	assert.Equal(t, Model{ID: "demo-large", Owner: "sglang", MaxLength: 512}, models[0])
}
