package serve

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/netproto/metrics"
	"github.com/pilotfish-ai/pilotfish/serve"
)

// servingPrefix is the prefix of the metrics of a server for programs.
const servingPrefix = "pilotfish_serve_"

// servingMetrics counts the requests of a server.
type servingMetrics struct {
	requests, refused, ignored             *prometheus.CounterVec
	prompt, cached, generated, cloud, asks prometheus.Counter
	queue, first, whole, perToken          prometheus.Histogram
}

func newServingMetrics(to prometheus.Registerer) *servingMetrics {
	r := metrics.Factory{To: to, Prefix: servingPrefix}
	return &servingMetrics{
		requests: r.CounterVec("requests_total", "Requests by where they went, the status of HTTP, and the code of "+
			"the error; none: there was none. Status 499: the client went away, or read too slowly.",
			"endpoint", "status", "code"),
		refused: r.CounterVec("refused_total", "Requests that were refused before an endpoint answered them: for "+
			"their host, origin, API key, path or method. By the status of HTTP and the code of the error.",
			"status", "code"),
		ignored: r.CounterVec("ignored_fields_total", "Fields of requests, and tools, that had no effect on the "+
			"answer: the log names each once for a client.", "endpoint"),
		prompt: r.Counter("prompt_tokens_total", "Tokens of prompts."),
		cached: r.Counter("cached_tokens_total", "Tokens of these that were known from before: hits of the "+
			"cache."),
		generated: r.Counter("generated_tokens_total", "Tokens of answers."),
		cloud:     r.Counter("cloud_tokens_total", "Tokens of these that the large model chose."),
		asks:      r.Counter("asks_total", "Questions to the large model."),
		queue:     r.Histogram("queue_seconds", "Time that requests waited for others."),
		first:     r.Histogram("first_token_seconds", "Time from there to the first piece of an answer."),
		whole:     r.Histogram("request_seconds", "Time of requests in all."),
		perToken:  r.Histogram("token_seconds", "Time per token of answers, after the first piece."),
	}
}

// countEvent counts a request after its end.
func (m *servingMetrics) countEvent(e serve.Event) {
	if e.Endpoint == "" {
		m.refused.WithLabelValues(strconv.Itoa(e.Status), e.Code).Inc()
		return
	}
	code := e.Code
	if code == "" {
		code = "none"
	}
	m.requests.WithLabelValues(e.Endpoint, strconv.Itoa(e.Status), code).Inc()
	if e.Ignored > 0 {
		m.ignored.WithLabelValues(e.Endpoint).Add(float64(e.Ignored))
	}
	m.prompt.Add(float64(e.Prompt))
	m.cached.Add(float64(e.Cached))
	m.generated.Add(float64(e.Tokens))
	m.cloud.Add(float64(e.Cloud))
	m.asks.Add(float64(e.Asks))
	m.whole.Observe(e.Took.Seconds())
	if e.Prompt > 0 {
		m.queue.Observe(e.Queue.Seconds())
	}
	if e.First > 0 {
		m.first.Observe(e.First.Seconds())
	}
	if rest := e.Took - e.Queue - e.First; e.First > 0 && e.Tokens > 1 {
		m.perToken.Observe(rest.Seconds() / float64(e.Tokens-1))
	}
}

// registerLoad registers gauges of a server's load, read at each scrape.
func registerLoad(to prometheus.Registerer, load func() serve.Load) {
	metrics.RegisterGauges(to, servingPrefix, load, []metrics.Gauge[serve.Load]{
		{Name: "active", Help: "Requests that are being answered.",
			Value: func(l serve.Load) int { return l.Active }},
		{Name: "waiting", Help: "Requests that wait for others.",
			Value: func(l serve.Load) int { return l.Waiting }},
		{Name: "stalled", Help: "Requests that wait for their readers.",
			Value: func(l serve.Load) int { return l.Stalled }},
		{Name: "sessions", Help: "Texts with keys and values that are kept.",
			Value: func(l serve.Load) int { return l.Sessions }},
		{Name: "draining", Help: "1 when no more requests are taken.", Value: func(l serve.Load) int {
			if l.Draining {
				return 1
			}
			return 0
		}},
	})
}
