package router

import (
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// evaluationEvent is the evaluation of a router on traces, as JSON, and of the policies that need no router for
// comparison. Its fields are a contract. NaN values are absent.
type evaluationEvent struct {
	Tokens      int           `json:"tokens"`
	Prompts     int           `json:"prompts"`
	Held        bool          `json:"held_back"` // only prompts held out in training
	Label       string        `json:"label"`
	Escalate    *float64      `json:"escalate_share"` // share of the tokens
	Policies    []policyEvent `json:"policies"`       // the router is the first
	Reliability []router.Bin  `json:"reliability"`    // of the router
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

// newEvaluationEvent compares a router with the policies margin and entropy, by the verdicts of each on the same
// positions.
func newEvaluationEvent(learned, margin, entropy []router.Verdict) *evaluationEvent {
	return &evaluationEvent{
		Tokens: len(learned), Escalate: finiteOrNil(router.Rank(learned).At(2).Precision),
		Policies: []policyEvent{newPolicyEvent(string(router.Learned), learned),
			newPolicyEvent(string(router.Margin), margin), newPolicyEvent(string(router.Entropy), entropy)},
		Reliability: router.Reliability(learned),
	}
}

func newPolicyEvent(name string, v []router.Verdict) policyEvent {
	rank := router.Rank(v)
	p := policyEvent{
		Policy: name, AUC: finiteOrNil(router.AUC(v)), CrossEntropy: router.CrossEntropy(v),
		Calibration: router.CalibrationError(router.Reliability(v)),
	}
	for _, x := range shownThresholds() {
		p.Points = append(p.Points, newPointEvent(rank.At(x)))
	}
	for _, s := range shownShares() {
		p.Budgets = append(p.Budgets, newPointEvent(rank.At(rank.Threshold(s))))
	}
	return p
}

func newPointEvent(p router.Point) pointEvent {
	return pointEvent{p.Threshold, p.Share, finiteOrNil(p.Precision), finiteOrNil(p.Recall)}
}
