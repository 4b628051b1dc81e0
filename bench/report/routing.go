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
)

// mode is one line of bench routing or demo: a mode in a cell.
type mode struct {
	outcome.Report
	mean   stats.Interval // of Time: over questions; without samples both ends equal the value
	label  string         // the name, with the variant if there are several
	colour int            // as in [chart.Line]
}

// study is modes in cells that only differ in the round trip of the link.
type study struct {
	key, title string
	modes      []string // labels, in the order of the lines
	all        []*mode
}

// addMode adds a line of bench routing to its study. If the study has that mode in that cell already, the line belongs
// to a repeated measurement.
func (l *lines) addMode(one *result.Record) error {
	m := &mode{}
	if err := one.Into(&m.Report); err != nil {
		return err
	}
	if m.label = m.Mode; m.Variant > 0 {
		m.label = fmt.Sprintf("%s #%d", m.Mode, m.Variant)
	}
	m.mean = meanTime(&m.Report)
	for again := 1; ; again++ {
		key := fmt.Sprintf("%d %s", again, studyKey(&one.Run, *m.Cell))
		i := slices.IndexFunc(l.studies, func(s *study) bool { return s.key == key })
		if i < 0 {
			i = len(l.studies)
			l.studies = append(l.studies, &study{key: key, title: studyTitle(&one.Run, *m.Cell, again)})
		}
		if l.studies[i].take(m) {
			return nil
		}
	}
}

// studyKey returns a key that is equal for lines that belong in one plot over round trips: the settings, without those
// that set the round trip, the modes, the files and the output.
func studyKey(r *result.Run, c outcome.Cell) string {
	c.RTT = 0
	flags := maps.Clone(r.Flags)
	for _, name := range []string{"rtt", "modes", "model", "large", "json", "html", "record", "timeline"} {
		delete(flags, name)
	}
	settings := []any{r.Measurement, r.Version, r.Machine.CPU, r.Remote, c, flags}
	for _, m := range []*result.Model{r.Model, r.Large} {
		if m != nil {
			settings = append(settings, m.Hash)
		}
	}
	b, _ := json.Marshal(settings) // of figures that were read from JSON: this cannot fail
	return string(b)
}

