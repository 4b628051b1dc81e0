package routing

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// BenchmarkUpstream measures the cost of a question through the gateway: over QUIC on loopback, to an engine over HTTP
// on loopback, in turns with the same request sent to the engine directly. The engine computes nothing, or is a
// llama-server at the URL in PILOTFISH_UPSTREAM. Each question extends the previous one by one token, as texts do.
func BenchmarkUpstream(b *testing.B) {
	p := openPair(b)
	url := os.Getenv("PILOTFISH_UPSTREAM")
	if url == "" {
		e := p.serving(b, "llama")
		e.Fault = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if r.URL.Path == "/completion" && bytes.Contains(body, []byte(`"n_probs":0`)) {
				fmt.Fprint(w, `{"tokens":[5],"timings/cache_n":1,"timings/prompt_ms":0.1,"timings/predicted_ms":0.1}`)
				return true
			}
			return false
		}
		server := httptest.NewServer(e)
		defer server.Close()
		url = server.URL
	}
	u, err := engine.OpenUpstream(b.Context(), p.file, engine.UpstreamOptions{URLs: []string{url}})
	require.NoError(b, err)
	defer u.Close()
	s, err := remote.NewStage(p.edge, p.large, remote.StageOptions{Upstream: u})
	require.NoError(b, err)
	defer s.Close()
	cloud, end, err := s.Dial(b.Context(), 0)
	require.NoError(b, err)
	defer end()
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	text := make([]int32, 0, 400)
	var direct, through []time.Duration
	for b.Loop() {
		if len(text) == cap(text) {
			text = text[:100]
			text[0] = r.Int32N(700) // another text
		}
		for len(text) < 100 {
			text = append(text, r.Int32N(700))
		}
		text = append(text, r.Int32N(700))
		began := time.Now()
		require.NoError(b, ask(url, text))
		direct = append(direct, time.Since(began))
		text[len(text)-1] = r.Int32N(700) // so that the engine has as much to compute for the other request
		began = time.Now()
		_, err := cloud.Ask(b.Context(), draft.Question{Context: text})
		require.NoError(b, err)
		through = append(through, time.Since(began))
	}
	b.ReportMetric(0, "ns/op")
	for name, took := range map[string][]time.Duration{"direct": direct, "gateway": through} {
		slices.Sort(took)
		for _, q := range []int{50, 99} {
			at := took[min(len(took)-1, len(took)*q/100)]
			b.ReportMetric(float64(at)/1e6, fmt.Sprintf("ms-%s-p%d", name, q))
		}
	}
}

// ask sends one question to a llama-server, as a program without the gateway would.
func ask(url string, text []int32) error {
	body := fmt.Appendf(nil, `{"prompt":%s,"n_predict":1,"temperature":0,"top_k":1,"top_p":1,"min_p":0,`+
		`"repeat_penalty":1,"presence_penalty":0,"frequency_penalty":0,"samplers":["temperature"],"n_probs":0,`+
		`"post_sampling_probs":false,`+
		`"return_tokens":true,"cache_prompt":true,"id_slot":3,"stream":false,`+
		`"response_fields":["tokens"]}`, bytes.ReplaceAll(fmt.Append(nil, text), []byte(" "), []byte(",")))
	w, err := http.Post(url+"/completion", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer w.Body.Close()
	if b, err := io.ReadAll(w.Body); err != nil || w.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %w", w.Status, b, err)
	}
	return nil
}
