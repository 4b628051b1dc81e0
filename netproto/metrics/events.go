package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// Events counts the events of a gateway. Pass its Event method as gateway.Options.Events: it does not block.
type Events struct {
	asks, refusals, connections, continued   *prometheus.CounterVec
	ahead, context, delta, audited, findings prometheus.Counter
	queue, compute, whole                    prometheus.Histogram
}

// NewEvents registers counters and returns them.
func NewEvents(to prometheus.Registerer) *Events {
	r := Factory{to, prefix}
	return &Events{
		asks: r.CounterVec("asks_total", "Questions by what became of them: answered, resent (more of the context "+
			"was asked for), refused, or dropped (cancelled, or the device has gone).", "outcome", "client"),
		refusals: r.CounterVec("refusals_total", "Refusals by what was refused (connection, ask or sync) and why.",
			"of", "code"),
		connections: r.CounterVec("connections_total", "Connections that were welcomed, by whether they began with "+
			"0-RTT.", "early"),
		context: r.Counter("context_tokens_total", "Tokens of the contexts of all questions and texts sent early."),
		delta: r.Counter("delta_tokens_total", "Tokens of these that travelled; the others the gateway knew: "+
			"hits of its cache of contexts."),
		ahead: r.Counter("ahead_tokens_total", "Tokens that were sent after answers, beyond those that were asked "+
			"for."),
		continued: r.CounterVec("answers_continued_total", "Answers that were continued, by why that ended "+
			"before as many tokens were sent as are allowed or the text has: busy (there was other work), cancelled "+
			"(the device or its text has gone on), others; none: it did not.", "code"),
		audited:  r.Counter("audited_positions_total", "Tokens of devices that the large model has looked at."),
		findings: r.Counter("audit_findings_total", "Tokens of these where it would have chosen another one."),
		queue: r.Histogram("ask_queue_seconds", "Time that answered questions waited, in the gateway and the "+
			"upstream."),
		compute: r.Histogram("ask_compute_seconds", "Time that the large model took for answered questions."),
		whole: r.Histogram("ask_seconds", "Time of answered questions from when they were there as a whole to when "+
			"the answer was written."),
	}
}

// Event counts an event in each metric that it belongs to.
func (m *Events) Event(e gateway.Event) {
	switch e.Kind {
	case gateway.Connected:
		m.connections.WithLabelValues(strconv.FormatBool(e.Early)).Inc()
		return
	case gateway.Decoded:
		m.ahead.Add(float64(e.Decoded))
		m.continued.WithLabelValues(codeName(e.Code())).Inc()
		return
	case gateway.Refused:
		of := map[netproto.Kind]string{netproto.KindAsk: "ask", netproto.KindSync: "sync", 0: "connection"}[e.Message]
		m.refusals.WithLabelValues(of, codeName(e.Code())).Inc()
	}
	m.context.Add(float64(e.Context))
	m.delta.Add(float64(e.Delta))
	if e.Message == netproto.KindAsk {
		m.asks.WithLabelValues(e.Kind.String(), e.Client).Inc()
	}
	if e.Kind == gateway.Answered {
		m.audited.Add(float64(e.Looked))
		m.findings.Add(float64(e.Audited))
		m.queue.Observe(e.Queue.Seconds())
		m.compute.Observe(e.Compute.Seconds())
		m.whole.Observe(e.Took.Seconds())
	}
}

func codeName(c netproto.Code) string {
	names := [...]string{
		netproto.NoReason: "none", netproto.WrongVersion: "wrong_version", netproto.WrongTokenizer: "wrong_tokenizer",
		netproto.WrongSecret: "wrong_secret", netproto.Malformed: "malformed",
		netproto.TooLarge: "too_large", netproto.TooFast: "too_fast", netproto.Busy: "busy",
		netproto.TooLate: "too_late", netproto.Draining: "draining", netproto.Failed: "failed",
		netproto.Cancelled: "cancelled", netproto.CannotVerify: "cannot_verify",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return "other"
}

// Factory makes and registers metrics with a common prefix.
type Factory struct {
	To     prometheus.Registerer
	Prefix string
}

// prefix is the prefix of the metrics of a gateway.
const prefix = "pilotfish_gateway_"

// CounterVec makes a counter with labels.
func (r Factory) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: r.Prefix + name, Help: help}, labels)
	r.To.MustRegister(c)
	return c
}

// Counter makes a counter.
func (r Factory) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: r.Prefix + name, Help: help})
	r.To.MustRegister(c)
	return c
}

// Histogram makes a histogram of seconds, with buckets, from 100 µs to a minute.
func (r Factory) Histogram(name, help string) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: r.Prefix + name, Help: help, Buckets: []float64{
		100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}})
	r.To.MustRegister(h)
	return h
}
