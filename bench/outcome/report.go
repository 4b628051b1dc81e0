package outcome

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/price"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Report is what was found in one mode. Its JSON is a contract: rates are in 0..1, and what does not apply is
// absent. Hidden share, hit rate and bytes are of answered escalations, and absent where no answer came.
type Report struct {
	Mode         string   `json:"mode"`
	Variant      int      `json:"variant,omitempty"` // 1, 2, …: tells modes apart that were measured more than once
	Cell         *Cell    `json:"cell,omitempty"`
	Answers      int      `json:"answers"`
	Accuracy     *float64 `json:"accuracy,omitempty"`
	AccuracyLow  *float64 `json:"accuracy_low,omitempty"`  // Wilson's interval at 95%
	AccuracyHigh *float64 `json:"accuracy_high,omitempty"` //
	// of the generated tokens, end tokens included: the large model's
	EscalatedShare  *float64 `json:"escalated_share,omitempty"`
	TokensPerAnswer float64  `json:"tokens_per_answer"` // shown, without end tokens
	Escalations     *float64 `json:"escalations_per_answer,omitempty"`
	// sent: escalations, and asks dropped since a draft did not hold
	Asks *float64 `json:"asks_per_answer,omitempty"`
	// tokens of all answers that stayed the small model's since no answer came in time
	Timeouts    *int         `json:"timeouts,omitempty"`
	Time        result.Times `json:"time_per_answer_ms"`
	HiddenShare *float64     `json:"hidden_share,omitempty"` // of the time from ask to answer
	HitRate     *float64     `json:"hit_rate,omitempty"`
	// of the edge's tokens that the cloud audited: it would have chosen another one
	MissedShare *float64 `json:"missed_share,omitempty"`
	// payload, dropped asks and text sent early included
	BytesUp      *float64 `json:"bytes_up_per_escalation,omitempty"`
	BytesDown    *float64 `json:"bytes_down_per_escalation,omitempty"` // alike
	Warmed       *float64 `json:"warmed_per_answer,omitempty"`         // tokens of the prompt that were sent early
	WarmedInVain *float64 `json:"warmed_in_vain_per_answer,omitempty"` // of these, for answers that asked nothing
	// all tokens and origins; promised where no token timed out, here and in serial
	EqualToSerial *bool `json:"equal_to_serial,omitempty"`
	Differing     *int  `json:"answers_differing_from_serial,omitempty"`

	// With verification and no margin: the tokens of all answers are those of the large model alone; promised where no
	// token is unverified.
	EqualToCloud       *bool `json:"equal_to_cloud,omitempty"`
	DifferingFromCloud *int  `json:"answers_differing_from_cloud,omitempty"`
	// escalations that needed no ask, since another answer told
	Known *float64 `json:"known_per_answer,omitempty"`
	// the small model's tokens that verification replaced before they were shown
	Turned *float64 `json:"turned_per_answer,omitempty"`
	// tokens of all answers that were shown without verification, since no answer came in time
	Unverified  *int         `json:"unverified,omitempty"`
	CloudTokens *CloudTokens `json:"cloud_tokens_per_answer,omitempty"`
	Cost        *price.Cost  `json:"cost,omitempty"` // with a price list
	Work
	RatioTo *Ratio   `json:"ratio_to,omitempty"` // of the time per answer
	Bound   *float64 `json:"bound_ms,omitempty"` // least mean time by arithmetic, see [bound]
	Samples []Sample `json:"samples,omitempty"`  // one of each answer, in the order of the rounds
	// one answer from its beginning to its end, of the same question in all modes; not of the large model alone
	Waterfall []result.Span `json:"waterfall,omitempty"`

	Replayed bool            `json:"replayed,omitempty"` // decoded again from a recording, in virtual time
	Assumed  *replay.Assumed `json:"assumed,omitempty"`  // what the recording did not have, of all answers
	// replayed answers that the recording does not say of whether they are right
	Ungraded int `json:"ungraded,omitempty"`
}

