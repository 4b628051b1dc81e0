package outcome

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Report is the result of one mode. Its JSON format is stable; fields that do not apply are absent.
type Report struct {
	Mode    string `json:"mode"`
	Variant int    `json:"variant,omitempty"` // 1, 2, …: of modes that were measured more than once
	Cell    *Cell  `json:"cell,omitempty"`
	Answers int    `json:"answers"`
	*stats.Accuracy
	Time result.Times `json:"time_per_answer_ms"`
	Shares
	FirstToken *result.Times `json:"first_token_ms,omitempty"`    // until the first token was shown
	Between    *result.Times `json:"between_tokens_ms,omitempty"` // from one token shown to the next
	Sums       draft.Summary `json:"sums"`                        // figures of all answers
	// answers with other tokens or origins than with serial; none is guaranteed if no token timed out, here and there.
	// With verification and no margin: answers with other tokens than those of the large model alone; none is
	// guaranteed if no token is unverified
	Differing *int     `json:"differing,omitempty"`
	Bound     *float64 `json:"bound_ms,omitempty"` // lower bound of the mean time, by arithmetic
	Samples   []Sample `json:"samples,omitempty"`  // one per answer, in the order of the rounds
	// one answer from beginning to end, of the same question in all modes; not for the large model alone
	Waterfall []result.Span `json:"waterfall,omitempty"`

	// decoded again from a recording, in virtual time: what was missing in the recording, of all answers
	Assumed *replay.Assumed `json:"assumed,omitempty"`
}

// Shares are quotients of the sums that other programs read by these names.
type Shares struct {
	TokensPerAnswer float64  `json:"tokens_per_answer"`         // shown, without end tokens
	Escalated       *float64 `json:"escalated_share,omitempty"` // of the tokens, chosen by the large model
	Escalations     *float64 `json:"escalations_per_answer,omitempty"`
	Asks            *float64 `json:"asks_per_answer,omitempty"`
	Hidden          *float64 `json:"hidden_share,omitempty"` // of the time from asks to answers
	HitRate         *float64 `json:"hit_rate,omitempty"`     // of answered escalations
	BytesUp         *float64 `json:"bytes_up_per_escalation,omitempty"`
	BytesDown       *float64 `json:"bytes_down_per_escalation,omitempty"`
	EqualToSerial   *bool    `json:"equal_to_serial,omitempty"` // all tokens and origins
}

// newShares returns the shares of the sums. Of each answer, tokens are shown without an end token.
func (r *Report) newShares(m Mode, tokens int) Shares {
	rates := r.Rates()
	rate := func(name string) *float64 {
		if v, ok := rates[name]; ok {
			return &v
		}
		return nil
	}
	n := float64(max(r.Answers, 1))
	s := Shares{
		TokensPerAnswer: float64(tokens) / n, Escalated: rate("escalated_share"), Asks: rate("asks"),
		Hidden: rate("hidden_share"), HitRate: rate("hit_rate"),
		BytesUp: rate("bytes_up"), BytesDown: rate("bytes_down"),
	}
	if m.Asks() {
		s.Escalations = new(float64(r.Sums.Escalations) / n)
	}
	return s
}

// Rates returns what tables show of the sums, by name; what does not apply is absent.
func (r *Report) Rates() map[string]float64 {
	m, _ := ParseMode(r.Mode)
	all := map[string]float64{}
	add := func(name string, applies bool, part, whole float64) {
		if applies && whole != 0 {
			all[name] = part / whole
		}
	}
	s, n := &r.Sums, float64(r.Answers)
	add("escalated_share", m.Asks(), float64(s.Cloud), float64(s.Tokens))
	add("hidden_share", m.Asks() && m.Pipelined(), float64(s.Hidden), float64(s.Wait))
	add("hit_rate", m.Asks() && m.Pipelined(), float64(s.Hits), float64(s.Answered))
	add("bytes_up", m.Asks(), float64(s.BytesUp), float64(s.Answered))
	add("bytes_down", m.Asks(), float64(s.BytesDown), float64(s.Answered))
	add("asks", m.Asks(), float64(s.Asks), n)
	add("wasted", m.Asks(), float64(s.Wasted), n)
	add("exposed_ms", m.Asks(), result.Rounded(s.Exposed), n)
	add("passes", m.Kind != Cloud, float64(s.Passes), n)
	var used time.Duration
	for i := range r.Samples {
		used += r.Samples[i].CPU
	}
	add("cpu_seconds", used > 0, used.Seconds(), n)
	return all
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
	var times, first, between []time.Duration
	tokens, known, correct := 0, 0, 0
	for i := range answers {
		a := &answers[i]
		tokens += len(a.IDs)
		r.Samples = append(r.Samples, a.toSample())
		r.Sums.Plus(a.Figures)
		times = append(times, a.Took)
		for k, at := range a.Shown {
			if k == 0 {
				first = append(first, at)
			} else {
				between = append(between, at-a.Shown[k-1])
			}
		}
		if a.Known {
			known++
		}
		if a.Correct {
			correct++
		}
	}
	r.Time, r.FirstToken, r.Between = result.Summarise(times), timesOrNil(first), timesOrNil(between)
	r.Shares = r.newShares(m, tokens)
	if known > 0 {
		r.Accuracy = stats.NewAccuracy(correct, known)
	}
	return r
}
