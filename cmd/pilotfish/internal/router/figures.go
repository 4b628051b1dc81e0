package router

import (
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// worthEvent is the evaluation of a router on traces, as JSON. Its fields are a contract. NaN values are absent.
type worthEvent struct {
	Tokens      int           `json:"tokens"`
	Prompts     int           `json:"prompts"`
	Held        bool          `json:"held_back"` // only prompts held out in training
	Label       string        `json:"label"`
	Escalate    *float64      `json:"escalate_share"` // share of the tokens
	Policies    []policyEvent `json:"policies"`
	Reliability []router.Bin  `json:"reliability"` // of the router
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

func (w *worth) event() worthEvent {
	e := worthEvent{
		Tokens: len(w.all[0]), Prompts: w.prompts, Held: w.held, Label: w.rule,
		Escalate: number0(w.ranks[0].At(2).Precision), Reliability: router.Reliability(w.all[0]),
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
