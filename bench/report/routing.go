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
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// Mode is one line of bench routing or demo, as far as a page shows it: a mode in a cell. What does not apply is nil.
type Mode struct {
	Name         string        `json:"mode"`
	Variant      int           `json:"variant"` // 1, 2, …: tells lines of one mode apart
	Answers      int           `json:"answers"`
	Accuracy     *float64      `json:"accuracy"`
	AccuracyLow  *float64      `json:"accuracy_low"`
	AccuracyHigh *float64      `json:"accuracy_high"`
	Share        *float64      `json:"escalated_share"`
	Asks         *float64      `json:"asks_per_answer"`
	Timeouts     *int          `json:"timeouts"`
	Time         result.Times  `json:"time_per_answer_ms"`
	FirstToken   *result.Times `json:"first_token_ms"`
	Between      *result.Times `json:"between_tokens_ms"`
	Hidden       *float64      `json:"hidden_share"`
	Hits         *float64      `json:"hit_rate"`
	BytesUp      *float64      `json:"bytes_up_per_escalation"`
	BytesDown    *float64      `json:"bytes_down_per_escalation"`
	Exposed      *float64      `json:"exposed_ms_per_answer"`
	Wasted       *float64      `json:"wasted_per_answer"`
	CommitDelay  *float64      `json:"commit_delay_ms"`
	CPU          *float64      `json:"cpu_seconds_per_answer"`
	Joules       *float64      `json:"energy_joules_per_answer"`
	Ratio        *Ratio        `json:"ratio_to"`
	Bound        *float64      `json:"bound_ms"`
	Cell         *Cell         `json:"cell"`
	Samples      []Sample      `json:"samples"`
	Waterfall    []result.Span `json:"waterfall"`

	Mean   stats.Interval `json:"-"` // of Time: over questions; its ends are its value where there are no samples
	Label  string         `json:"-"` // the name, with the variant where there are several
	Colour int            `json:"-"` // as in [chart.Line]
}

// Ratio is the mean time over that of another mode, with its interval where there is one.
type Ratio struct {
	Mode  string   `json:"mode"`
	Value float64  `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

// Cell says over which link, and beside what, a mode was measured.
type Cell struct {
	RTT      float64 `json:"rtt_ms"`
	Loss     float64 `json:"loss"`
	EdgeTPS  float64 `json:"edge_tps"` // 0: as fast as it goes
	CloudMS  float64 `json:"cloud_ms"`
	Trace    string  `json:"trace"`
	RowCost  float64 `json:"edge_row_cost"`
	Parallel int     `json:"parallel"`
}

// Even is the round trip at which a mode takes as long as another one, or why there is none.
type Even struct {
	Mode    string   `json:"mode"`
	Variant int      `json:"variant"`
	With    string   `json:"with"`
	Loss    float64  `json:"loss"`
	Trace   string   `json:"trace"`
	EdgeTPS float64  `json:"edge_tps"`
	RTT     *float64 `json:"rtt_ms"`
	Low     *float64 `json:"rtt_low_ms"`
	High    *float64 `json:"rtt_high_ms"`
	Faster  string   `json:"faster"`
	Reason  string   `json:"reason"`
}

// Percent is the loss in percent.
func (e *Even) Percent() float64 { return 100 * e.Loss }

// Sample is one answer.
type Sample struct {
	Question int       `json:"question"`
	MS       float64   `json:"ms"`
	Waits    []float64 `json:"waits_ms"` // exposed, of each question that was answered
	Up       float64   `json:"bytes_up"`
	Down     float64   `json:"bytes_down"`
}

// Study is modes in cells that differ in nothing but the link's round trip.
type Study struct {
	key   string
	Title string
	Modes []string // labels, in the order of the lines
	Cells []*Place

	colours map[string]int // by label
}

// Place is the modes of one cell.
type Place struct {
	Cell  Cell
	Modes []*Mode
}

// addMode puts a line of bench routing into the study that it belongs to. Where a study has that mode in that cell
// already, the line is of another measurement of the same.
func (r *Report) addMode(one *result.Record) error {
	m := &Mode{}
	if err := one.Into(m); err != nil {
		return err
	}
	if m.Cell == nil {
		m.Cell = cellOfFlags(one.Run.Flags)
	}
	if m.Label = m.Name; m.Variant > 0 {
		m.Label = fmt.Sprintf("%s #%d", m.Name, m.Variant)
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

// cellOfFlags is the cell of a call that measured only one.
func cellOfFlags(flags map[string]string) *Cell {
	c := &Cell{Trace: strings.Trim(flags["trace"], "[]")}
	if d, err := time.ParseDuration(flags["rtt"]); err == nil {
		c.RTT = result.Milliseconds(d)
	}
	c.Loss, _ = strconv.ParseFloat(flags["loss"], 64) // 0 where the flag says nothing
	c.EdgeTPS, _ = strconv.ParseFloat(flags["edge-tps"], 64)
	c.CloudMS, _ = strconv.ParseFloat(flags["cloud-ms"], 64)
	c.Parallel, _ = strconv.Atoi(flags["parallel"])
	return c
}

// decisive are the flags that make other measurements of modes, besides those of the cell.
func decisive() []string {
	return []string{"policy", "threshold", "budget", "router", "branches", "window", "inflight", "deadline", "ahead",
		"verify-every", "lookup", "workload", "questions", "no-warm", "no-audit", "edge-row-cost", "repeat", "replay"}
}

// studyKey is equal for lines that may stand in one plot over round trips.
func studyKey(r *result.Run, c Cell) string {
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
	b, _ := json.Marshal(settings) // strings alone: that cannot fail
	return string(b)
}

// studyTitle says what a study is of.
func studyTitle(r *result.Run, c Cell, again int) string {
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

// take adds a mode, unless it is there already.
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

// paint gives the modes that everybody measures colours of their own, and the others those that are left, in turn.
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

// Name of a cell among those of its study.
func (p *Place) Name() string {
	name := fmt.Sprintf("round trip %s ms", chart.Number(p.Cell.RTT))
	if p.Cell.Trace != "" && p.Cell.RTT == 0 {
		name = "trace " + p.Cell.Trace
	}
	return name
}

// meanTime is the mean of the times with its interval: of the questions' means, as repetitions of a question are alike.
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
	i := stats.Bootstrap(len(order), 0, func(weight []int) []float64 {
		sum, n := 0.0, 0.0
		for k, q := range order {
			sum, n = sum+float64(weight[k])*byQuestion[q][0], n+float64(weight[k])*byQuestion[q][1]
		}
		return []float64{sum / n}
	})[0]
	return i
}
