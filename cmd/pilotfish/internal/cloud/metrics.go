package cloud

import (
	"reflect"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// serviceMetrics has the metrics of the built-in engine: its work and its memory.
type serviceMetrics struct {
	stats func() engine.ServiceStats
	descs []*prometheus.Desc
}

// serviceFields names the metric for each field of [engine.ServiceStats]. Names of counters end with _total.
var serviceFields = []struct{ field, name, help string }{
	{"Slots", "slots", "Capacity of the KV cache, in tokens."},
	{"InUse", "slots_used", "Tokens in the KV cache."},
	{"InCommon", "slots_common", "Of these, tokens that more than one text uses."},
	{"Sessions", "sessions", "Texts with tokens in the KV cache."},
	{"Waiting", "asks_waiting", "Questions without an answer so far."},
	{"Steps", "steps_total", "Passes over the model."},
	{"Computed", "computed_tokens_total", "Tokens that passes computed."},
	{"Recomputed", "recomputed_tokens_total",
		"Of these, tokens that were computed before and evicted: raise --slots if there are many."},
	{"Reused", "reused_tokens_total", "Tokens of answered questions that were in the KV cache."},
	{"Shared", "shared_tokens_total", "Tokens that a text reused from other texts."},
	{"Evicted", "evicted_tokens_total", "Tokens that were evicted for others."},
	{"Shed", "shed_asks_total", "Background computations that were dropped in favour of questions."},
	{"AheadShed", "shed_ahead_total", "Of these, computations of tokens that no device had requested yet."},
	{"Ahead", "ahead_tokens_total", "Tokens decoded beyond the requested ones."},
	{"Repeated", "repeated_tokens_total", "Tokens computed again for the probabilities of the next token."},
	{"Guessed", "guessed_tokens_total", "Tokens computed as guesses of the next tokens."},
	{"Accepted", "held_tokens_total", "Guesses that were part of a later question."},
}

// newServiceMetrics returns metrics that call stats for each collection.
func newServiceMetrics(stats func() engine.ServiceStats) *serviceMetrics {
	m := &serviceMetrics{stats: stats}
	for _, f := range serviceFields {
		m.descs = append(m.descs, prometheus.NewDesc("pilotfish_engine_"+f.name, f.help, nil, nil))
	}
	return m
}

// Describe implements [prometheus.Collector].
func (m *serviceMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *serviceMetrics) Collect(to chan<- prometheus.Metric) {
	now := reflect.ValueOf(m.stats())
	for i, f := range serviceFields {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(f.name, "_total") {
			kind = prometheus.CounterValue
		}
		value := now.FieldByName(f.field).Convert(reflect.TypeFor[float64]()).Float()
		to <- prometheus.MustNewConstMetric(m.descs[i], kind, value)
	}
}
