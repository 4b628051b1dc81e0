package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// Mode is one line of bench routing or demo: a mode in a cell.
type Mode struct {
	outcome.Report
	Mean   stats.Interval `json:"-"` // of Time: over questions; without samples both ends equal the value
	Label  string         `json:"-"` // the name, with the variant if there are several
	Colour int            `json:"-"` // as in [chart.Line]
}

// Study is modes in cells that only differ in the round trip of the link.
type Study struct {
	key   string
	Title string
	Modes []string // labels, in the order of the lines
	Cells []*Place

	colours map[string]int // by label
}

// Place is the modes of one cell.
type Place struct {
	Cell  outcome.Cell
	Modes []*Mode
}

// addMode adds a line of bench routing to its study. If the study has that mode in that cell already, the line belongs
// to a repeated measurement.
func (r *Report) addMode(one *result.Record) error {
	m := &Mode{}
	if err := one.Into(m); err != nil {
		return err
	}
	if m.Cell == nil {
		m.Cell = cellOfFlags(one.Run.Flags)
	}
	if m.Label = m.Mode; m.Variant > 0 {
		m.Label = fmt.Sprintf("%s #%d", m.Mode, m.Variant)
	}
	m.Mean = meanTime(m)
	for again := 1; ; again++ {
		key := fmt.Sprintf("%d %s", again, studyKey(&one.Run, *m.Cell))
		i := slices.IndexFunc(r.Studies, func(s *Study) bool { return s.key == key })
		if i < 0 {
			i = len(r.Studies)
			title := studyTitle(&one.Run, *m.Cell, again)
			r.Studies = append(r.Studies, &Study{key: key, Title: title, colours: map[string]int{}})
		}
		if r.Studies[i].take(m) {
			return nil
		}
	}
}

// cellOfFlags returns the cell of a call that measured only one.
func cellOfFlags(flags map[string]string) *outcome.Cell {
	c := &outcome.Cell{Trace: strings.Trim(flags["trace"], "[]")}
	if d, err := time.ParseDuration(flags["rtt"]); err == nil {
		c.RTT = result.Milliseconds(d)
	}
	c.Loss, _ = strconv.ParseFloat(flags["loss"], 64) // 0 without the flag
	c.EdgeTPS, _ = strconv.ParseFloat(flags["edge-tps"], 64)
	c.CloudMS, _ = strconv.ParseFloat(flags["cloud-ms"], 64)
	c.Parallel, _ = strconv.Atoi(flags["parallel"])
	return c
}

// decisive returns the flags that distinguish measurements of modes, in addition to the cell.
func decisive() []string {
	return []string{"policy", "threshold", "budget", "router", "branches", "window", "inflight", "deadline", "ahead",
		"verify-every", "lookup", "workload", "questions", "no-warm", "no-audit", "edge-row-cost", "repeat", "replay",
		"max-tokens", "raw", "upstream"}
}

// studyKey returns a key that is equal for lines that belong in one plot over round trips.
func studyKey(r *result.Run, c outcome.Cell) string {
	c.RTT = 0
	settings := []string{r.Measurement, r.Version, r.Machine.CPU, r.Remote, fmt.Sprintf("%+v", c)}
	for _, m := range []*result.Model{r.Model, r.Large} {
		if m != nil {
			settings = append(settings, m.Hash)
		}
	}
	for _, f := range decisive() {
		settings = append(settings, r.Flags[f])
	}
	b, _ := json.Marshal(settings) // strings only: this cannot fail
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
func (s *Study) take(m *Mode) bool {
	i := slices.IndexFunc(s.Cells, func(p *Place) bool { return p.Cell == *m.Cell })
	if i < 0 {
		i = len(s.Cells)
		s.Cells = append(s.Cells, &Place{Cell: *m.Cell})
	}
	p := s.Cells[i]
	if slices.ContainsFunc(p.Modes, func(o *Mode) bool { return o.Label == m.Label }) {
		return false
	}
	p.Modes = append(p.Modes, m)
	if !slices.Contains(s.Modes, m.Label) {
		s.Modes = append(s.Modes, m.Label)
	}
	return true
}

// finish sorts the cells and gives each mode its colour.
func (s *Study) finish() {
	slices.SortStableFunc(s.Cells, func(a, b *Place) int { return cmp.Compare(a.Cell.RTT, b.Cell.RTT) })
	s.paint()
	for _, p := range s.Cells {
		for _, m := range p.Modes {
			m.Colour = s.colours[m.Label]
		}
	}
}

// paint assigns fixed colours to the common modes, and the remaining ones to the others in turn.
func (s *Study) paint() {
	usual := map[string]int{
		"local": 4, "cloud": 2, "paper": 8, "serial": 6, "pipelined-2": 3, "pipelined-4": 1, "verified": 5,
	}
	used := map[int]bool{}
	for _, name := range s.Modes {
		if c, ok := usual[name]; ok {
			s.colours[name], used[c] = c, true
		}
	}
	next := 1
	for _, name := range s.Modes {
		if s.colours[name] != 0 {
			continue
		}
		for used[next] && len(used) < chart.Colours {
			next = next%chart.Colours + 1
		}
		s.colours[name], used[next] = next, true
		next = next%chart.Colours + 1
	}
}

// Name identifies a cell among those of its study.
func (p *Place) Name() string {
	name := fmt.Sprintf("round trip %s ms", chart.Number(p.Cell.RTT))
	if p.Cell.Trace != "" && p.Cell.RTT == 0 {
		name = "trace " + p.Cell.Trace
	}
	return name
}

// meanTime returns the mean of the times with its interval: over the means of questions, since repetitions of a
// question are correlated.
func meanTime(m *Mode) stats.Interval {
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
