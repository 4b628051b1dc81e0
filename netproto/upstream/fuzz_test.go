package upstream

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
)

// repliesOfEngines are replies of each kind of engine, and invalid ones.
var repliesOfEngines = []string{
	`{"tokens":[5],"timings/cache_n":3,"timings/prompt_ms":0.5,"completion_probabilities":[` +
		`{"id":5,"logprob":-0.1,"top_logprobs":[{"id":5,"logprob":-0.1},{"id":6,"logprob":null}]}]}`,
	`{"output_ids":[5],"meta_info":{"cached_tokens":3,"e2e_latency":0.5,` +
		`"input_top_logprobs":[null,[[-0.2,264,null],[-2,279,null]],[[-0.2,7,null]]],` +
		`"output_top_logprobs":[[[-0.1,5,null],[-2.2,264,null]]]}}`,
	`{"choices":[{"index":0,"token_ids":[5],"logprobs":{"content":[` +
		`{"token_id":5,"top_logprobs":[{"token_id":5,"logprob":-0.1,"rank":1},` +
		`{"token":"token_id:6","logprob":-3}]}]}}],` +
		`"prompt_logprobs":[null,{"5":{"logprob":-4,"rank":17},"26":{"logprob":-0.3,"rank":1}}],` +
		`"usage":{"prompt_tokens_details":{"cached_tokens":16}}}`,
	`{"choices":[{"index":0,"token_ids":[5],"logprobs":{"tokens":["token_id:5"],` +
		`"top_logprobs":[{"token_id:5":-0.1,"token_id:6":-2}]}}]}`,
	`{"error":{"message":"no","type":"no"}}`, `[]`, `null`, ``, `{"tokens":[1e300]}`, `{"output_ids":[4294967297]}`,
}

// FuzzReply: any reply of an engine gives an error, or a token of the vocabulary with valid candidates and findings.
func FuzzReply(f *testing.F) {
	for _, body := range repliesOfEngines {
		for kind := range byte(4) {
			f.Add(kind, body, byte(2), byte(3))
		}
	}
	var ups []*Upstream
	var body string
	for _, c := range kinds() {
		u, err := Open(f.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one"))
		require.NoError(f, err)
		u.cache = newAnswerCache(1)
		f.Cleanup(u.Close)
		c.engine.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.Method == http.MethodPost {
				_, _ = w.Write([]byte(body)) // writes to memory
			}
			return r.Method == http.MethodPost
		}
		ups = append(ups, u)
	}
	f.Fuzz(func(t *testing.T, kind byte, text string, k, from byte) {
		u := ups[int(kind)%len(ups)]
		m := u.engines[0]
		m.mu.Lock()
		m.in, m.faults = true, 0
		m.mu.Unlock()
		body = text
		q := question(1, []int32{1, 2, 3, 4, 5, 6})
		q.K, q.AuditFrom = int(k)%(u.most+1), int(from)%7
		a, err := u.Ask(t.Context(), q)
		if err != nil {
			return
		}
		known := func(id int32) bool { return id >= 0 && int(id) < u.o.Vocabulary.Size() }
		require.True(t, known(a.Token))
		require.LessOrEqual(t, len(a.Top), q.K)
		for i, c := range a.Top {
			require.True(t, known(c.ID) && c.LogProb < 0.01 && (i == 0 || c.LogProb <= a.Top[i-1].LogProb), "%v", a.Top)
		}
		require.LessOrEqual(t, a.Audited, len(q.Context)-q.AuditFrom)
		for _, found := range a.Audit {
			require.True(t, found.Pos >= len(q.Context)-a.Audited && found.Pos < len(q.Context))
			require.LessOrEqual(t, found.LogProb, float32(0.01))
		}
	})
}
