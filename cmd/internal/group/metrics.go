package group

import (
	"net/url"
	"reflect"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// fieldMetric is the metric of a field of a struct. Names of counters end with _total.
type fieldMetric struct{ field, name, help string }

// fieldMetrics has the metrics of the fields of structs.
type fieldMetrics struct {
	fields []fieldMetric
	descs  []*prometheus.Desc
	// calls yield for each struct, with the value of its label if there is a label; it must not block
	each func(yield func(of any, label ...string))
}

func newFieldMetrics(prefix string, fields []fieldMetric, each func(yield func(any, ...string)),
	label ...string) *fieldMetrics {
	m := &fieldMetrics{fields: fields, each: each}
	for _, f := range fields {
		m.descs = append(m.descs, prometheus.NewDesc(prefix+f.name, f.help, label, nil))
	}
	return m
}

func (m *fieldMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		to <- d
	}
}

func (m *fieldMetrics) Collect(to chan<- prometheus.Metric) {
	m.each(func(of any, label ...string) {
		for i, f := range m.fields {
			kind := prometheus.GaugeValue
			if strings.HasSuffix(f.name, "_total") {
				kind = prometheus.CounterValue
			}
			value := fieldNumber(reflect.ValueOf(of).FieldByName(f.field))
			to <- prometheus.MustNewConstMetric(m.descs[i], kind, value, label...)
		}
	})
}

func fieldNumber(v reflect.Value) float64 {
	switch {
	case v.Kind() == reflect.Bool && v.Bool():
		return 1
	case v.Kind() == reflect.Bool:
		return 0
	}
	return v.Convert(reflect.TypeFor[float64]()).Float()
}

// NewServiceMetrics returns metrics of the built-in engine: its work and its memory.
func NewServiceMetrics(stats func() engine.ServiceStats) prometheus.Collector {
	return newFieldMetrics("pilotfish_engine_", []fieldMetric{
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
	}, func(yield func(any, ...string)) { yield(stats()) })
}

// NewUpstreamMetrics returns metrics of the engines behind a gateway. Their label is the host that the operator gave.
func NewUpstreamMetrics(stats func() engine.UpstreamStats) []prometheus.Collector {
	const prefix = "pilotfish_upstream_"
	engines := newFieldMetrics(prefix, []fieldMetric{
		{"In", "up", "Whether the engine is in service."},
		{"Open", "asks_open", "Open questions."},
		{"Outages", "outages_total", "Times that the engine went out of service."},
		{"Answered", "answers_total", "Questions with an answer."},
		{"Failed", "failures_total", "Questions that the engine failed to answer."},
		{"Cancelled", "cancelled_total", "Cancelled questions."},
		{"Context", "context_tokens_total", "Tokens of answered contexts, if the engine reports the use of its cache."},
		{"Cached", "cached_tokens_total", "Of these, tokens from its cache."},
	}, func(yield func(any, ...string)) {
		for _, e := range stats().Engines {
			yield(e, engineHost(e.URL))
		}
	}, "engine")
	return []prometheus.Collector{engines, newFieldMetrics(prefix, []fieldMetric{
		{"Repeats", "repeats_total", "Questions with a stored answer, since they were asked before."},
		{"Differing", "differing_answers_total",
			"Answers of an engine that differ from the earlier one to the same question."},
	}, func(yield func(any, ...string)) { yield(stats()) })}
}

// engineHost returns the host and path of the URL of an engine, without parts that may be secret.
func engineHost(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "unknown"
	}
	return u.Host + u.Path
}
