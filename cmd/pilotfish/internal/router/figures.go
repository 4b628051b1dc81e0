package router

import (
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// fine returns thresholds or shares for a curve: 0, 1/200, … 1.
func fine() (all []float64) {
	const steps = 200
	for i := range steps + 1 {
		all = append(all, float64(i)/steps)
	}
	return all
}

// charts returns the curves by file name.
func (w *worth) charts() map[string]chart.Chart {
	return map[string]chart.Chart{
		"reliability": w.reliability(), "share": w.escalated(), "precision-recall": w.precision(),
		"policies": w.policies(),
	}
}

// even returns the line on which confidence is accurate, or recall is no better than chance.
func even(name string) chart.Line {
	return chart.Line{Name: name, X: []float64{0, 1}, Y: []float64{0, 1}, Dashed: true}
}

func (w *worth) reliability() chart.Chart {
	c := chart.Chart{
		Title: "Is the confidence honest?",
		X:     chart.Axis{Label: "confidence that the token may stand, %"},
		Y:     chart.Axis{Label: "tokens that may stand, %"},
	}
	line := chart.Line{Name: "mean of the bin"}
	for _, b := range router.Reliability(w.all[0]) {
		if b.Tokens > 0 {
			c.Bars = append(c.Bars, chart.Bar{From: b.Low, To: b.High, Height: b.Stand})
			line.X, line.Y = append(line.X, b.Confidence), append(line.Y, b.Stand)
		}
	}
	c.Lines = []chart.Line{line, even("honest")}
	return c
}

func (w *worth) escalated() chart.Chart {
	c := chart.Chart{
		Title: "What a threshold escalates",
		X:     chart.Axis{Label: "threshold, % of confidence"}, Y: chart.Axis{Label: "tokens escalated, %"},
	}
	for i, name := range w.names {
		line := chart.Line{Name: name, X: fine(), Dashed: i > 0}
		for _, x := range line.X {
			line.Y = append(line.Y, w.ranks[i].At(x).Share)
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

func (w *worth) precision() chart.Chart {
	c := chart.Chart{
		Title: "How right escalations are",
		X:     chart.Axis{Label: "threshold, % of confidence"}, Y: chart.Axis{Label: "precision and recall, %"},
	}
	precision := chart.Line{Name: "precision: escalated that should be", X: fine()}
	recall := chart.Line{Name: "recall: should be and are escalated", X: fine()}
	for _, x := range fine() {
		p := w.ranks[0].At(x)
		precision.Y, recall.Y = append(precision.Y, p.Precision), append(recall.Y, p.Recall)
	}
	c.Lines = []chart.Line{precision, recall}
	return c
}

func (w *worth) policies() chart.Chart {
	const end = 0.5
	c := chart.Chart{
		Title: "Which policy finds the tokens to escalate",
		X:     chart.Axis{Label: "tokens escalated, %", End: end},
		Y:     chart.Axis{Label: "of those that should be, escalated, %"},
	}
	for i, name := range w.names {
		line := chart.Line{Name: name}
		for _, s := range fine() {
			p := w.ranks[i].At(w.ranks[i].Threshold(s * end))
			line.X, line.Y = append(line.X, p.Share), append(line.Y, p.Recall)
		}
		c.Lines = append(c.Lines, line)
	}
	random := even("random")
	random.X[1], random.Y[1] = end, end
	c.Lines = append(c.Lines, random)
	return c
}

// worthEvent is the evaluation of a router on traces, as JSON. Its fields are a contract. NaN values are absent.
type worthEvent struct {
	Tokens      int           `json:"tokens"`
	Prompts     int           `json:"prompts"`
	Held        bool          `json:"held_back"` // only prompts held out in training
	Label       string        `json:"label"`
	Escalate    *float64      `json:"escalate_share"` // share of the tokens
	Policies    []policyEvent `json:"policies"`
	Reliability []binEvent    `json:"reliability"` // of the router
}

type policyEvent struct {
	Policy       string       `json:"policy"`
	AUC          *float64     `json:"auc,omitempty"`
	CrossEntropy float64      `json:"cross_entropy"` // nats
	Calibration  float64      `json:"calibration_error"`
	Points       []pointEvent `json:"points"`  // by threshold
	Budgets      []pointEvent `json:"budgets"` // by share of tokens
}

type pointEvent struct {
	Threshold float64  `json:"threshold"`
	Share     float64  `json:"escalated_share"`
	Precision *float64 `json:"precision,omitempty"`
	Recall    *float64 `json:"recall,omitempty"`
}

type binEvent struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Tokens     int     `json:"tokens"`
	Confidence float64 `json:"confidence"` // mean
	Stand      float64 `json:"may_stand"`  // share
}

func (w *worth) event() worthEvent {
	e := worthEvent{
		Tokens: len(w.all[0]), Prompts: w.prompts, Held: w.held, Label: w.rule,
		Escalate: number0(w.ranks[0].At(2).Precision),
	}
	for _, b := range router.Reliability(w.all[0]) {
		e.Reliability = append(e.Reliability, binEvent(b))
	}
	for i, name := range w.names {
		v := w.all[i]
		p := policyEvent{
			Policy: name, AUC: number0(router.AUC(v)), CrossEntropy: router.CrossEntropy(v),
			Calibration: router.CalibrationError(router.Reliability(v)),
		}
		for _, x := range thresholds() {
			p.Points = append(p.Points, newPointEvent(w.ranks[i].At(x)))
		}
		for _, s := range shares() {
			p.Budgets = append(p.Budgets, newPointEvent(w.ranks[i].At(w.ranks[i].Threshold(s))))
		}
		e.Policies = append(e.Policies, p)
	}
	return e
}

func newPointEvent(p router.Point) pointEvent {
	return pointEvent{p.Threshold, p.Share, number0(p.Precision), number0(p.Recall)}
}
