package main

import (
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// modes returns the lines of modes, and the break-even round trips if there is such a line.
func modes(records []result.Record) (all []outcome.Report, even []outcome.BreakEven, err error) {
	for i := range records {
		var line struct {
			outcome.Report
			BreakEven []outcome.BreakEven `json:"break_even"`
		}
		if err := records[i].Into(&line); err != nil {
			return nil, nil, err
		}
		if line.Mode != "" {
			all = append(all, line.Report)
		}
		even = append(even, line.BreakEven...)
	}
	return all, even, nil
}

// find returns the report of a mode.
func find(all []outcome.Report, mode string) (outcome.Report, error) {
	for _, r := range all {
		if r.Mode == mode {
			return r, nil
		}
	}
	return outcome.Report{}, fmt.Errorf("the mode %s was not measured", mode)
}

// demo makes the sentence and the table of the README.
func (m *made) demo() error {
	all, _, err := modes(m.records)
	if err != nil {
		return err
	}
	var of [4]outcome.Report
	for i, name := range []string{"local", "paper", "pipelined-4", "cloud"} {
		if of[i], err = find(all, name); err != nil {
			return err
		}
	}
	local, paper, best := of[0], of[1], of[2]
	m.texts["demo-line"] = wrapped(fmt.Sprintf("In its demo the small model alone answers %s of the questions "+
		"correctly, and with %s of the tokens from the large model %s, in %.0f ms (median) over a link of %s ms, "+
		"where asking and waiting takes %.0f ms.",
		whole(local.Accuracy), share(best.EscalatedShare), whole(best.Accuracy), best.Time.P50,
		chart.Number(best.Cell.RTT), paper.Time.P50))
	m.texts["demo-won"] = wrapped(outcome.Conclude(all))
	var b strings.Builder
	b.WriteString("| mode | accuracy | tokens from the cloud | ms per answer | waiting hidden | guesses that hit | " +
		"bytes up, down per answer of the cloud |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f | %s | %s | %s |\n", inWords(r.Mode), whole(r.Accuracy),
			share(r.EscalatedShare), r.Time.P50, whole(r.HiddenShare), whole(r.HitRate), each(r.BytesUp, r.BytesDown))
	}
	m.texts["demo-table"] = b.String()
	return nil
}

// inWords describes a mode.
func inWords(mode string) string {
	switch mode {
	case "local":
		return "local: the small model alone"
	case "cloud":
		return "cloud: the large model alone, streamed"
	case "paper":
		return "paper: stop and wait, HTTP, the whole text each time"
	case "serial":
		return "serial: stop and wait, our protocol"
	case "verified":
		return "verified: the large model's own text, from the small one"
	}
	if n, found := strings.CutPrefix(mode, "pipelined-"); found {
		return "pipelined, " + n + " guesses"
	}
	return mode
}

// sweep makes the tables of round trips, the plot over them, and the break-even points.
func (m *made) sweep() error {
	all, even, err := modes(m.records)
	if err != nil {
		return err
	}
	m.texts[m.name+"-tables"] = cellTables(all)
	m.texts[m.name+"-break-even"] = evenLines(even)
	return m.draw("time-over-rtt", "cell2-waterfall-serial", "cell2-waterfall-pipelined-4", "cell2-waits")
}

// stories makes the table of the stories models.
func (m *made) stories() error {
	all, _, err := modes(m.records)
	if err != nil {
		return err
	}
	m.texts[m.name+"-tables"] = cellTables(all)
	return nil
}

