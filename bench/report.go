package bench

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
)

// ModeReport is what [Routing] found in one mode. Its JSON is a contract: rates are in 0..1, and what does not apply is
// absent. Hidden share, hit rate and bytes are of answered escalations, and absent where no answer came.
type ModeReport struct {
	Mode            string   `json:"mode"`
	Answers         int      `json:"answers"`
	Accuracy        *float64 `json:"accuracy,omitempty"`
	AccuracyLow     *float64 `json:"accuracy_low,omitempty"`    // Wilson's interval at 95%
	AccuracyHigh    *float64 `json:"accuracy_high,omitempty"`   //
	EscalatedShare  *float64 `json:"escalated_share,omitempty"` // of the generated tokens, end tokens included: the large model's
	TokensPerAnswer float64  `json:"tokens_per_answer"`         // shown, without end tokens
	Escalations     *float64 `json:"escalations_per_answer,omitempty"`
	Asks            *float64 `json:"asks_per_answer,omitempty"` // sent: escalations, and asks dropped since a draft did not hold
	Timeouts        *int     `json:"timeouts,omitempty"`        // tokens of all answers that stayed the small model's since no answer came in time
	Time            Times    `json:"time_per_answer_ms"`
	HiddenShare     *float64 `json:"hidden_share,omitempty"` // of the time from ask to answer
	HitRate         *float64 `json:"hit_rate,omitempty"`
	MissedShare     *float64 `json:"missed_share,omitempty"`              // of the edge's tokens that the cloud audited: it would have chosen another one
	BytesUp         *float64 `json:"bytes_up_per_escalation,omitempty"`   // payload, dropped asks and text sent ahead included
	BytesDown       *float64 `json:"bytes_down_per_escalation,omitempty"` // alike
	EqualToSerial   *bool    `json:"equal_to_serial,omitempty"`           // all tokens and origins; promised where no token timed out, here and in serial
	Differing       *int     `json:"answers_differing_from_serial,omitempty"`
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
	var all Tally
	tokens, known, correct := 0, 0, 0
	for _, a := range answers {
		times = append(times, milliseconds(a.took))
		tokens += len(a.ids)
		if a.known {
			known++
		}
		if a.correct {
			correct++
		}
		all.plus(a.tally)
	}
	r.TokensPerAnswer = float64(tokens) / float64(len(answers))
	slices.Sort(times)
	r.Time = Times{stat.Mean(times, nil), stat.Quantile(0.5, stat.Empirical, times, nil), stat.Quantile(0.9, stat.Empirical, times, nil)}
	if known > 0 {
		w := stats.Wilson(correct, known)
		r.Accuracy, r.AccuracyLow, r.AccuracyHigh = &w.Value, &w.Low, &w.High
	}
	if m.Routes() {
		r.addRouting(m, all)
	}
	return r
}

// addRouting sets what there is to say of a mode that asks for single tokens.
func (r *ModeReport) addRouting(m Mode, t Tally) {
	r.EscalatedShare = ratio(t.Cloud, t.Tokens)
	r.Escalations = ratio(t.Escalations, r.Answers)
	r.Asks = ratio(t.Asks, r.Answers)
	r.Timeouts = &t.Timeouts
	r.BytesUp = ratio(t.Up, t.Answered)
	r.BytesDown = ratio(t.Down, t.Answered)
	r.MissedShare = ratio(t.MissedFor, t.AuditedFor)
	if m.Pipelined() {
		r.HitRate = ratio(t.Hits, t.Answered)
		r.HiddenShare = ratio(t.Hidden, t.Wait)
	}
}

// ratio is a/b, absent where there is nothing to divide by.
func ratio[T ~int | ~int64](a, b T) *float64 {
	if b == 0 {
		return nil
	}
	q := float64(a) / float64(b)
	return &q
}