// CloudTokens are the tokens that the large model computed, per answer. In the mode cloud it prefills the prompt and
// decodes the text, its end token included; in the mode paper its server has no memory, so that each ask prefills the
// whole text.
type CloudTokens struct {
	Prefilled float64 `json:"prefilled"`  // of prompt and text, as far as it had not computed them before
	Decoded   float64 `json:"decoded"`    // asked for, dropped asks included
	Ahead     float64 `json:"ahead"`      // decoded beyond these, on its own
	AheadUsed float64 `json:"ahead_used"` // of these, those that answered a question or verified a token
}

// ReportOptions are what [Reports] needs besides the answers.
type ReportOptions struct {
	Cell    func(Mode) *Cell // where a mode was measured
	Prices  *price.List      // of the large model's work; nil: costs are not reported
	Alone   []Answer         // what the large model alone says, by question, where no mode is that; nil: unknown
	Verdict time.Duration    // wait for a verdict on the last token: a round trip and a token of the large model
}

// Reports sums up the answers of modes that were measured together.
func Reports(modes []Mode, answers [][]Answer, o ReportOptions) (all []Report) {
	for i, m := range modes {
		r := report(m, answers[i], o.Prices)
		r.Variant, r.Cell, r.Waterfall = variant(modes, i), o.Cell(m), pictureOf(modes, answers, i)
		all = append(all, r)
	}
	compare(all, modes, answers, o.Alone)
	bound(all, o.Verdict)
	ratios(all)
	return all
}

// variant tells modes apart that are measured more than once: 1, 2, …; 0 for others.
func variant(modes []Mode, i int) int {
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

// report sums up the answers of one mode. prices may be nil.
func report(m Mode, answers []Answer, prices *price.List) Report {
	r := Report{Mode: m.Name, Answers: len(answers)}
	var times []time.Duration
	var all Tally
	var alone price.Work
	tokens, known, correct, inVain := 0, 0, 0, 0
	for _, a := range answers {
		times = append(times, a.Took)
		r.Samples = append(r.Samples, a.sample(m))
		tokens += len(a.IDs)
		if a.Known {
			known++
		}
		if a.Correct {
			correct++
		}
		all.plus(a.Tally)
		inVain += a.Tally.WarmedInVain()
		alone = alone.Plus(price.Alone(a.Prompt, a.Tally.Tokens))
	}
	r.TokensPerAnswer = float64(tokens) / float64(len(answers))
	r.Time = result.Summarise(times)
	r.Work = work(m, answers, all)
	if known > 0 {
		w := stats.Wilson(correct, known)
		r.Accuracy, r.AccuracyLow, r.AccuracyHigh = &w.Value, &w.Low, &w.High
	}
	if m.Asks() {
		r.addRouting(m, all, inVain)
	}
	if m.LargeModel() {
		n := float64(r.Answers)
		r.CloudTokens = &CloudTokens{float64(all.Prefilled) / n, float64(all.Decoded) / n, float64(all.Ahead) / n,
			float64(all.AheadUsed) / n}
		if prices != nil {
			r.Cost = prices.Answers(r.Answers, all.work(), alone)
		}
	}
	return r
}

// addRouting sets what there is to say of a mode that asks for single tokens. inVain are prompt tokens that were sent
// early for answers that then asked nothing.
func (r *Report) addRouting(m Mode, t Tally, inVain int) {
	r.EscalatedShare = ratio(t.Cloud, t.Tokens)
	r.Escalations = ratio(t.Escalations, r.Answers)
	r.Asks = ratio(t.Asks, r.Answers)
	r.Timeouts = &t.Timeouts
	r.BytesUp = ratio(t.Up, t.Answered)
	r.BytesDown = ratio(t.Down, t.Answered)
	r.MissedShare = ratio(t.MissedFor, t.AuditedFor)
	if m.OverLink() {
		r.Known = ratio(t.Known, r.Answers)
		r.Warmed, r.WarmedInVain = ratio(t.Warmed, r.Answers), ratio(inVain, r.Answers)
	}
	if m.Verifies() {
		r.Turned, r.Unverified = ratio(t.Turned, r.Answers), &t.Unverified
	}
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
