package outcome

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Report is the result of one mode. Its JSON format is stable: rates are in 0..1, and fields that do not apply are
// absent. Hidden share, hit rate and bytes are of answered escalations, and absent if there were none.
type Report struct {
	Mode         string   `json:"mode"`
	Variant      int      `json:"variant,omitempty"` // 1, 2, …: distinguishes modes that were measured more than once
	Cell         *Cell    `json:"cell,omitempty"`
	Answers      int      `json:"answers"`
	Accuracy     *float64 `json:"accuracy,omitempty"`
	AccuracyLow  *float64 `json:"accuracy_low,omitempty"`  // Wilson's interval at 95%
	AccuracyHigh *float64 `json:"accuracy_high,omitempty"` //
	// share of the generated tokens, including end tokens, that the large model chose
	EscalatedShare  *float64 `json:"escalated_share,omitempty"`
	TokensPerAnswer float64  `json:"tokens_per_answer"` // shown, without end tokens
	Escalations     *float64 `json:"escalations_per_answer,omitempty"`
	// questions sent: escalations, and asks dropped because a draft was wrong
	Asks *float64 `json:"asks_per_answer,omitempty"`
	// tokens of all answers that the small model chose because no answer came in time
	Timeouts    *int         `json:"timeouts,omitempty"`
	Time        result.Times `json:"time_per_answer_ms"`
	HiddenShare *float64     `json:"hidden_share,omitempty"` // of the time from ask to answer
	HitRate     *float64     `json:"hit_rate,omitempty"`
	// payload, including dropped asks and text sent early
	BytesUp   *float64 `json:"bytes_up_per_escalation,omitempty"`
	BytesDown *float64 `json:"bytes_down_per_escalation,omitempty"` // as BytesUp
	Warmed    *float64 `json:"warmed_per_answer,omitempty"`         // tokens of the prompt that were sent early
	// all tokens and origins; guaranteed if no token timed out, here and in serial
	EqualToSerial *bool `json:"equal_to_serial,omitempty"`
	Differing     *int  `json:"answers_differing_from_serial,omitempty"`

	// With verification and no margin: the tokens of all answers are those of the large model alone; guaranteed if no
	// token is unverified.
	EqualToCloud       *bool `json:"equal_to_cloud,omitempty"`
	DifferingFromCloud *int  `json:"answers_differing_from_cloud,omitempty"`
	// escalations that needed no ask, because an earlier answer included the token
	Known *float64 `json:"known_per_answer,omitempty"`
	// the small model's tokens that verification replaced before they were shown
	Turned *float64 `json:"turned_per_answer,omitempty"`
	// tokens of all answers that were shown without verification, because no answer came in time
	Unverified  *int         `json:"unverified,omitempty"`
	CloudTokens *CloudTokens `json:"cloud_tokens_per_answer,omitempty"`
	Work
	Bound   *float64 `json:"bound_ms,omitempty"` // lower bound of the mean time, see [setLowerBounds]
	Samples []Sample `json:"samples,omitempty"`  // one per answer, in the order of the rounds
	// one answer from beginning to end, of the same question in all modes; not for the large model alone
	Waterfall []result.Span `json:"waterfall,omitempty"`

	// decoded again from a recording, in virtual time: what was missing in the recording, of all answers
	Assumed *replay.Assumed `json:"assumed,omitempty"`
}

// CloudTokens are the tokens that the large model computed, per answer. In the mode cloud it prefills the prompt and
// decodes the text, including its end token; in the mode paper its server has no cache, so that each ask prefills the
// whole text.
type CloudTokens struct {
	Prefilled float64 `json:"prefilled"`  // of prompt and text, unless they were cached
	Decoded   float64 `json:"decoded"`    // requested, including dropped asks
	Ahead     float64 `json:"ahead"`      // decoded in addition, ahead
	AheadUsed float64 `json:"ahead_used"` // of these, used to answer a question or to verify a token
}

// ReportOptions are the other inputs of [Reports].
type ReportOptions struct {
	Cell    *Cell         // of all modes
	Alone   []Answer      // the large model's own answers, by question, if no mode has them; nil: unknown
	Verdict time.Duration // wait for the verification of the last token: a round trip and a token of the large model
}

// Reports summarizes the answers of modes that were measured together.
func Reports(modes []Mode, answers [][]Answer, o ReportOptions) (all []Report) {
	for i, m := range modes {
		r := newReport(m, answers[i])
		r.Variant, r.Cell, r.Waterfall = variantNumber(modes, i), o.Cell, chooseWaterfall(modes, answers, i)
		all = append(all, r)
	}
	compareAnswers(all, modes, answers, o.Alone)
	setLowerBounds(all, o.Verdict)
	return all
}

// variantNumber numbers modes that are measured more than once: 1, 2, …; 0 for others.
func variantNumber(modes []Mode, i int) int {
	before, all := 0, 0
	for k, m := range modes {
		if m != modes[i] {
			continue
		}
		all++
		if k <= i {
			before++
		}
	}
	if all == 1 {
		return 0
	}
	return before
}

func newReport(m Mode, answers []Answer) Report {
	r := Report{Mode: m.Name, Answers: len(answers)}
	var times []time.Duration
	var all Tally
	tokens, known, correct := 0, 0, 0
	for _, a := range answers {
		times = append(times, a.Took)
		r.Samples = append(r.Samples, a.toSample(m))
		tokens += len(a.IDs)
		if a.Known {
			known++
		}
		if a.Correct {
			correct++
		}
		all.addTally(a.Tally)
	}
	r.TokensPerAnswer = float64(tokens) / float64(len(answers))
	r.Time = result.Summarise(times)
	r.Work = summarizeWork(m, answers, all)
	if known > 0 {
		w := stats.Wilson(correct, known)
		r.Accuracy, r.AccuracyLow, r.AccuracyHigh = &w.Value, &w.Low, &w.High
	}
	if m.Asks() {
		r.addRouting(m, all)
	}
	if m.LargeModel() {
		n := float64(r.Answers)
		r.CloudTokens = &CloudTokens{float64(all.Prefilled) / n, float64(all.Decoded) / n, float64(all.Ahead) / n,
			float64(all.AheadUsed) / n}
	}
	return r
}

func (r *Report) addRouting(m Mode, t Tally) {
	r.EscalatedShare = ratioOrNil(t.Cloud, t.Tokens)
	r.Escalations = ratioOrNil(t.Escalations, r.Answers)
	r.Asks = ratioOrNil(t.Asks, r.Answers)
	r.Timeouts = &t.Timeouts
	r.BytesUp = ratioOrNil(t.Up, t.Answered)
	r.BytesDown = ratioOrNil(t.Down, t.Answered)
	if m.OverLink() {
		r.Known, r.Warmed = ratioOrNil(t.Known, r.Answers), ratioOrNil(t.Warmed, r.Answers)
	}
	if m.Verifies() {
		r.Turned, r.Unverified = ratioOrNil(t.Turned, r.Answers), &t.Unverified
	}
	if m.Pipelined() {
		r.HitRate = ratioOrNil(t.Hits, t.Answered)
		r.HiddenShare = ratioOrNil(t.Hidden, t.Wait)
	}
}

func ratioOrNil[T ~int | ~int64](a, b T) *float64 {
	if b == 0 {
		return nil
	}
	q := float64(a) / float64(b)
	return &q
}
