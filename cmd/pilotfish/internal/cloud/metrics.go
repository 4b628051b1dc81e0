package cloud

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// serviceMetrics has the metrics of the built-in engine: its work and its memory.
type serviceMetrics struct {
	stats func() engine.ServiceStats
	all   []serviceMetric
}

type serviceMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(engine.ServiceStats) float64
}

// newServiceMetrics returns metrics that call stats for each collection.
func newServiceMetrics(stats func() engine.ServiceStats) *serviceMetrics {
	m := &serviceMetrics{stats: stats}
	add := func(kind prometheus.ValueType, name, help string, value func(engine.ServiceStats) float64) {
		desc := prometheus.NewDesc("pilotfish_engine_"+name, help, nil, nil)
		m.all = append(m.all, serviceMetric{desc, kind, value})
	}
	count := func(name, help string, value func(engine.ServiceStats) uint64) {
		add(prometheus.CounterValue, name, help, func(s engine.ServiceStats) float64 { return float64(value(s)) })
	}
	gauge := func(name, help string, value func(engine.ServiceStats) int) {
		add(prometheus.GaugeValue, name, help, func(s engine.ServiceStats) float64 { return float64(value(s)) })
	}
	gauge("slots", "Capacity of the KV cache, in tokens.",
		func(s engine.ServiceStats) int { return s.Slots })
	gauge("slots_used", "Tokens in the KV cache.", func(s engine.ServiceStats) int { return s.InUse })
	gauge("slots_common", "Of these, tokens that more than one text uses.",
		func(s engine.ServiceStats) int { return s.InCommon })
	gauge("sessions", "Texts with tokens in the KV cache.", func(s engine.ServiceStats) int { return s.Sessions })
	gauge("asks_waiting", "Questions without an answer so far.", func(s engine.ServiceStats) int { return s.Waiting })
	count("steps_total", "Passes over the model.", func(s engine.ServiceStats) uint64 { return s.Steps })
	count("computed_tokens_total", "Tokens that passes computed.",
		func(s engine.ServiceStats) uint64 { return s.Computed })
	count("recomputed_tokens_total",
		"Of these, tokens that were computed before and evicted: raise --slots if there are many.",
		func(s engine.ServiceStats) uint64 { return s.Recomputed })
	count("reused_tokens_total", "Tokens of answered questions that were in the KV cache.",
		func(s engine.ServiceStats) uint64 { return s.Reused })
	count("shared_tokens_total", "Tokens that a text reused from other texts.",
		func(s engine.ServiceStats) uint64 { return s.Shared })
	count("evicted_tokens_total", "Tokens that were evicted for others.",
		func(s engine.ServiceStats) uint64 { return s.Evicted })
	count("shed_asks_total", "Background computations that were dropped in favour of questions.",
		func(s engine.ServiceStats) uint64 { return s.Shed })
	count("shed_ahead_total", "Of these, computations of tokens that no device had requested yet.",
		func(s engine.ServiceStats) uint64 { return s.AheadShed })
	count("ahead_tokens_total", "Tokens decoded beyond the requested ones.",
		func(s engine.ServiceStats) uint64 { return s.Ahead })
	count("repeated_tokens_total", "Tokens computed again for the probabilities of the next token.",
		func(s engine.ServiceStats) uint64 { return s.Repeated })
	count("guessed_tokens_total", "Tokens computed as guesses of the next tokens.",
		func(s engine.ServiceStats) uint64 { return s.Guessed })
	count("held_tokens_total", "Guesses that were part of a later question.",
		func(s engine.ServiceStats) uint64 { return s.Accepted })
	return m
}

// Describe implements [prometheus.Collector].
func (m *serviceMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, x := range m.all {
		to <- x.desc
	}
}

// Collect implements [prometheus.Collector].
func (m *serviceMetrics) Collect(to chan<- prometheus.Metric) {
	now := m.stats()
	for _, x := range m.all {
		to <- prometheus.MustNewConstMetric(x.desc, x.kind, x.value(now))
	}
}
