package outcome

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// MaxPictured is the number of questions, from the first on, with answers kept as spans; one of them is shown.
const MaxPictured = 16

// waterfall is one answer as spans, from the events of its decoding with [draft.Options.Trace].
type waterfall []result.Span

func (w *waterfall) addEvent(e draft.Event) {
	add := func(begin, took time.Duration, s result.Span) {
		s.Start, s.End = result.Rounded(begin), result.Rounded(begin+max(took, 0))
		*w = append(*w, s)
	}
	if p := e.Prompt; p != nil {
		add(p.Began, p.Took, result.Span{Kind: result.SpanPrompt, Rows: p.Tokens})
	}
	if p := e.Pass; p != nil {
		s := result.Span{Kind: result.SpanStep, Rows: p.Rows}
		for _, n := range p.Nodes {
			if !n.Guess {
				s.Leaves++
			}
		}
		if len(p.Nodes) > 0 {
			s.Pos = p.Nodes[0].Pos
		}
		add(p.Began, p.Took, s)
	}
	if p := e.Waited; p != nil {
		add(p.Began, p.Took, result.Span{Kind: result.SpanWait, Pos: p.Pos})
	}
	if q := e.Escalation; q != nil && q.Outcome != draft.Unasked && q.Outcome != draft.Known {
		add(q.Decided+q.Held, q.Wait, result.Span{Kind: result.SpanAsk, Pos: q.Pos, Outcome: string(q.Outcome)})
	}
	if r := e.Rollback; r != nil && len(r.Nodes) > 0 {
		add(e.At, 0, result.Span{Kind: result.SpanRollback, Pos: r.Pos, Rows: len(r.Nodes)})
	}
	if t := e.Turn; t != nil {
		add(e.At, 0, result.Span{Kind: result.SpanTurn, Pos: t.Pos, Rows: t.Wasted})
	}
	if t := e.Token; t != nil {
		add(e.At, 0, result.Span{Kind: result.SpanShown, Pos: t.Pos, Outcome: string(t.Origin)})
	}
}

func (w waterfall) askCount() (n int) {
	for _, s := range w {
		if s.Kind == result.SpanAsk {
			n++
		}
	}
	return n
}

// chooseWaterfall returns the answer of a mode to show. In all modes it is for the same question: the first one for
// which each mode that asks has asked, else the first of all.
func chooseWaterfall(modes []Mode, answers [][]Answer, mode int) waterfall {
	asked := func(at int) bool {
		for i, m := range modes {
			if m.Asks() && answers[i][at].spans.askCount() == 0 {
				return false
			}
		}
		return true
	}
	for at := range min(MaxPictured, len(answers[mode])) {
		if asked(at) {
			return answers[mode][at].spans
		}
	}
	return answers[mode][0].spans
}
