package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// mode is one line of bench routing or demo: a mode in a cell.
type mode struct {
	outcome.Report
	label string // the name, with the variant if there are several
	row   row
}

// studyKey returns the key of the study of a line: modes in cells that only differ in the round trip of the link. All
// settings are equal, without those that set the round trip, the modes, the files and the output. If the study has that
// mode in that cell already, the line belongs to a repeated measurement.
func studyKey(one *result.Record, line row, before []*sectionLines) string {
	cell := maps.Clone(line["cell"].(map[string]any))
	delete(cell, "rtt_ms")
	flags := maps.Clone(one.Run.Flags)
	for _, name := range []string{"rtt", "modes", "model", "large", "json", "html", "record", "timeline"} {
		delete(flags, name)
	}
	r := one.Run
	settings := []any{r.Measurement, r.Version, r.Machine.CPU, cell, flags}
	for _, m := range []*record.Model{r.Model, r.Large} {
		if m != nil {
			settings = append(settings, m.Name, m.Hash)
		}
	}
	b, _ := json.Marshal(settings) // of figures that were read from JSON: this cannot fail
	for again := 1; ; again++ {
		key := fmt.Sprintf("%d %s", again, b)
		i := slices.IndexFunc(before, func(l *sectionLines) bool { return l.key == key })
		if i < 0 || !slices.ContainsFunc(before[i].rows, func(o row) bool {
			return o["mode"] == line["mode"] && o["variant"] == line["variant"] &&
				o.valueAt("cell.rtt_ms") == line.valueAt("cell.rtt_ms")
		}) {
			return key
		}
	}
}

func studyTitle(r *record.Run, c *outcome.Cell) string {
	var words []string
	if r.Model != nil {
		words = append(words, modelName(r.Model)+" asks "+cmp.Or(modelName(r.Large), "a large model"))
	}
	if c.Trace != "" {
		words = append(words, "trace "+c.Trace)
	}
	if c.Loss > 0 {
		words = append(words, fmt.Sprintf("loss %s%%", chart.Number(100*c.Loss)))
	}
	if c.EdgeTPS > 0 {
		words = append(words, fmt.Sprintf("device %s tokens/s", chart.Number(c.EdgeTPS)))
	} else {
		words = append(words, "device at full speed")
	}
	return strings.Join(append(words, fmt.Sprintf("cloud %s ms a token", chart.Number(c.ModelMS))), ", ")
}

func studySection(records []*result.Record, rows []row) (s Section, err error) {
	all := make([]*mode, len(records))
	for i, one := range records {
		m := &mode{row: maps.Clone(rows[i])}
		if err := one.Into(&m.Report); err != nil {
			return s, err
		}
		if m.label = m.Mode; m.Variant > 0 {
			m.label = fmt.Sprintf("%s #%d", m.Mode, m.Variant)
		}
		m.row["mode"], m.row["equal"] = m.label, equalityText(&m.Report)
		m.row["rates"], m.row["means"] = anyValues(m.Rates()), meansOf(m.row["sums"], m.Answers)
		all[i] = m
	}
	slices.SortStableFunc(all, func(a, b *mode) int { return cmp.Compare(a.Cell.RTT, b.Cell.RTT) })
	rows = nil
	for _, m := range all {
		rows = append(rows, m.row)
	}
	s = Section{Title: studyTitle(&records[0].Run, all[0].Cell), Tables: []*Table{
		buildTable("", modeColumns(), rows), buildTable("All figures, per answer", figureColumns(rows), rows),
	}}
	plain := withoutTraces(all)
	if svg := plotTimeOverRTT(plain); svg != nil {
		s.Pictures = append(s.Pictures, Picture{"time-over-rtt",
			"Mean time per answer over round trips; bands: 95% intervals, by bootstrap over questions.", svg, false})
	}
	if svg := plotRightOverTime(plain); svg != nil {
		s.Pictures = append(s.Pictures, Picture{"right-over-time",
			"Right answers over the mean time per answer; each line has a point for each round trip.", svg, false})
	}
	cell := 1
	for i, m := range all {
		if i > 0 && m.Cell.RTT != all[i-1].Cell.RTT {
			cell++
		}
		if len(m.Waterfall) > 0 {
			s.Pictures = append(s.Pictures, Picture{fmt.Sprintf("cell%d-waterfall-%s", cell, m.label),
				"One answer of " + m.label + ", from its beginning to its end.", drawWaterfall(m), true})
		}
	}
	return s, nil
}

// anyValues returns figures as the object of a row.
func anyValues(figures map[string]float64) map[string]any {
	all := map[string]any{}
	for name, x := range figures {
		all[name] = x
	}
	return all
}

// meansOf returns sums over answers as means.
func meansOf(sums any, answers int) map[string]any {
	all := map[string]any{}
	of, _ := sums.(map[string]any)
	for name, x := range of {
		all[name] = numberOrZero(x) / float64(answers)
	}
	return all
}

func equalityText(r *outcome.Report) any {
	if r.Differing == nil {
		return nil
	}
	if m, _ := outcome.ParseMode(r.Mode); m.AsCloud() {
		return differingText(*r.Differing, "to cloud")
	}
	return differingText(*r.Differing, "to serial")
}

func differingText(n int, to string) string {
	if n == 0 {
		return to
	}
	return fmt.Sprintf("but %d, %s", n, to)
}

// withoutTraces returns the modes over links without a trace: only these have one round trip.
func withoutTraces(all []*mode) []*mode {
	return slices.DeleteFunc(slices.Clone(all), func(m *mode) bool { return m.Cell.Trace != "" })
}

