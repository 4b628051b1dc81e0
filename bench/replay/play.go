package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Terms are the conditions that differ from those of the recording. The zero value changes nothing.
type Terms struct {
	Link    *Link   // nil: the recorded link
	EdgeTPS float64 // forward passes of one row per second; 0: the recorded times
	RowCost float64 // with EdgeTPS: additional time of each further row, as a share of a pass
	Sure    bool    // the router uses the recorded confidences
	// time of the large model for the token of an answer; nil: the recorded times. With another link it is the time of
	// a separate server: it reads new tokens at the pace at which it read prompts alone, if that was recorded.
	CloudPace *time.Duration
}

// Assumed counts what was missing in a recording.
type Assumed struct {
	Heads       int `json:"heads"`        // of the small model, taken from elsewhere
	Answers     int `json:"answers"`      // of the large model, replaced by the small model's choice
	CallTimes   int `json:"call_times"`   // of forward passes, taken from others
	AskTimes    int `json:"ask_times"`    // of asks, taken from others
	TextHeads   int `json:"text_heads"`   // of Heads, those that determined a shown token
	TextAnswers int `json:"text_answers"` // of Answers, those that determined a shown token
}

// Plus adds other counts.
func (a *Assumed) Plus(o Assumed) {
	a.Heads += o.Heads
	a.Answers += o.Answers
	a.CallTimes += o.CallTimes
	a.AskTimes += o.AskTimes
	a.TextHeads += o.TextHeads
	a.TextAnswers += o.TextAnswers
}

// Of identifies an answer to replay.
type Of struct {
	Mode     string
	Question int
	Take     int
	WarmUp   *Answer // the recorded answer, for an answer of the warm-up
	Part     float64 // position in the traces at the beginning, as a share of their length, in [0, 1)
}

// Text is one answer being replayed. Only goroutines of one [simclock.Clock] may use it.
type Text struct {
	p      *Player
	of     Of
	terms  Terms
	clock  *simclock.Clock
	began  time.Time
	from   *Answer       // the same answer in the recording; nil: there is none
	pipe   *pipe         // nil: the recorded link
	last   *Call         // that was made
	work   time.Duration // when the program's own work began: the end of the last call or wait
	served [][]int32     // texts that the large model has computed
	begun  [][]int32     // those, and texts that it is reading
	busy   time.Duration // when it will have read them
	Assumed
	strange map[uint64]bool // texts with assumed heads
	guessed map[uint64]bool // texts with an assumed choice of the large model after them
}

// Text begins an answer, at the current time of clock.
func (p *Player) Text(of Of, terms Terms, clock *simclock.Clock) (*Text, error) {
	t := &Text{
		p: p, of: of, terms: terms, clock: clock, began: clock.Now(), strange: map[uint64]bool{},
		guessed: map[uint64]bool{},
	}
	if found := p.Found(of.Mode, of.Question); of.WarmUp != nil {
		t.from = of.WarmUp
	} else if of.Take < len(found) {
		t.from = found[of.Take]
	}
	if terms.Link == nil {
		return t, nil
	}
	o := terms.Link.Options
	if o.RTT != nil {
		o.TraceStart = time.Duration(of.Part * float64(o.RTT.Length()))
	} else if c := o.Up.Capacity; c != nil {
		o.TraceStart = time.Duration(of.Part * float64(c.Length()))
	} else if c := o.Down.Capacity; c != nil {
		o.TraceStart = time.Duration(of.Part * float64(c.Length()))
	}
	up, down, err := link.Ways(o)
	if err != nil {
		return nil, err
	}
	moved := *terms.Link
	moved.Options = o
	moved.Seed = seedOf(moved.Seed, of)
	t.pipe = &pipe{Link: &moved, up: up, down: down}
	return t, nil
}

// seedOf returns the seed of the losses of an answer: the same in all modes.
func seedOf(seed uint64, of Of) uint64 {
	return router.Draw(router.Draw(seed, uint64(of.Question)), uint64(of.Take))
}

// Lead waits for the recorded time before the evaluation of the prompt.
func (t *Text) Lead(ctx context.Context) {
	d := t.p.own.lead
	if t.from != nil {
		d = t.from.Lead
	}
	t.rest(ctx, d)
}

