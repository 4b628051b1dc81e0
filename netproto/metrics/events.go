package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// Events counts the events of a gateway. Pass its Event method as gateway.Options.Events: it does not block.
type Events struct {
	asks, syncs, refusals, connections, closed, drains, continued *prometheus.CounterVec

	forgotten, forced, ahead                  prometheus.Counter
	context, delta, received, sent            prometheus.Counter
	audited, findings                         prometheus.Counter
	queue, compute, whole, connected, drained prometheus.Histogram
}

// NewEvents registers counters and returns them.
func NewEvents(to prometheus.Registerer) *Events {
	r := maker{to, prefix}
	return &Events{
		asks: r.counters("asks_total", "Questions by what became of them: answered, resent (more of the context was "+
			"asked for), refused, or dropped (cancelled, or the device has gone).", "outcome", "client"),
		syncs: r.counters("syncs_total", "Texts sent early by what became of them.", "outcome"),
		refusals: r.counters("refusals_total", "Refusals by what was refused (connection, ask, sync, or warming: "+
			"the computing after a sync) and why.", "of", "code"),
		connections: r.counters("connections_total", "Connections that were welcomed, by whether they began with "+
			"0-RTT.", "early"),
		closed: r.counters("connections_closed_total", "Welcomed connections that have ended, by why the gateway "+
			"closed them; none: it did not.", "code"),
		drains: r.counters("drains_total", "Drainings before the end, by whether they have begun or ended.", "phase"),
		forced: r.counter("drain_forced_closes_total", "Connections that a draining closed with questions open."),
		forgotten: r.counter("sessions_forgotten_total", "Texts that were forgotten: ended, expired, or they made "+
			"room for others."),
		context: r.counter("context_tokens_total", "Tokens of the contexts of all questions and texts sent early."),
		delta: r.counter("delta_tokens_total", "Tokens of these that travelled; the others the gateway knew: "+
			"hits of its cache of contexts."),
		received: r.counter("received_bytes_total", "Payload of questions and texts sent early."),
		sent:     r.counter("sent_bytes_total", "Payload of answers, requests for more, and refusals."),
		ahead: r.counter("ahead_tokens_total", "Tokens that were sent after answers, beyond those that were asked "+
			"for."),
		continued: r.counters("answers_continued_total", "Answers that were continued, by why that ended "+
			"before as many tokens were sent as are allowed or the text has: busy (there was other work), cancelled "+
			"(the device or its text has gone on), others; none: it did not.", "code"),
		audited:  r.counter("audited_positions_total", "Tokens of devices that the large model has looked at."),
		findings: r.counter("audit_findings_total", "Tokens of these where it would have chosen another one."),
		queue: r.seconds("ask_queue_seconds", "Time that answered questions waited, in the gateway and the "+
			"upstream."),
		compute: r.seconds("ask_compute_seconds", "Time that the large model took for answered questions."),
		whole: r.seconds("ask_seconds", "Time of answered questions from when they were there as a whole to when the "+
			"answer was written."),
		connected: r.histogram("connection_seconds", "Time that connections lasted.", minutes()),
		drained:   r.seconds("drain_seconds", "Time that drainings took."),
	}
}

// Event counts an event in each metric that it belongs to.
func (m *Events) Event(e gateway.Event) {
	m.received.Add(float64(e.BytesUp))
	m.sent.Add(float64(e.BytesDown))
	switch e.Kind {
	case gateway.Connected:
		early := "false"
		if e.Early {
			early = "true"
		}
		m.connections.WithLabelValues(early).Inc()
	case gateway.Disconnected:
		m.closed.WithLabelValues(codeName(e.Code())).Inc()
		m.connected.Observe(e.Lasted.Seconds())
	case gateway.Answered, gateway.Resent, gateway.Synced, gateway.Dropped:
		m.message(e)
	case gateway.Refused:
		m.refusals.WithLabelValues(subject(e), codeName(e.Code())).Inc()
		m.message(e)
	case gateway.Decoded:
		m.ahead.Add(float64(e.Decoded))
		m.continued.WithLabelValues(codeName(e.Code())).Inc()
	case gateway.Forgotten:
		m.forgotten.Inc()
	case gateway.Draining:
		m.drains.WithLabelValues("begun").Inc()
	case gateway.Drained:
		m.drains.WithLabelValues("ended").Inc()
		m.forced.Add(float64(e.Conns))
		m.drained.Observe(e.Lasted.Seconds())
	}
}

// message counts an ask or a sync and ignores other events.
func (m *Events) message(e gateway.Event) {
	switch e.Message {
	case netproto.KindAsk:
		m.asks.WithLabelValues(e.Kind.String(), e.Client).Inc()
	case netproto.KindSync:
		m.syncs.WithLabelValues(e.Kind.String()).Inc()
	default:
		return
	}
	m.context.Add(float64(e.Context))
	m.delta.Add(float64(e.Delta))
	if e.Kind != gateway.Answered {
		return
	}
	m.audited.Add(float64(e.Looked))
	m.findings.Add(float64(e.Audited))
	m.queue.Observe(e.Queue.Seconds())
	m.compute.Observe(e.Compute.Seconds())
	m.whole.Observe(e.Took.Seconds())
}

// subject returns what was refused.
func subject(e gateway.Event) string {
	switch {
	case e.Message == netproto.KindAsk:
		return "ask"
	case e.Message == netproto.KindSync:
		return "sync"
	case e.Warming:
		return "warming"
	}
	return "connection"
}

// codeName returns the label of a code.
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

// maker makes metrics with a common prefix.
type maker struct {
	to     prometheus.Registerer
	prefix string
}

// prefix is the prefix of the metrics of a gateway.
const prefix = "pilotfish_gateway_"

func (r maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: r.prefix + name, Help: help}, labels)
	r.to.MustRegister(c)
	return c
}

func (r maker) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: r.prefix + name, Help: help})
	r.to.MustRegister(c)
	return c
}

func (r maker) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: r.prefix + name, Help: help, Buckets: buckets})
	r.to.MustRegister(h)
	return h
}

func (r maker) seconds(name, help string) prometheus.Histogram {
	return r.histogram(name, help, instants())
}

// instants returns the bounds of buckets for the times of questions, in seconds: 100 µs to a minute.
func instants() []float64 {
	return []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5,
		1, 2.5, 5, 10, 30, 60}
}

// minutes returns the bounds of buckets for the times of connections: a second to a day.
func minutes() (all []float64) {
	for _, d := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
		6 * time.Hour, 24 * time.Hour} {
		all = append(all, d.Seconds())
	}
	return all
}
