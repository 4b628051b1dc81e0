package group

import (
	"net/url"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// upstreamMetrics has metrics of the engines behind a gateway. Their label is the host that the operator gave.
type upstreamMetrics struct {
	stats              func() engine.UpstreamStats
	all                []upstreamMetric
	repeats, differing *prometheus.Desc
}

type upstreamMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*engine.UpstreamEngineStats) float64
}

const upstreamPrefix = "pilotfish_upstream_"

// NewUpstreamMetrics returns metrics that call stats, which must not block, for each collection.
func NewUpstreamMetrics(stats func() engine.UpstreamStats) *upstreamMetrics {
	m := &upstreamMetrics{stats: stats,
		repeats: prometheus.NewDesc(upstreamPrefix+"repeats_total",
			"Questions with a stored answer, since they were asked before.", nil, nil),
		differing: prometheus.NewDesc(upstreamPrefix+"differing_answers_total",
			"Answers of an engine that differ from the earlier one to the same question.", nil, nil)}
	add := func(kind prometheus.ValueType, name, help string, value func(*engine.UpstreamEngineStats) float64) {
		desc := prometheus.NewDesc(upstreamPrefix+name, help, []string{"engine"}, nil)
		m.all = append(m.all, upstreamMetric{desc, kind, value})
	}
	type stat = *engine.UpstreamEngineStats
	count := func(name, help string, value func(stat) uint64) {
		add(prometheus.CounterValue, name, help, func(s stat) float64 { return float64(value(s)) })
	}
	add(prometheus.GaugeValue, "up", "Whether the engine is in service.", func(s stat) float64 {
		if s.In {
			return 1
		}
		return 0
	})
	add(prometheus.GaugeValue, "asks_open", "Open questions.", func(s stat) float64 { return float64(s.Open) })
	count("outages_total", "Times that the engine went out of service.", func(s stat) uint64 { return s.Outages })
	count("answers_total", "Questions with an answer.", func(s stat) uint64 { return s.Answered })
	count("failures_total", "Questions that the engine failed to answer.", func(s stat) uint64 { return s.Failed })
	count("cancelled_total", "Cancelled questions.", func(s stat) uint64 { return s.Cancelled })
	count("context_tokens_total", "Tokens of answered contexts, if the engine reports the use of its cache.",
		func(s stat) uint64 { return s.Context })
	count("cached_tokens_total", "Of these, tokens from its cache.", func(s stat) uint64 { return s.Cached })
	return m
}

// Describe implements [prometheus.Collector].
func (m *upstreamMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, x := range m.all {
		to <- x.desc
	}
	to <- m.repeats
	to <- m.differing
}

// Collect implements [prometheus.Collector].
func (m *upstreamMetrics) Collect(to chan<- prometheus.Metric) {
	now := m.stats()
	for i := range now.Engines {
		e := &now.Engines[i]
		for _, x := range m.all {
			to <- prometheus.MustNewConstMetric(x.desc, x.kind, x.value(e), hostOf(e.URL))
		}
	}
	to <- prometheus.MustNewConstMetric(m.repeats, prometheus.CounterValue, float64(now.Repeats))
	to <- prometheus.MustNewConstMetric(m.differing, prometheus.CounterValue, float64(now.Differing))
}

// hostOf returns the host and path of the URL of an engine, without parts that may be secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "unknown"
	}
	return u.Host + u.Path
}
