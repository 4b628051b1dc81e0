package bench

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/price"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Tally counts what answers cost, from the stream of events. How often a guess was right, how much waiting was hidden
// and how many bytes an answer took is counted of answered escalations alone: where no answer came, nothing was won.
type Tally struct {
	Tokens      int           // generated, end tokens included
	Cloud       int           // of these, chosen by the large model
	Timeouts    int           // of these, the small model's since no answer came before the deadline, or the ask failed
	Escalations int           // questions that the text passed, answered or not
	Asks        int           // questions sent: also those that were dropped since a draft did not hold
	Answered    int           // escalations that were answered in time
	Hits        int           // of these, the large model's token was already on a branch
	Wait        time.Duration // of these, from ask to answer
	Hidden      time.Duration // of Wait, spent on drafting that held
	Exposed     time.Duration // lost waiting for answers, known ones too, and for what verification replaced
	TimedOut    time.Duration // lost waiting for answers that did not come
	Delay       time.Duration // sum over Tokens, from when each was drafted until it was shown
	Drafted     int           // tokens evaluated below open escalations
	Wasted      int           // tokens evaluated in vain, besides guesses from the text
	Up, Down    int           // payload bytes of these, of dropped asks and of text sent early
	Audited     int           // tokens of the small model that the large one compared with its own choice
	Missed      int           // of these, those where it would have chosen another
	AuditedFor  int           // tokens that the Audited stand for: more where some were drawn at random
	MissedFor   int           // and the Missed
	Known       int           // escalations of Escalations that needed no ask, since another answer told
	Turned      int           // tokens of the small model that verification replaced before they were shown
	Unverified  int           // tokens that were to be verified, and were shown without
	Prefilled   int           // tokens that the large model read: for asks, dropped ones too, and for text sent early
	Decoded     int           // tokens that it was asked for, dropped asks included
	Ahead       int           // tokens beyond these that it decoded on by itself
	AheadUsed   int           // of Ahead, those that answered a question or verified a token
	Passes      int           // forward calls of the small model after the prompt
	Warmed      int           // tokens of prompts that were sent early
	// of Warmed, those of answers that asked nothing then: not of one event, but of an answer that is complete
	WarmedInVain int
}

// work is what the large model did, for a price list.
func (t *Tally) work() price.Work {
	return price.Work{Prefilled: t.Prefilled, Decoded: t.Decoded, Ahead: t.Ahead}
}

// Add counts an event.
func (t *Tally) Add(e draft.Event) {
	var one draft.Summary
	one.Add(e)
	t.plus(Tally{
		Tokens: one.Tokens, Cloud: one.Cloud, Timeouts: one.Timeouts, Escalations: one.Escalations, Asks: one.Asks,
		Audited: one.Audited, Missed: one.Missed, AuditedFor: one.AuditedFor, MissedFor: one.MissedFor,
		Known: one.Known, Turned: one.Turned, Unverified: one.Unverified,
		Prefilled: one.Prefilled, Decoded: one.Decoded, Ahead: one.Ahead, AheadUsed: one.AheadUsed,
		Passes: one.Passes, Warmed: one.Warmed, Exposed: one.Exposed, TimedOut: one.TimedOut,
		Delay: one.CommitDelay, Drafted: one.Drafted, Wasted: one.Wasted,
	})
	if w := e.Warming; w != nil {
		t.plus(Tally{Up: w.BytesUp, Down: w.BytesDown})
	}
	if q := e.Escalation; q != nil {
		t.plus(answeredPart(q))
	}
}

// answeredPart is what an escalation adds to the counts of answered ones.
func answeredPart(q *draft.Escalation) Tally {
	switch q.Outcome {
	case draft.Hit:
		return Tally{Answered: 1, Hits: 1, Wait: q.Wait, Hidden: q.Hidden, Up: q.BytesUp, Down: q.BytesDown}
	case draft.Miss:
		return Tally{Answered: 1, Wait: q.Wait, Hidden: q.Hidden, Up: q.BytesUp, Down: q.BytesDown}
	case draft.Dropped: // the price of asking on guesses
		return Tally{Up: q.BytesUp, Down: q.BytesDown}
	}
	return Tally{}
}

// plus adds another tally.
func (t *Tally) plus(o Tally) {
	t.Tokens += o.Tokens
	t.Cloud += o.Cloud
	t.Timeouts += o.Timeouts
	t.Escalations += o.Escalations
	t.Asks += o.Asks
	t.Answered += o.Answered
	t.Hits += o.Hits
	t.Wait += o.Wait
	t.Hidden += o.Hidden
	t.Exposed += o.Exposed
	t.TimedOut += o.TimedOut
	t.Delay += o.Delay
	t.Drafted += o.Drafted
	t.Wasted += o.Wasted
	t.Up += o.Up
	t.Down += o.Down
	t.Audited += o.Audited
	t.Missed += o.Missed
	t.AuditedFor += o.AuditedFor
	t.MissedFor += o.MissedFor
	t.Known += o.Known
	t.Turned += o.Turned
	t.Unverified += o.Unverified
	t.Prefilled += o.Prefilled
	t.Decoded += o.Decoded
	t.Ahead += o.Ahead
	t.AheadUsed += o.AheadUsed
	t.Passes += o.Passes
	t.Warmed += o.Warmed
	t.WarmedInVain += o.WarmedInVain
}