// cellTables returns a table for each cell.
func cellTables(all []outcome.Report) string {
	var b strings.Builder
	for i, r := range all {
		if i == 0 || *r.Cell != *all[i-1].Cell {
			c := r.Cell
			fmt.Fprintf(&b, "\n### RTT %s ms, loss %s%%, device %s tokens/s, cloud %s ms a token, %d answers\n\n",
				chart.Number(c.RTT), chart.Number(100*c.Loss), chart.Number(c.EdgeTPS),
				chart.Number(c.CloudMS), r.Answers)
			b.WriteString("| mode | ms mean | p50 | p90 | over local (95%) | bound, ms | passes | asks | " +
				"from cloud | bytes up | down | accuracy | equal |\n" +
				"|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
			r.Mode, r.Time.Mean, r.Time.P50, r.Time.P90, over(r.RatioTo), rounded(r.Bound, "%.0f"),
			rounded(r.Passes, "%.1f"), rounded(r.Asks, "%.1f"), share(r.EscalatedShare), rounded(r.BytesUp, "%.0f"),
			rounded(r.BytesDown, "%.0f"), whole(r.Accuracy), equal(r))
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// evenLines describes the break-even points of each mode.
func evenLines(all []outcome.BreakEven) string {
	var b strings.Builder
	for _, e := range all {
		if e.RTT == nil {
			fmt.Fprintf(&b, "- %s and %s: %s\n", e.Mode, e.With, e.Reason)
			continue
		}
		fmt.Fprintf(&b, "- %s is faster than %s %s %.0f ms", e.Mode, e.With, e.Faster, *e.RTT)
		if e.Low != nil && e.High != nil {
			fmt.Fprintf(&b, " (95%%: %.0f to %.0f)", *e.Low, *e.High)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// engine makes the table of engines.
func (m *made) engine() error {
	var b strings.Builder
	b.WriteString("| model | threads | prompt, tokens/s | generation, tokens/s | " +
		"of what reading memory allows | memory, GB/s |\n" +
		"|---|---|---|---|---|---|\n")
	for i := range m.records {
		var r speed.Report
		if err := m.records[i].Into(&r); err != nil {
			return err
		}
		name, bound := "", whole(r.Share)
		if of := m.records[i].Run.Model; of != nil {
			name = of.Name
		}
		if r.FitsCache {
			bound = "fits in the cache"
		}
		fmt.Fprintf(&b, "| %s | %d | %.1f | %.1f | %s | %.1f |\n", name, r.Threads, r.PromptTPS, r.GenerationTPS,
			bound, r.Bandwidth)
	}
	m.texts["engine-table"] = b.String()
	return nil
}

// gateway makes the table of gateways.
func (m *made) gateway() error {
	var b strings.Builder
	b.WriteString("| devices | questions/s of each | answered | ms p50 | p99 | p99.9 | " +
		"CPU, µs a question | memory a device |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for i := range m.records {
		var r wire.GatewayReport
		if err := m.records[i].Into(&r); err != nil {
			return err
		}
		fmt.Fprintf(&b, "| %d | %s | %d of %d | %.2f | %.2f | %.2f | %.0f | %.0f kB |\n", r.Devices,
			chart.Number(r.Rate), r.Answers, r.Asks, r.Latency.P50, r.Latency.P99, r.Latency.P999, r.CPUPerAsk,
			float64(r.PerConnection)/1e3)
	}
	m.texts["gateway-table"] = b.String()
	return nil
}

func rounded(x *float64, format string) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf(format, *x)
}

func whole(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.0f%%", 100**x)
}

func share(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100**x)
}

func each(up, down *float64) string {
	if up == nil || down == nil {
		return ""
	}
	return fmt.Sprintf("%.0f, %.0f", *up, *down)
}

func over(r *outcome.Ratio) string {
	switch {
	case r == nil:
		return ""
	case r.Low == nil || r.High == nil:
		return fmt.Sprintf("%.2f", r.Value)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", r.Value, *r.Low, *r.High)
}

// equal describes which tokens those of a mode equal.
func equal(r outcome.Report) string {
	for _, c := range []struct {
		same *bool
		n    *int
		to   string
	}{{r.EqualToCloud, r.DifferingFromCloud, "to cloud"}, {r.EqualToSerial, r.Differing, "to serial"}} {
		switch {
		case c.same == nil:
		case *c.same:
			return c.to
		case c.n != nil:
			return fmt.Sprintf("but %d, %s", *c.n, c.to)
		}
	}
	return ""
}

// link makes the table of the path of questions alone.
func (m *made) link() error {
	var b strings.Builder
	b.WriteString("| what | ms p50 | p99 | by arithmetic, ms |\n|---|---|---|---|\n")
	row := func(what string, l result.Latency, expected *float64) {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %s |\n", what, l.P50, l.P99, rounded(expected, "%.1f"))
	}
	for i := range m.records {
		var r wire.LinkReport
		if err := m.records[i].Into(&r); err != nil {
			return err
		}
		rtt := chart.Number(r.RTTMS)
		if a := r.Asks; a != nil {
			row(fmt.Sprintf("an ask of %d new tokens over %s ms, %.0f bytes up and %.0f down on the wire",
				a.Tokens, rtt, a.WireUp, a.WireDown), a.Latency, a.Expected)
		}
		if c := r.Connect; c != nil {
			row("a new connection over "+rtt+" ms, until it is welcome", c.Connected, &c.ExpectedHello)
			row("a resumed one, until its first answer", c.Resumed, &c.ExpectedEarly)
		}
	}
	m.texts["link-table"] = b.String()
	return nil
}
