package report

import (
	"cmp"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// bytesText formats a number of bytes, "" for none.
func bytesText(n int64) string {
	if n <= 0 {
		return ""
	}
	return humanize.IBytes(uint64(n))
}

func engineTable(all []engineLine) *Table {
	number := func(of func(e engineLine) float64) func(engineLine) string {
		return func(e engineLine) string { return chart.Number(of(e)) }
	}
	return tableOf("", []column[engineLine]{
		{"model", "", func(e engineLine) string { return cmp.Or(modelName(e.Run.Model), "a model") }},
		{"threads", "", func(e engineLine) string { return fmt.Sprint(e.Threads) }},
		{"prompt", "tokens of the prompt", func(e engineLine) string { return fmt.Sprint(e.PromptTokens) }},
		{"prompt, tokens/s", "", number(func(e engineLine) float64 { return e.PromptTPS })},
		{"generated", "tokens", func(e engineLine) string { return fmt.Sprint(e.DecodedTokens) }},
		{"generation, tokens/s", "", number(func(e engineLine) float64 { return e.GenerationTPS })},
		{"of the bound", "of what reading memory allows", func(e engineLine) string {
			if e.FitsCache {
				return "fits in the cache"
			}
			return percent(e.Share)
		}},
		{"bound, tokens/s", "", number(func(e engineLine) float64 { return e.Bound })},
		{"memory, GB/s", "", number(func(e engineLine) float64 { return e.Bandwidth })},
		{"load, ms", "", number(func(e engineLine) float64 { return e.LoadMS })},
		{"first token, ms", "", number(func(e engineLine) float64 { return e.FirstTokenMS })},
		{"peak memory", "", func(e engineLine) string { return bytesText(e.PeakRSS) }},
	}, all)
}

func gatewayTable(all []wire.GatewayReport) *Table {
	type line = wire.GatewayReport
	number := func(of func(g line) float64) func(line) string {
		return func(g line) string { return chart.Number(of(g)) }
	}
	return tableOf("", []column[line]{
		{"devices", "", func(g line) string { return fmt.Sprint(g.Devices) }},
		{"asks/s of each", "", number(func(g line) float64 { return g.Rate })},
		{"model, ms", "", number(func(g line) float64 { return g.ModelMS })},
		{"answered", "", func(g line) string { return fmt.Sprintf("%d of %d", g.Answers, g.Asks) }},
		{"answers/s", "", number(func(g line) float64 { return g.PerSecond })},
		{"failed", "", func(g line) string { return fmt.Sprint(g.Errors) }},
		{"ms p50", "", number(func(g line) float64 { return g.Latency.P50 })},
		{"p90", "", number(func(g line) float64 { return g.Latency.P90 })},
		{"p99", "", number(func(g line) float64 { return g.Latency.P99 })},
		{"p99.9", "", number(func(g line) float64 { return g.Latency.P999 })},
		{"max", "", number(func(g line) float64 { return g.Latency.Max })},
		{"in gateway p99", "", number(func(g line) float64 { return g.InGateway.P99 })},
		{"CPU, µs an ask", "", number(func(g line) float64 { return g.CPUPerAsk })},
		{"memory a device", "", func(g line) string { return bytesText(g.PerConnection) }},
	}, all)
}

// path is a time that bench link measured on a path between device and gateway, with its prediction.
type path struct {
	link          string // round trip, loss and model
	what          string // what was timed, from when to when
	times, failed int
	ms            result.Latency
	expected      string
	up, down      *float64 // bytes on the wire per ask, including headers
}

func pathTable(all []path) *Table {
	number := func(of func(l result.Latency) float64) func(path) string {
		return func(p path) string { return chart.Number(of(p.ms)) }
	}
	t := tableOf("", []column[path]{
		{"timed", "", func(p path) string { return p.what }},
		{"round trip", "", func(p path) string { return p.link }},
		{"times", "", func(p path) string { return fmt.Sprint(p.times) }},
		{"failed", "", func(p path) string { return fmt.Sprint(p.failed) }},
		{"ms p50", "", number(func(l result.Latency) float64 { return l.P50 })},
		{"p90", "", number(func(l result.Latency) float64 { return l.P90 })},
		{"p99", "", number(func(l result.Latency) float64 { return l.P99 })},
		{"p99.9", "", number(func(l result.Latency) float64 { return l.P999 })},
		{"max", "", number(func(l result.Latency) float64 { return l.Max })},
		{"predicted", "by arithmetic", func(p path) string { return p.expected }},
		{"bytes up", "", func(p path) string { return value(p.up) }},
		{"down", "", func(p path) string { return value(p.down) }},
	}, all)
	t.Note = "Bytes are those of an ask on the wire: IP, UDP and QUIC, acknowledgements and retransmissions included."
	return t
}

// addLink adds a line of bench link.
func (l *lines) addLink(one *result.Record) error {
	var r wire.LinkReport
	if err := one.Into(&r); err != nil {
		return err
	}
	link := chart.Number(r.RTTMS) + " ms"
	if r.Loss > 0 {
		link += fmt.Sprintf(", %s%% lost", chart.Number(100*r.Loss))
	}
	if r.ModelMS > 0 {
		link += fmt.Sprintf(", model %s ms", chart.Number(r.ModelMS))
	}
	add := func(what string, times, failed int, ms result.Latency, expected string) *path {
		l.paths = append(l.paths, path{link: link, what: what, times: times, failed: failed, ms: ms,
			expected: expected})
		return &l.paths[len(l.paths)-1]
	}
	if a := r.Asks; a != nil {
		p := add("ask with "+plural(a.Tokens, "new token")+", until its answer", a.Answers, a.Errors, a.Latency,
			value(a.Expected))
		p.up, p.down = &a.WireUp, &a.WireDown
	}
	if c := r.Connect; c != nil {
		add("new connection, until it is there", c.Connections, 0, c.Connected, chart.Number(c.ExpectedHello))
		add("new connection, until its first answer", c.Connections, 0, c.First, chart.Number(c.ExpectedFirst))
		add("connection resumed with 0-RTT, until its first answer", c.Early, 0, c.Resumed,
			chart.Number(c.ExpectedEarly))
	}
	if o := r.Outage; o != nil {
		add(fmt.Sprintf("end of an outage of %s ms, until an answer", chart.Number(o.OutageMS)), o.Outages, o.Lost,
			o.Recovery, "at most "+chart.Number(o.Expected))
	}
	return nil
}
