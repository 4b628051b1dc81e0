package bench

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// ModeReport is what [Routing] found in one mode. Its JSON is a contract: rates are in 0..1, and what does not apply is
// absent.
type ModeReport struct {
	Mode            string   `json:"mode"`
	Answers         int      `json:"answers"`
	Accuracy        *float64 `json:"accuracy,omitempty"`
	AccuracyLow     *float64 `json:"accuracy_low,omitempty"`  // Wilson's interval at 95%
	AccuracyHigh    *float64 `json:"accuracy_high,omitempty"` //
	EscalatedShare  *float64 `json:"escalated_share,omitempty"`
	TokensPerAnswer float64  `json:"tokens_per_answer"`
	Escalations     *float64 `json:"escalations_per_answer,omitempty"`
	Time            Times    `json:"time_per_answer_ms"`
	HiddenShare     *float64 `json:"hidden_share,omitempty"` // of the time that serial decoding would have waited
	HitRate         *float64 `json:"hit_rate,omitempty"`     // of the escalations
	MissedShare     *float64 `json:"missed_share,omitempty"` // of the edge's tokens that the cloud audited: it would have chosen another one
	BytesUp         *float64 `json:"bytes_up_per_escalation,omitempty"`
	BytesDown       *float64 `json:"bytes_down_per_escalation,omitempty"`
	Timeouts        int      `json:"timeouts,omitempty"` // tokens that stayed the small model's for want of an answer
	EqualToSerial   *bool    `json:"equal_to_serial,omitempty"`
}

// Times are milliseconds.
type Times struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
}

// report sums up the answers of one mode.
func report(m Mode, answers []answer) ModeReport {
	r := ModeReport{Mode: m.Name, Answers: len(answers)}
	var times []float64
	tokens, known, correct, escalated, escalations, hits, audited, missed, up, down := 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	var wait, hidden time.Duration
	for _, a := range answers {
		times = append(times, milliseconds(a.took))
		tokens += len(a.ids)
		if a.known {
			known++
		}
		if a.correct {
			correct++
		}
		escalated += a.sum.Cloud + a.sum.Timeouts
		escalations += a.sum.Escalations
		hits += a.sum.Hits
		audited += a.sum.Audited
		missed += a.sum.Missed
		up += a.sum.BytesUp
		down += a.sum.BytesDown
		wait += a.sum.Wait
		hidden += a.sum.Hidden
		r.Timeouts += a.sum.Timeouts
	}
	n := float64(len(answers))
	r.TokensPerAnswer = float64(tokens) / n
	slices.Sort(times)
	r.Time = Times{stat.Mean(times, nil), stat.Quantile(0.5, stat.Empirical, times, nil), stat.Quantile(0.9, stat.Empirical, times, nil)}
	if known > 0 {
		low, high := wilson(correct, known)
		r.Accuracy, r.AccuracyLow, r.AccuracyHigh = ratio(float64(correct), float64(known)), &low, &high
	}
	if m.kind == routed || m.kind == paper {
		r.EscalatedShare = ratio(float64(escalated), float64(tokens))
		r.Escalations = ratio(float64(escalations), n)
		r.BytesUp = ratio(float64(up), float64(escalations))
		r.BytesDown = ratio(float64(down), float64(escalations))
		r.MissedShare = ratio(float64(missed), float64(audited))
		if m.branches > 0 {
			r.HitRate = ratio(float64(hits), float64(escalations))
			r.HiddenShare = ratio(float64(hidden), float64(wait))
		}
	}
	return r
}

// ratio is a/b, absent where there is nothing to divide by.
func ratio(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	q := a / b
	return &q
}

// wilson is the 95% interval of a share of k in n (Wilson 1927).
func wilson(k, n int) (low, high float64) {
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, middle-half), min(1, middle+half)
}