// studyTitle returns the title of a study.
func studyTitle(r *result.Run, c outcome.Cell, again int) string {
	var words []string
	if r.Model != nil {
		words = append(words, modelName(r.Model)+" asks "+cmp.Or(modelName(r.Large), r.Remote, "a large model"))
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
	words = append(words, fmt.Sprintf("cloud %s ms a token", chart.Number(c.CloudMS)))
	if again > 1 {
		words = append(words, fmt.Sprintf("measurement %d of the same", again))
	}
	return strings.Join(words, ", ")
}

// take adds a mode, unless the study has it already.
func (s *study) take(m *mode) bool {
	if slices.ContainsFunc(s.all, func(o *mode) bool { return *o.Cell == *m.Cell && o.label == m.label }) {
		return false
	}
	s.all = append(s.all, m)
	if !slices.Contains(s.modes, m.label) {
		s.modes = append(s.modes, m.label)
	}
	return true
}

// paint assigns fixed colours to the common modes, and the remaining ones to the others in turn.
func (s *study) paint() {
	usual := map[string]int{
		"local": 4, "cloud": 2, "paper": 8, "serial": 6, "pipelined-2": 3, "pipelined-4": 1, "verified": 5,
	}
	colours, used, next := map[string]int{}, map[int]bool{}, 1
	for _, name := range s.modes {
		if c, ok := usual[name]; ok {
			colours[name], used[c] = c, true
		}
	}
	for _, name := range s.modes {
		if colours[name] != 0 {
			continue
		}
		for used[next] && len(used) < chart.Colours {
			next = next%chart.Colours + 1
		}
		colours[name], used[next] = next, true
		next = next%chart.Colours + 1
	}
	for _, m := range s.all {
		m.colour = colours[m.label]
	}
}

// section returns the table and the pictures of a study.
func (s *study) section() Section {
	slices.SortStableFunc(s.all, func(a, b *mode) int { return cmp.Compare(a.Cell.RTT, b.Cell.RTT) })
	s.paint()
	all := Section{Title: s.title, Tables: []*Table{modeTable(s.all)}}
	add := func(name, caption string, picture []byte, folded bool) {
		if picture != nil {
			all.Pictures = append(all.Pictures, Picture{name, caption, picture, folded})
		}
	}
	add("time-over-rtt", "Mean time per answer over round trips; bands: 95% intervals, by bootstrap over questions.",
		s.overRTT(), false)
	for i, cell := 0, s.all; len(cell) > 0; i++ {
		n := slices.IndexFunc(cell, func(m *mode) bool { return *m.Cell != *cell[0].Cell })
		if n < 0 {
			n = len(cell)
		}
		prefix := fmt.Sprintf("cell%d-", i+1)
		add(prefix+"waits", "Histogram of the time that an answer was held up by waiting for the large model.",
			waits(cell[:n]), false)
		for _, m := range cell[:n] {
			add(prefix+"waterfall-"+m.label, "One answer of "+m.label+", from its beginning to its end.", m.waterfall(),
				true)
		}
		cell = cell[n:]
	}
	return all
}

func modeTable(all []*mode) *Table {
	of := func(f func(m *mode) *float64) func(*mode) string { return func(m *mode) string { return value(f(m)) } }
	share := func(f func(m *mode) *float64) func(*mode) string {
		return func(m *mode) string { return percent(f(m)) }
	}
	return tableOf("", []column[*mode]{
		{"mode", "", func(m *mode) string { return m.label }},
		{"round trip", "ms", func(m *mode) string { return chart.Number(m.Cell.RTT) }},
		{"answers", "", func(m *mode) string { return fmt.Sprint(m.Answers) }},
		{"right", "", share(func(m *mode) *float64 { return m.Accuracy })},
		{"right, 95%", "", func(m *mode) string { return span(m.AccuracyLow, m.AccuracyHigh, percent) }},
		{"from cloud", "share of the generated tokens that the large model chose",
			share(func(m *mode) *float64 { return m.EscalatedShare })},
		{"mean", "ms per answer", of(func(m *mode) *float64 { return &m.mean.Value })},
		{"mean, 95%", "by bootstrap over questions", func(m *mode) string {
			if !(m.mean.Low < m.mean.High) {
				return ""
			}
			return span(&m.mean.Low, &m.mean.High, value)
		}},
		{"p50", "ms per answer", of(func(m *mode) *float64 { return &m.Time.P50 })},
		{"p90", "", of(func(m *mode) *float64 { return &m.Time.P90 })},
		{"p99", "", of(func(m *mode) *float64 { return &m.Time.P99 })},
		{"bound", "ms: least mean time by arithmetic", of(func(m *mode) *float64 { return m.Bound })},
		{"first token", "ms, p50", func(m *mode) string {
			if m.FirstToken == nil {
				return ""
			}
			return chart.Number(m.FirstToken.P50)
		}},
		{"between tokens", "ms, p99", func(m *mode) string {
			if m.Between == nil {
				return ""
			}
			return chart.Number(m.Between.P99)
		}},
		{"exposed", "ms of waiting per answer", of(func(m *mode) *float64 { return m.Exposed })},
		{"hidden", "share of the time from asks to answers in which drafting went on that held",
			share(func(m *mode) *float64 { return m.HiddenShare })},
		{"hits", "answers that were among the guesses", share(func(m *mode) *float64 { return m.HitRate })},
		{"passes", "of the small model per answer, after the prompt", of(func(m *mode) *float64 { return m.Passes })},
		{"asks", "sent, per answer", of(func(m *mode) *float64 { return m.Asks })},
		{"wasted", "tokens drafted in vain, per answer", of(func(m *mode) *float64 { return m.Wasted })},
		{"timed out", "tokens that stayed the small model's since no answer came in time", func(m *mode) string {
			if m.Timeouts == nil {
				return ""
			}
			return fmt.Sprint(*m.Timeouts)
		}},
		{"bytes up", "payload per answered ask", of(func(m *mode) *float64 { return m.BytesUp })},
		{"down", "", of(func(m *mode) *float64 { return m.BytesDown })},
		{"CPU", "seconds per answer", of(func(m *mode) *float64 { return m.CPU })},
		{"equal", "the tokens are those of", func(m *mode) string { return equal(&m.Report) }},
	}, all)
}

// equal describes which tokens those of a mode equal.
func equal(r *outcome.Report) string {
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

// meanTime returns the mean of the times with its interval: over the means of questions, since repetitions of a
// question are correlated.
func meanTime(m *outcome.Report) stats.Interval {
	byQuestion := map[int]*[2]float64{}
	var order []int
	for _, s := range m.Samples {
		if byQuestion[s.Question] == nil {
			byQuestion[s.Question] = &[2]float64{}
			order = append(order, s.Question)
		}
		byQuestion[s.Question][0] += s.MS
		byQuestion[s.Question][1]++
	}
	if len(order) < 2 {
		return stats.Interval{Value: m.Time.Mean, Low: m.Time.Mean, High: m.Time.Mean}
	}
	return stats.Bootstrap(len(order), 0, func(weight []int) []float64 {
		sum, n := 0.0, 0.0
		for k, q := range order {
			sum, n = sum+float64(weight[k])*byQuestion[q][0], n+float64(weight[k])*byQuestion[q][1]
		}
		return []float64{sum / n}
	})[0]
}
