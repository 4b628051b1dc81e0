package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/serve"
)

// samplesOf returns all samples of a registry by name and labels, except zeros; for histograms the count and sum.
func samplesOf(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		require.NotEmpty(t, f.GetHelp(), f.GetName())
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name, of := strings.TrimPrefix(f.GetName(), servingPrefix), ""
			if len(labels) > 0 {
				of = "{" + strings.Join(labels, ",") + "}"
			}
			for end, v := range map[string]float64{"": m.GetCounter().GetValue() + m.GetGauge().GetValue(),
				"_count": float64(m.GetHistogram().GetSampleCount()), "_sum": m.GetHistogram().GetSampleSum()} {
				if v != 0 {
					all[name+end+of] = v
				}
			}
		}
	}
	return all
}

// TestServing: a request counts once in each family of its values, and in no other.
func TestServing(t *testing.T) {
	type counts = map[string]float64
	for _, c := range []struct {
		name string
		e    serve.Event
		want counts
	}{
		{"refused before its endpoint is known",
			serve.Event{Status: 401, Code: "invalid_api_key", Took: time.Second}, counts{
				"refused_total{code=invalid_api_key,status=401}": 1}},
		{"refused",
			serve.Event{Endpoint: "chat", Status: 400, Code: "context_too_long", Ignored: 2, Took: time.Second},
			counts{"requests_total{code=context_too_long,endpoint=chat,status=400}": 1, "request_seconds_count": 1,
				"ignored_fields_total{endpoint=chat}": 2,
				"request_seconds_sum":                 1}},
		{"answered",
			serve.Event{Endpoint: "chat", Status: 200, Finish: "length", Prompt: 30, Cached: 20, Tokens: 9, Cloud: 3,
				Asks: 4, Queue: time.Second, First: 2 * time.Second, Took: 7 * time.Second}, counts{
				"requests_total{code=none,endpoint=chat,status=200}": 1,
				"prompt_tokens_total":                                30, "cached_tokens_total": 20,
				"generated_tokens_total": 9, "cloud_tokens_total": 3,
				"asks_total": 4, "queue_seconds_count": 1, "queue_seconds_sum": 1, "first_token_seconds_count": 1,
				"first_token_seconds_sum": 2, "request_seconds_count": 1, "request_seconds_sum": 7,
				"token_seconds_count": 1, "token_seconds_sum": 0.5}},
		{"one token has no time per token",
			serve.Event{Endpoint: "chat", Status: 200, Tokens: 1, First: time.Second, Took: time.Second}, counts{
				"requests_total{code=none,endpoint=chat,status=200}": 1, "generated_tokens_total": 1,
				"first_token_seconds_count": 1, "first_token_seconds_sum": 1, "request_seconds_count": 1,
				"request_seconds_sum": 1}},
		{"no text", serve.Event{Endpoint: "chat", Status: 200, Tokens: 2, Took: time.Second}, counts{
			"requests_total{code=none,endpoint=chat,status=200}": 1, "generated_tokens_total": 2,
			"request_seconds_count": 1, "request_seconds_sum": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := prometheus.NewRegistry()
			newServingMetrics(to).countEvent(c.e)
			assert.Equal(t, c.want, samplesOf(t, to))
		})
	}
}

// TestLoad: the gauges of a server's load.
func TestLoad(t *testing.T) {
	to, load := prometheus.NewRegistry(), serve.Load{Active: 1, Waiting: 2, Stalled: 3, Sessions: 4}
	registerLoad(to, func() serve.Load { return load })
	want := map[string]float64{"active": 1, "waiting": 2, "stalled": 3, "sessions": 4}
	assert.Equal(t, want, samplesOf(t, to))
	load.Draining, want["draining"] = true, 1
	assert.Equal(t, want, samplesOf(t, to))
}
