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
			"Questions that were answered from memory, since they had been asked before.", nil, nil),
		differing: prometheus.NewDesc(upstreamPrefix+"differing_answers_total",
			"Answers of an engine other than the one before to the same question.", nil, nil)}
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
	add(prometheus.GaugeValue, "asks_open", "Questions under way.", func(s stat) float64 { return float64(s.Open) })
	count("outages_total", "Times that it went out of service.", func(s stat) uint64 { return s.Outages })
	count("asks_total", "Questions that it was asked.", func(s stat) uint64 { return s.Asks })
	count("requests_total", "HTTP requests for those answered.", func(s stat) uint64 { return s.Requests })
	count("answers_total", "Questions that it answered.", func(s stat) uint64 { return s.Answered })
	count("failures_total", "Questions without an answer by its own fault.", func(s stat) uint64 { return s.Failed })
	count("crowded_total", "Failures of these where it took no more.", func(s stat) uint64 { return s.Crowded })
	count("cancelled_total", "Questions that were given up.", func(s stat) uint64 { return s.Cancelled })
	count("late_total", "Questions of these whose deadline had gone by.", func(s stat) uint64 { return s.Late })
	count("warmed_total", "Texts that it was given ahead.", func(s stat) uint64 { return s.Warmed })
	count("context_tokens_total", "Tokens of answered contexts, where it tells what was in its cache.",
		func(s stat) uint64 { return s.Context })
	count("cached_tokens_total", "Tokens of these that were in its cache.", func(s stat) uint64 { return s.Cached })
	count("audited_positions_total", "Tokens of devices that its audits looked at.",
		func(s stat) uint64 { return s.Audited })
	count("audit_findings_total", "Tokens of these where it would have chosen another one.",
		func(s stat) uint64 { return s.Found })
	count("audit_tokens_total", "Tokens that were computed for audits alone.",
		func(s stat) uint64 { return s.AuditExtra })
	count("audits_unheard_total", "Audits that came back without sense.", func(s stat) uint64 { return s.Unheard })
	count("evicted_sessions_total", "Texts that lost their slot in the engine to others.",
		func(s stat) uint64 { return s.Evicted })
	add(prometheus.CounterValue, "answer_seconds_total", "Time from question to answer, of all answered.",
		func(s stat) float64 { return s.Time.Seconds() })
	add(prometheus.CounterValue, "compute_seconds_total", "Time of this within the engine, as far as it says so.",
		func(s stat) float64 { return s.Compute.Seconds() })
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
