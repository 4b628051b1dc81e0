package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// State returns gauges of a gateway's state, read at each scrape. stats must not wait for the large model: use
// Gateway.Stats.
func State(stats func() gateway.Stats) prometheus.Collector {
	s := &snapshot[gateway.Stats]{take: stats}
	for _, g := range []struct {
		name, help string
		value      func(gateway.Stats) int
	}{
		{"connections", "Open connections.", func(s gateway.Stats) int { return s.Connections }},
		{"sessions", "Texts that are remembered.", func(s gateway.Stats) int { return s.Sessions }},
		{"session_tokens", "Tokens that are remembered of them, drafts included.",
			func(s gateway.Stats) int { return s.Tokens }},
		{"asks_open", "Questions that wait for their turn, or that the large model works on.",
			func(s gateway.Stats) int { return s.Asks }},
		{"asks_waiting", "Questions that wait for their turn.", func(s gateway.Stats) int { return s.Waiting }},
	} {
		s.add(prefix+g.name, g.help, g.value)
	}
	return s
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
