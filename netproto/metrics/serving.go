package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/serve"
)

// servingPrefix is the prefix of the metrics of a server for programs.
const servingPrefix = "pilotfish_serve_"

// Serving counts the requests of a server for programs. Pass its Event method as serve.Options.Events.
type Serving struct {
	requests, refused, ignored             *prometheus.CounterVec
	prompt, cached, generated, cloud, asks prometheus.Counter
	queue, first, whole, perToken          prometheus.Histogram
}

// NewServing registers counters and returns them.
func NewServing(to prometheus.Registerer) *Serving {
	r := metricFactory{to, servingPrefix}
	return &Serving{
		requests: r.newCounterVec("requests_total", "Requests by where they went, the status of HTTP, and the code of "+
			"the error; none: there was none. Status 499: the client went away, or read too slowly.",
			"endpoint", "status", "code"),
		refused: r.newCounterVec("refused_total", "Requests that were refused before an endpoint answered them: for "+
			"their host, origin, API key, path or method. By the status of HTTP and the code of the error.",
			"status", "code"),
		ignored: r.newCounterVec("ignored_fields_total", "Fields of requests, and tools, that had no effect on the "+
			"answer: the log names each once for a client.", "endpoint"),
		prompt: r.newCounter("prompt_tokens_total", "Tokens of prompts."),
		cached: r.newCounter("cached_tokens_total", "Tokens of these that were known from before: hits of the "+
			"cache."),
		generated: r.newCounter("generated_tokens_total", "Tokens of answers."),
		cloud:     r.newCounter("cloud_tokens_total", "Tokens of these that the large model chose."),
		asks:      r.newCounter("asks_total", "Questions to the large model."),
		queue:     r.newHistogram("queue_seconds", "Time that requests waited for others."),
		first:     r.newHistogram("first_token_seconds", "Time from there to the first piece of an answer."),
		whole:     r.newHistogram("request_seconds", "Time of requests in all."),
		perToken:  r.newHistogram("token_seconds", "Time per token of answers, after the first piece."),
	}
}

// Event counts a request after its end.
func (m *Serving) Event(e serve.Event) {
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

// ServingState registers gauges of a server's load, read at each scrape.
func ServingState(to prometheus.Registerer, load func() serve.Load) {
	registerGauges(to, servingPrefix, load, []gauge[serve.Load]{
		{"active", "Requests that are being answered.", func(l serve.Load) int { return l.Active }},
		{"waiting", "Requests that wait for others.", func(l serve.Load) int { return l.Waiting }},
		{"stalled", "Requests that wait for their readers.", func(l serve.Load) int { return l.Stalled }},
		{"sessions", "Texts with keys and values that are kept.", func(l serve.Load) int { return l.Sessions }},
		{"draining", "1 when no more requests are taken.", func(l serve.Load) int {
			if l.Draining {
				return 1
			}
			return 0
		}},
	})
}
