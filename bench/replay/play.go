package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
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
	Heads   int `json:"heads"`   // of the small model, taken from elsewhere
	Answers int `json:"answers"` // of the large model, replaced by the small model's choice
	Text    int `json:"text"`    // shown tokens that rest on these
}

// Plus adds other counts.
func (a *Assumed) Plus(o Assumed) {
	a.Heads += o.Heads
	a.Answers += o.Answers
	a.Text += o.Text
}

// Of identifies an answer to replay.
type Of struct {
	Mode     string
	Question int
	Take     int
	Part     float64 // position in the traces at the beginning, as a share of their length, in [0, 1)
}

// Text is one answer being replayed. Only goroutines of one [simclock.Clock] may use it.
type Text struct {
	p      *Player
	of     Of
	terms  Terms
	clock  *simclock.Clock
	began  time.Time
	link   *simulatedLink // nil: the recorded link
	served [][]int32      // texts that the large model has computed
	begun  [][]int32      // texts that it has read or is reading
	busy   time.Duration  // when it will have read them
	Assumed
	assumed map[uint64]bool // texts with an assumed head, or an assumed choice of the large model, after them
}

// Text begins an answer, at the current time of clock.
func (p *Player) Text(of Of, terms Terms, clock *simclock.Clock) *Text {
	t := &Text{p: p, of: of, terms: terms, clock: clock, began: clock.Now(), assumed: map[uint64]bool{}}
	if terms.Link != nil {
		t.link = newSimulatedLink(*terms.Link, of)
	}
	return t
}

// Shown counts the tokens shown after the prompt that rest on assumptions.
func (t *Text) Shown(prompt []int32, tokens []draft.Token) {
	text := hashTokens(prompt)
	for _, token := range tokens {
		if t.assumed[text] {
			t.Assumed.Text++
		}
		text = extendHash(text, token.ID)
	}
}

// Model is the small model.
func (t *Text) Model() draft.Model { return &replayModel{t: t, nodes: map[draft.ID]uint64{}} }

// replayModel is the small model of a recording.
type replayModel struct {
	t       *Text
	settled uint64 // the settled text
	length  int    // of the settled text, in tokens
	nodes   map[draft.ID]uint64
	out     []backend.Output
}

func (m *replayModel) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	t := m.t
	m.settled, m.length = hashTokens(prompt), len(prompt)
	mode := t.of.Mode
	if t.terms.EdgeTPS > 0 {
		mode = LocalMode // on a computer of its own
	}
	if !t.sleepFor(ctx, t.p.prefillTime(mode, t.of.Question)) {
		return backend.Output{}, context.Cause(ctx)
	}
	return m.outputAfter(m.settled), nil
}

func (m *replayModel) outputAfter(text uint64) backend.Output {
	t := m.t
	h, known := t.p.findHead(t.of.Question, text, t.terms.Sure)
	if !known {
		t.Heads++
		t.assumed[text] = true
	}
	return h.toOutput()
}

func (m *replayModel) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	m.out = m.out[:0]
	for _, n := range nodes {
		if n.Pos >= m.t.p.Context {
			return nil, fmt.Errorf("position %d lies beyond the context of %d tokens", n.Pos, m.t.p.Context)
		}
		before := m.settled
		if len(n.Path) > 0 {
			before = m.nodes[n.Path[len(n.Path)-1]]
		}
		m.nodes[n.ID] = extendHash(before, n.Token)
		m.out = append(m.out, m.outputAfter(m.nodes[n.ID]))
	}
	m.t.sleepFor(ctx, m.t.passTime(len(nodes)))
	return m.out, nil
}

func (t *Text) passTime(rows int) time.Duration {
	if t.terms.EdgeTPS > 0 {
		return time.Duration(float64(time.Second) / t.terms.EdgeTPS * (1 + t.terms.RowCost*float64(rows-1)))
	}
	return t.p.callTime(t.of.Mode, rows)
}

func (m *replayModel) Settle(path ...draft.ID) {
	for _, id := range path {
		m.settled = m.nodes[id]
		m.length++
		delete(m.nodes, id)
	}
}

func (m *replayModel) Drop(nodes ...draft.ID) {
	for _, id := range nodes {
		delete(m.nodes, id)
	}
}

func (m *replayModel) Room() int { return m.t.p.Context - m.length - len(m.nodes) }