// Tail waits for the recorded time after the last call or answer.
func (t *Text) Tail(ctx context.Context) {
	d := t.p.own.tail
	if t.from != nil {
		d = t.from.Tail
	}
	t.rest(ctx, d)
}

// Shown counts the assumptions about the tokens shown after the prompt. With verification, the small model's tokens
// also depend on choices of the large one.
func (t *Text) Shown(prompt []int32, tokens []draft.Token, verified bool) {
	text := hashOf(prompt)
	for _, token := range tokens {
		if t.strange[text] {
			t.TextHeads++
		}
		if t.guessed[text] && (token.Origin == draft.FromCloud || verified && !token.Unverified) {
			t.TextAnswers++
		}
		text = then(text, token.ID)
	}
}

// Model is the small model.
func (t *Text) Model() draft.Model { return &model{t: t, nodes: map[draft.ID]uint64{}} }

// model is the small model of a recording.
type model struct {
	t       *Text
	settled uint64 // the settled text
	length  int    // of the settled text, in tokens
	nodes   map[draft.ID]uint64
	out     []backend.Output
}

// Prefill implements [draft.Model].
func (m *model) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	t := m.t
	m.settled, m.length = hashOf(prompt), len(prompt)
	if !t.rest(ctx, t.prefill()) {
		return backend.Output{}, context.Cause(ctx)
	}
	t.work = t.passed()
	return m.head(m.settled, m.length-1), nil
}

// prefill returns how long the small model evaluates the prompt.
func (t *Text) prefill() time.Duration {
	if t.from != nil && t.terms.EdgeTPS == 0 {
		return t.from.Prefill
	}
	return t.p.prefill(t.of.Question)
}

// head returns the output after a text with its last token at a position.
func (m *model) head(text uint64, pos int) backend.Output {
	t := m.t
	h, known := t.p.head(t.of.Question, pos, text, t.terms.Sure)
	if !known {
		t.Heads++
		t.strange[text] = true
	}
	return h.output()
}

// Extend implements [draft.Model].
func (m *model) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	texts := make([]uint64, len(nodes))
	m.out = m.out[:0]
	for i, n := range nodes {
		if n.Pos >= m.t.p.Context {
			return nil, fmt.Errorf("position %d lies beyond the context of %d tokens", n.Pos, m.t.p.Context)
		}
		before := m.settled
		if len(n.Path) > 0 {
			before = m.nodes[n.Path[len(n.Path)-1]]
		}
		texts[i] = then(before, n.Token)
		m.nodes[n.ID] = texts[i]
		m.out = append(m.out, m.head(texts[i], n.Pos))
	}
	t := m.t
	c := t.call(texts)
	t.rest(ctx, c.Own+c.Took)
	t.last, t.work = c, t.passed()
	return m.out, nil
}

// call returns the recorded forward pass of texts, or another one, or with a pace what follows from that.
func (t *Text) call(texts []uint64) *Call {
	rows := len(texts)
	if t.terms.EdgeTPS > 0 {
		return &Call{Took: time.Duration(float64(time.Second) / t.terms.EdgeTPS *
			(1 + t.terms.RowCost*float64(rows-1)))}
	}
	key := callKey(rows, func(i int) uint64 { return texts[i] })
	if t.from != nil {
		if c := t.from.calls[key]; c != nil {
			return c
		}
	}
	t.CallTimes++
	return t.p.call(t.of.Mode, rows, key)
}

// Observe must be called with the events of the decoder, with [draft.Options.Trace], when they occur. It waits for the
// recorded time of the program's own work after a call.
func (t *Text) Observe(ctx context.Context, e draft.Event) {
	switch {
	case e.Pass != nil:
		t.rest(ctx, t.last.After)
	case e.Waited != nil:
		t.work = t.passed()
	}
}

// Settle implements [draft.Model].
func (m *model) Settle(path ...draft.ID) {
	for _, id := range path {
		m.settled = m.nodes[id]
		m.length++
		delete(m.nodes, id)
	}
}

// Drop implements [draft.Model].
func (m *model) Drop(nodes ...draft.ID) {
	for _, id := range nodes {
		delete(m.nodes, id)
	}
}

// Room implements [draft.Model].
func (m *model) Room() int { return m.t.p.Context - m.length - len(m.nodes) }
