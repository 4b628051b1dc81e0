package outcome

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Sample is one answer of a mode. Times are milliseconds, to a microsecond; fields that do not apply are absent.
type Sample struct {
	Question    int     `json:"question"`   // its number, from 0
	Repetition  int     `json:"repetition"` // from 0
	MS          float64 `json:"ms"`         // until the answer was complete
	FirstToken  float64 `json:"ttft_ms,omitempty"`
	Tokens      int     `json:"tokens"`            // generated, including an end token
	CloudTokens int     `json:"cloud_tokens"`      // of these, the large model's
	Asks        int     `json:"asks"`              // questions sent
	Passes      int     `json:"passes"`            // forward passes of the small model after the prompt
	Correct     *bool   `json:"correct,omitempty"` //
	Exposed     float64 `json:"exposed_ms"`        // lost waiting for answers
	CommitDelay float64 `json:"commit_delay_ms"`   // from drafting a token until it was shown, mean of the tokens
	Wasted      int     `json:"wasted"`            // tokens drafted and discarded
	Up          int     `json:"bytes_up"`          // payload of all questions and of text sent early
	Down        int     `json:"bytes_down"`        //
	CPU         float64 `json:"cpu_ms,omitempty"`  // of this process, with one answer at a time
	Text        string  `json:"text"`              // hash of tokens and origins: equal texts have equal hashes
}

func (a *Answer) toSample(m Mode) Sample {
	t := &a.Tally
	s := Sample{
		Question: a.Question, Repetition: a.Repetition, MS: result.Rounded(a.Took), Tokens: t.Tokens,
		CloudTokens: t.Cloud, Asks: t.Asks, Passes: t.Passes, Exposed: result.Rounded(t.Exposed + t.TimedOut),
		Wasted: t.Wasted, Up: t.BytesUp, Down: t.BytesDown, CPU: result.Rounded(a.CPU),
		Text: a.hashTokens(),
	}
	if m.Kind == Cloud {
		s.CloudTokens = t.Tokens
	}
	if len(a.Shown) > 0 {
		s.FirstToken = result.Rounded(a.Shown[0])
	}
	if a.Known {
		s.Correct = &a.Correct
	}
	if t.Tokens > 0 {
		s.CommitDelay = result.Rounded(t.CommitDelay / time.Duration(t.Tokens))
	}
	return s
}

// hashTokens returns a short hash of tokens and origins: different ones hardly ever collide.
func (a *Answer) hashTokens() string {
	h := fnv.New32a()
	for i, id := range a.IDs {
		_ = binary.Write(h, binary.LittleEndian, id)
		if i < len(a.Origins) {
			h.Write([]byte(a.Origins[i]))
		}
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// Work has the costs of answers in time, network and machine, per answer.
type Work struct {
	FirstToken  *result.Times `json:"first_token_ms,omitempty"`         // until the first token was shown
	Between     *result.Times `json:"between_tokens_ms,omitempty"`      // from one token shown to the next
	Passes      *float64      `json:"passes_per_answer,omitempty"`      // forward passes of the small model
	Hidden      *float64      `json:"hidden_ms_per_answer,omitempty"`   // waits hidden by drafting
	Exposed     *float64      `json:"exposed_ms_per_answer,omitempty"`  // lost waiting, including failed questions
	Wasted      *float64      `json:"wasted_per_answer,omitempty"`      // tokens drafted and discarded
	CommitDelay *float64      `json:"commit_delay_ms,omitempty"`        // from drafting a token to showing it, mean
	Up          *float64      `json:"bytes_up_per_answer,omitempty"`    // payload
	Down        *float64      `json:"bytes_down_per_answer,omitempty"`  //
	CPU         *float64      `json:"cpu_seconds_per_answer,omitempty"` // of this process; with --parallel 1
}

func summarizeWork(m Mode, answers []Answer, all Tally) (w Work) {
	var first, between []time.Duration
	var used time.Duration
	up, down := 0, 0
	for _, a := range answers {
		if len(a.Shown) > 0 {
			first = append(first, a.Shown[0])
		}
		for i := 1; i < len(a.Shown); i++ {
			between = append(between, a.Shown[i]-a.Shown[i-1])
		}
		up, down = up+a.Tally.BytesUp, down+a.Tally.BytesDown
		used += a.CPU
	}
	w.FirstToken, w.Between = timesOrNil(first), timesOrNil(between)
	n := len(answers)
	if used > 0 {
		w.CPU = new(used.Seconds() / float64(n))
	}
	if m.LargeModel() {
		w.Up, w.Down = ratioOrNil(up, n), ratioOrNil(down, n)
	}
	if m.Kind != Cloud {
		w.Passes = ratioOrNil(all.Passes, n)
	}
	if m.Asks() {
		w.Hidden = new(result.Rounded(all.Hidden) / float64(n))
		w.Exposed = new(result.Rounded(all.Exposed+all.TimedOut) / float64(n))
		w.Wasted = ratioOrNil(all.Wasted, n)
		if all.Tokens > 0 {
			w.CommitDelay = new(result.Rounded(all.CommitDelay) / float64(all.Tokens))
		}
	}
	return w
}

// timesOrNil summarizes durations; nil if there are none.
func timesOrNil(all []time.Duration) *result.Times {
	if len(all) == 0 {
		return nil
	}
	return new(result.Summarise(all))
}
