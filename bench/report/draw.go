package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// overRTT returns the plot of the time of each mode over round trips, nil if there are fewer than two.
func (s *study) overRTT() []byte {
	c := chart.Chart{
		Title: "Time per answer over round trips",
		X:     chart.Axis{Label: "round trip, ms", Scale: chart.Linear},
		Y:     chart.Axis{Label: "mean time per answer, ms", Scale: chart.Linear},
	}
	rtts := map[float64]bool{}
	for _, name := range s.modes {
		l := chart.Line{Name: name, Dots: true, Dashed: name == "local" || name == "cloud"}
		for _, m := range s.all {
			if m.label != name || m.Cell.Trace != "" {
				continue
			}
			l.Colour = m.colour
			l.X, l.Y = append(l.X, m.Cell.RTT), append(l.Y, m.mean.Value)
			l.Low, l.High = append(l.Low, m.mean.Low), append(l.High, m.mean.High)
			c.X.End, c.Y.End = max(c.X.End, m.Cell.RTT), max(c.Y.End, m.mean.High)
			rtts[m.Cell.RTT] = true
		}
		c.Lines = append(c.Lines, l)
	}
	if len(rtts) < 2 {
		return nil
	}
	return c.SVG()
}

// minWait is the longest wait that counts as none, in milliseconds: the first bin of a histogram.
const minWait = 1.0

// longestWait is the upper end of a histogram, in milliseconds; longer waits are in its last bin.
const longestWait = 1e6

// perDecade is the number of bins of a histogram per decade.
const perDecade = 4

// waits returns the histogram of exposed waits in a cell, nil if there are none. Its bins have equal widths on a
// logarithmic axis.
func waits(cell []*mode) []byte {
	place := fmt.Sprintf("round trip %s ms", chart.Number(cell[0].Cell.RTT))
	if c := cell[0].Cell; c.Trace != "" && c.RTT == 0 {
		place = "trace " + c.Trace
	}
	c := chart.Chart{
		Title: "Waits that were not hidden, " + place,
		X: chart.Axis{
			Label: fmt.Sprintf("exposed wait, ms (below %s: none)", chart.Number(minWait)),
			Scale: chart.Log, Start: minWait / 2, End: 10 * minWait,
		},
		Y: chart.Axis{Label: "answers of the large model, %"},
	}
	all := make([][]float64, len(cell))
	for i, m := range cell {
		for _, s := range m.Samples {
			all[i] = append(all[i], s.Waits...)
		}
		for _, w := range all[i] {
			c.X.End = max(c.X.End, min(w, longestWait))
		}
	}
	parts := int(math.Ceil(perDecade * math.Log10(c.X.End/minWait)))
	c.X.End = minWait * math.Pow(10, float64(parts)/perDecade)
	for i, m := range cell {
		if len(all[i]) > 0 {
			c.Lines = append(c.Lines, staircase(m, all[i], parts))
		}
	}
	if len(c.Lines) == 0 {
		return nil
	}
	return c.SVG()
}

// staircase returns the outline of a histogram of waits.
func staircase(m *mode, waits []float64, parts int) chart.Line {
	count := make([]float64, parts+1)
	for _, w := range waits {
		at := 0
		if w >= minWait {
			at = min(1+int(perDecade*math.Log10(w/minWait)), parts)
		}
		count[at]++
	}
	l := chart.Line{Name: m.label, Colour: m.colour}
	from := minWait / 2
	for i, k := range count {
		to := minWait * math.Pow(10, float64(i)/perDecade)
		share := k / float64(len(waits))
		l.X, l.Y = append(l.X, from, to), append(l.Y, share, share)
		from = to
	}
	return l
}

// The colours of spans in a waterfall.
const (
	drawStep     = 0
	drawVain     = 1
	drawHit      = 2
	drawPrompt   = 3
	drawMiss     = 4
	drawCloud    = 5
	drawBranches = 6
	drawEdge     = 7
)

// waterfall returns the picture of one answer, nil if there is none.
func (m *mode) waterfall() []byte {
	if len(m.Waterfall) == 0 {
		return nil
	}
	s := chart.Spans{
		Title: "One answer, " + m.label, X: chart.Axis{Label: "ms since the answer began", Scale: chart.Linear},
		Kinds: []chart.Kind{{Name: "prompt", Colour: drawPrompt}, {Name: "step", Colour: drawStep},
			{Name: "step on branches", Colour: drawBranches}, {Name: "ask, guessed", Colour: drawHit},
			{Name: "ask, not guessed", Colour: drawMiss}, {Name: "in vain", Colour: drawVain},
			{Name: "shown, the cloud's", Colour: drawCloud}, {Name: "shown, the device's", Colour: drawEdge}},
	}
	for _, one := range m.Waterfall {
		s.X.End = max(s.X.End, one.End)
	}
	s.Rows = waterfallRows(m.Waterfall)
	return s.SVG()
}

// waterfallRows sorts spans into rows: the small model's work, each ask, the shown tokens.
func waterfallRows(spans []result.Span) []chart.Row {
	own := []chart.Row{{Name: "small model"}, {Name: "waiting"}, {Name: "rolled back"}}
	shown := chart.Row{Name: "text shown"}
	var asks []chart.Row
	all := slices.Clone(spans)
	slices.SortStableFunc(all, func(a, b result.Span) int { return cmp.Compare(a.Start, b.Start) })
	for _, one := range all {
		d := chart.Span{From: one.Start, To: one.End, Text: spanText(one), Colour: drawPrompt}
		switch one.Kind {
		case result.SpanPrompt:
			own[0].Spans = append(own[0].Spans, d)
		case result.SpanStep:
			if d.Colour = drawStep; one.Leaves > 1 {
				d.Colour = drawBranches
			}
			own[0].Spans = append(own[0].Spans, d)
		case result.SpanWait:
			d.Colour = drawVain
			own[1].Spans = append(own[1].Spans, d)
		case result.SpanRollback, result.SpanTurn:
			d.Colour = drawVain
			own[2].Spans = append(own[2].Spans, d)
		case result.SpanShown:
			if d.Colour = drawEdge; one.Outcome == "cloud" {
				d.Colour = drawCloud
			}
			shown.Spans = append(shown.Spans, d)
		case result.SpanAsk:
			d.Colour = askKind(one.Outcome)
			asks = append(asks, chart.Row{Name: fmt.Sprintf("ask, position %d", one.Pos), Spans: []chart.Span{d}})
		}
	}
	const maxAsks = 24
	rows := slices.DeleteFunc(own, func(r chart.Row) bool { return len(r.Spans) == 0 })
	rows = append(rows, asks[:min(len(asks), maxAsks)]...)
	if left := len(asks) - maxAsks; left > 0 {
		rows = append(rows, chart.Row{Name: plural(left, "more ask")})
	}
	return append(rows, shown)
}

func askKind(outcome string) int {
	switch outcome {
	case "hit":
		return drawHit
	case "miss", "known":
		return drawMiss
	}
	return drawVain
}

// spanText describes a span.
func spanText(s result.Span) string {
	text := fmt.Sprintf("%s, %s to %s ms", s.Kind, chart.Number(s.Start), chart.Number(s.End))
	if s.Pos > 0 {
		text += fmt.Sprintf(", position %d", s.Pos)
	}
	if s.Rows > 0 {
		text += fmt.Sprintf(", %s", plural(s.Rows, "token"))
	}
	if s.Leaves > 1 {
		text += fmt.Sprintf(" on %d branches", s.Leaves)
	}
	if s.Outcome != "" {
		text += ", " + s.Outcome
	}
	return text
}