// plotTimeOverRTT returns nil if there are fewer than two round trips.
func plotTimeOverRTT(all []*mode) []byte {
	if roundTripCount(all) < 2 {
		return nil
	}
	c := chart.Chart{Title: "Time per answer over round trips",
		X: chart.Axis{Label: "round trip, ms", Linear: true}, Y: chart.Axis{Label: "mean time per answer, ms",
			Linear: true}}
	for _, m := range all {
		mean := meanTime(&m.Report)
		l := lineForMode(&c, m)
		l.X, l.Y = append(l.X, m.Cell.RTT), append(l.Y, mean.Value)
		l.Low, l.High = append(l.Low, mean.Low), append(l.High, mean.High)
		c.X.End, c.Y.End = max(c.X.End, m.Cell.RTT), max(c.Y.End, mean.High)
	}
	return c.SVG()
}

// plotRightOverTime returns the plot of the accuracy of each mode over its time, with a point for each round trip; nil
// if there are fewer than two, or no right answers are known.
func plotRightOverTime(all []*mode) []byte {
	if roundTripCount(all) < 2 {
		return nil
	}
	c := chart.Chart{Title: "Right answers over time",
		X: chart.Axis{Label: "mean time per answer, ms", Linear: true}, Y: chart.Axis{Label: "right answers"}}
	for _, m := range all {
		if m.Accuracy == nil {
			return nil
		}
		mean := meanTime(&m.Report).Value
		l := lineForMode(&c, m)
		l.X, l.Y = append(l.X, mean), append(l.Y, m.Accuracy.Value)
		c.X.End = max(c.X.End, mean)
	}
	return c.SVG()
}

// lineForMode returns the line of a mode, a new one if it has none.
func lineForMode(c *chart.Chart, m *mode) *chart.Line {
	i := slices.IndexFunc(c.Lines, func(l chart.Line) bool { return l.Name == m.label })
	if i < 0 {
		i = len(c.Lines)
		c.Lines = append(c.Lines, chart.Line{Name: m.label, Dots: true,
			Dashed: m.label == "local" || m.label == "cloud"})
	}
	return &c.Lines[i]
}

func roundTripCount(all []*mode) int {
	rtts := map[float64]bool{}
	for _, m := range all {
		rtts[m.Cell.RTT] = true
	}
	return len(rtts)
}

// meanTime returns the mean of the times with its interval: over the means of questions, since repetitions of a
// question are correlated.
func meanTime(m *outcome.Report) stats.Interval {
	sums, counts, at := []float64{}, []float64{}, map[int]int{}
	for _, s := range m.Samples {
		i, known := at[s.Question]
		if !known {
			i = len(sums)
			at[s.Question], sums, counts = i, append(sums, 0), append(counts, 0)
		}
		sums[i] += result.Rounded(s.Took)
		counts[i]++
	}
	if len(sums) < 2 {
		return stats.Interval{Value: m.Time.Mean, Low: m.Time.Mean, High: m.Time.Mean}
	}
	return stats.Bootstrap(len(sums), 0, func(weight []int) []float64 {
		return []float64{stats.Weighted(sums, weight) / stats.Weighted(counts, weight)}
	})[0]
}

// The kinds of spans in a waterfall, in the order of [spanKinds].
const (
	drawPrompt = iota
	drawStep
	drawBranches
	drawHit
	drawMiss
	drawVain
	drawCloud
	drawEdge
)

func spanKinds() []string {
	return []string{"prompt", "step", "step on branches", "ask, guessed", "ask, not guessed", "in vain",
		"shown, the cloud's", "shown, the device's"}
}

func drawWaterfall(m *mode) []byte {
	s := chart.Spans{Title: "One answer, " + m.label, Kinds: spanKinds(), Rows: waterfallRows(m.Waterfall),
		X: chart.Axis{Label: "ms since the answer began", Linear: true}}
	for _, one := range m.Waterfall {
		s.X.End = max(s.X.End, one.End)
	}
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
		add := func(r *chart.Row, kind int) {
			r.Spans = append(r.Spans, chart.Span{From: one.Start, To: one.End, Kind: kind, Text: spanText(one)})
		}
		switch one.Kind {
		case result.SpanPrompt:
			add(&own[0], drawPrompt)
		case result.SpanStep:
			if one.Leaves > 1 {
				add(&own[0], drawBranches)
			} else {
				add(&own[0], drawStep)
			}
		case result.SpanWait:
			add(&own[1], drawVain)
		case result.SpanRollback, result.SpanTurn:
			add(&own[2], drawVain)
		case result.SpanShown:
			if one.Outcome == "cloud" {
				add(&shown, drawCloud)
			} else {
				add(&shown, drawEdge)
			}
		case result.SpanAsk:
			row := chart.Row{Name: fmt.Sprintf("ask, position %d", one.Pos)}
			add(&row, askKind(one.Outcome))
			asks = append(asks, row)
		}
	}
	const maxAsks = 24
	rows := slices.DeleteFunc(own, func(r chart.Row) bool { return len(r.Spans) == 0 })
	rows = append(rows, asks[:min(len(asks), maxAsks)]...)
	if left := len(asks) - maxAsks; left > 0 {
		rows = append(rows, chart.Row{Name: formatPlural(left, "more ask")})
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

func spanText(s result.Span) string {
	text := fmt.Sprintf("%s, %s to %s ms", s.Kind, chart.Number(s.Start), chart.Number(s.End))
	if s.Pos > 0 {
		text += fmt.Sprintf(", position %d", s.Pos)
	}
	if s.Rows > 0 {
		text += ", " + formatPlural(s.Rows, "token")
	}
	if s.Leaves > 1 {
		text += fmt.Sprintf(" on %d branches", s.Leaves)
	}
	if s.Outcome != "" {
		text += ", " + s.Outcome
	}
	return text
}
