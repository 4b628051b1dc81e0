package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/capacity"
)

// textBuffer collects the text of reports of capacity.
type textBuffer struct{ strings.Builder }

func (b *textBuffer) printf(format string, args ...any) { fmt.Fprintf(b, format, args...) }

// capacityHead has the names of the columns of a table.
const capacityHead = "           devices  per core   p50 ms   p95 ms   p99 ms  busy  answers/s  tokens/s  asks/s " +
	" rows/pass\n"

// costs writes the costs that the figures are based on.
func (b *textBuffer) costs(r *capacity.Report) {
	c, w := &r.Costs, &r.Workload
	b.printf("large model  %d threads of each of %d gateways; passes with a prediction for each row:", c.Threads,
		r.Gateways)
	for i, p := range c.Passes {
		if i > 0 {
			b.WriteByte(',')
		}
		b.printf(" %d rows %.1f ms", p.Rows, p.HeadsMS)
	}
	b.printf("; an ask %.2f ms\n", c.AskMS)
	b.printf("devices      prompts of %d tokens, answers of %d, pauses of %v, round trip %v, %v passes/s\n", w.Prompt,
		w.Tokens, w.Think, w.RTT, w.EdgeTPS)
	b.printf("bound        95%% of answers within %v\n\n", time.Duration(r.BoundMS*float64(time.Millisecond)))
}

// capacity writes the row of a mode.
func (b *textBuffer) capacity(r *capacity.Report) {
	devices := strconv.Itoa(r.Devices)
	if r.AtLeast {
		devices = "≥ " + devices
	}
	if r.At == nil {
		b.printf("%-9s %8s %9.1f %s\n", r.Mode, devices, r.PerCore, r.WhyNone)
		return
	}
	b.printf("%-9s %8s %9.1f %s\n", r.Mode, devices, r.PerCore, figures(r.At))
}

// figures returns the columns of a point.
func figures(p *capacity.Point) string {
	return fmt.Sprintf("%8.0f %8.0f %8.0f %4.0f%% %10.2f %9.1f %7.2f %10.1f", p.P50, p.P95, p.P99, 100*p.Utilisation,
		p.PerSecond, p.TokensTPS, p.AsksPS, p.RowsPerPass)
}

// points writes the requested numbers of devices.
func (b *textBuffer) points(all []*capacity.Report) {
	if len(all[0].Points) == 0 {
		return
	}
	b.WriteString("\n" + capacityHead)
	for _, r := range all {
		for _, p := range r.Points {
			perCore := float64(p.Devices) / float64(r.Gateways*r.Threads)
			b.printf("%-9s %8d %9.1f %s\n", r.Mode, p.Devices, perCore, figures(&p))
		}
	}
}

// trials writes the figures of real devices next to those of simulated ones.
func (b *textBuffer) trials(all []*capacity.Report) {
	var rows textBuffer
	for _, r := range all {
		for _, t := range r.Measured {
			m, s, verdict := &t.Measured, &t.Simulated, "above"
			if t.Within {
				verdict = "within"
			}
			rows.printf("%-9s %8d %8d %9.0f %9.0f %9.0f %9.0f %6.2f %6.2f  %s", r.Mode, m.Devices, m.Answers, m.P50,
				s.P50, m.P95, s.P95, t.RatioP50, t.RatioP95, verdict)
			if m.BytesUp > 0 {
				rows.printf(", %.0f bytes up and %.0f down per answer", m.BytesUp, m.BytesDown)
			}
			rows.WriteByte('\n')
		}
	}
	if rows.Len() == 0 {
		return
	}
	b.WriteString("\nReal devices beside simulated ones with the same pauses and asks; one gateway:\n")
	b.printf("%-9s %8s %8s %9s %9s %9s %9s %13s  %s\n", "", "devices", "answers", "p50 ms", "simulated", "p95 ms",
		"simulated", "ratio 50, 95", "bound")
	b.WriteString(rows.String())
}
