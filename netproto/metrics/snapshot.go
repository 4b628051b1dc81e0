package metrics

import "github.com/prometheus/client_golang/prometheus"

// snapshot is a collector of gauges that are read together, from one state, at each scrape.
type snapshot[S any] struct {
	take   func() S
	gauges []gauge[S]
}

type gauge[S any] struct {
	desc  *prometheus.Desc
	value func(S) int
}

// add adds a gauge.
func (s *snapshot[S]) add(name, help string, value func(S) int) {
	s.gauges = append(s.gauges, gauge[S]{prometheus.NewDesc(name, help, nil, nil), value})
}

// Describe implements [prometheus.Collector].
func (s *snapshot[S]) Describe(to chan<- *prometheus.Desc) {
	for _, g := range s.gauges {
		to <- g.desc
	}
}

// Collect implements [prometheus.Collector].
func (s *snapshot[S]) Collect(to chan<- prometheus.Metric) {
	now := s.take()
	for _, g := range s.gauges {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.value(now)))
	}
}
