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
	gauge("slots", "Tokens that the memory for keys and values holds.",
		func(s engine.ServiceStats) int { return s.Slots })
	gauge("slots_used", "Tokens that it holds now.", func(s engine.ServiceStats) int { return s.InUse })
	gauge("slots_common", "Tokens of these that more than one text uses.",
		func(s engine.ServiceStats) int { return s.InCommon })
	gauge("sessions", "Texts of which it holds any.", func(s engine.ServiceStats) int { return s.Sessions })
	gauge("asks_waiting", "Questions that are not answered yet.", func(s engine.ServiceStats) int { return s.Waiting })
	count("steps_total", "Passes over the model.", func(s engine.ServiceStats) uint64 { return s.Steps })
	count("computed_tokens_total", "Tokens that they computed.",
		func(s engine.ServiceStats) uint64 { return s.Computed })
	count("recomputed_tokens_total",
		"Tokens of these that had been computed before and given up: raise --slots if many.",
		func(s engine.ServiceStats) uint64 { return s.Recomputed })
	count("reused_tokens_total", "Tokens of answered questions that were there already: hits of the cache.",
		func(s engine.ServiceStats) uint64 { return s.Reused })
	count("shared_tokens_total", "Tokens that a text took over from others, instead of computing them.",
		func(s engine.ServiceStats) uint64 { return s.Shared })
	count("evicted_tokens_total", "Tokens that made room for others.",
		func(s engine.ServiceStats) uint64 { return s.Evicted })
	count("shed_asks_total", "Computations in the background that were given up for questions.",
		func(s engine.ServiceStats) uint64 { return s.Shed })
	count("shed_ahead_total", "Those of them for a token that a device had not asked for yet.",
		func(s engine.ServiceStats) uint64 { return s.AheadShed })
	count("ahead_tokens_total", "Tokens that were decoded beyond those that devices had asked for.",
		func(s engine.ServiceStats) uint64 { return s.Ahead })
	count("repeated_tokens_total", "Tokens computed once more, to say what would have followed them.",
		func(s engine.ServiceStats) uint64 { return s.Repeated })
	count("guessed_tokens_total", "Tokens computed as guesses of what follows.",
		func(s engine.ServiceStats) uint64 { return s.Guessed })
	count("held_tokens_total", "Guesses that questions came along.",
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
