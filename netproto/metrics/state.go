package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// State registers gauges of a gateway's state, read at each scrape. stats must not wait for the large model: use
// Gateway.Stats.
func State(to prometheus.Registerer, stats func() gateway.Stats) {
	RegisterGauges(to, prefix, stats, []Gauge[gateway.Stats]{
		{"connections", "Open connections.", func(s gateway.Stats) int { return s.Connections }},
		{"sessions", "Texts that are remembered.", func(s gateway.Stats) int { return s.Sessions }},
		{"session_tokens", "Tokens that are remembered of them, drafts included.",
			func(s gateway.Stats) int { return s.Tokens }},
		{"asks_open", "Questions that wait for their turn, or that the large model works on.",
			func(s gateway.Stats) int { return s.Asks }},
		{"asks_waiting", "Questions that wait for their turn.", func(s gateway.Stats) int { return s.Waiting }},
	})
}

// Gauge is a number of a state.
type Gauge[S any] struct {
	Name, Help string
	Value      func(S) int
}

// RegisterGauges registers gauges of a state, which is read at each scrape.
func RegisterGauges[S any](to prometheus.Registerer, prefix string, state func() S, all []Gauge[S]) {
	for _, g := range all {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + g.Name, Help: g.Help},
			func() float64 { return float64(g.Value(state())) }))
	}
}

// Health returns a gauge that is 1 while check returns nil, else 0. check must not block.
func Health(name, help string, check func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, func() float64 {
		if check() != nil {
			return 0
		}
		return 1
	})
}
