package outcome

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestWaterfall: each event with a duration or a moment becomes a span in its row.
func TestWaterfall(t *testing.T) {
	const ms = time.Millisecond
	var w waterfall
	for _, e := range []draft.Event{
		{Prompt: &draft.Prompt{Tokens: 47, Began: ms, Took: 30 * ms}},
		{At: 48 * ms, Pass: &draft.Pass{Rows: 4, Began: 31 * ms, Took: 17 * ms, Nodes: []draft.Drafted{
			{Pos: 50}, {Pos: 50}, {Pos: 51, Guess: true}}}},
		{At: 70 * ms, Pass: &draft.Pass{Rows: 1, Began: 50 * ms, Took: 17 * ms}},
		{At: 90 * ms, Waited: &draft.Waited{Pos: 51, Began: 70 * ms, Took: 20 * ms}},
		{At: 95 * ms, Escalation: &draft.Escalation{Pos: 51, Outcome: draft.Hit, Decided: 40 * ms,
			Held: 2 * ms, Wait: 48 * ms}},
		{At: 95 * ms, Escalation: &draft.Escalation{Pos: 52, Outcome: draft.Unasked, Err: errors.New("x")}},
		{At: 95 * ms, Escalation: &draft.Escalation{Pos: 53, Outcome: draft.Known}},
		{At: 96 * ms, Rollback: &draft.Rollback{Pos: 52, Nodes: []draft.ID{3, 4}}},
		{At: 96 * ms, Rollback: &draft.Rollback{Pos: 52}},
		{At: 97 * ms, Turn: &draft.Turn{Finding: terms.Finding{Pos: 54}, Wasted: 3}},
		{At: 98*ms + 1234*time.Nanosecond, Token: &draft.Token{Pos: 51, Origin: draft.FromCloud}},
		{At: 99 * ms, Warming: &draft.Warming{Tokens: 5}},
	} {
		w.addEvent(e)
	}
	assert.Equal(t, waterfall{
		{Start: 1, End: 31, Kind: result.SpanPrompt, Rows: 47},
		{Start: 31, End: 48, Kind: result.SpanStep, Pos: 50, Rows: 4, Leaves: 2},
		{Start: 50, End: 67, Kind: result.SpanStep, Rows: 1},
		{Start: 70, End: 90, Kind: result.SpanWait, Pos: 51},
		{Start: 42, End: 90, Kind: result.SpanAsk, Pos: 51, Outcome: "hit"},
		{Start: 96, End: 96, Kind: result.SpanRollback, Pos: 52, Rows: 2},
		{Start: 97, End: 97, Kind: result.SpanTurn, Pos: 54, Rows: 3},
		{Start: 98.001, End: 98.001, Kind: result.SpanShown, Pos: 51, Outcome: "cloud"},
	}, w)
	assert.Equal(t, 1, w.askCount())
}

// TestPictureOf: all modes show the same question: the first with an ask in each mode that can ask.
func TestPictureOf(t *testing.T) {
	local, serial, pipelined := Mode{Kind: local}, Mode{Kind: Routed}, Mode{Kind: Routed, pipelined: true}
	asked := func(name string) Answer { return Answer{spans: waterfall{{Kind: result.SpanAsk, Outcome: name}}} }
	quiet := Answer{spans: waterfall{{Kind: result.SpanStep}}}
	answers := [][]Answer{
		{quiet, quiet, {spans: waterfall{{Kind: "local, third"}}}},
		{asked("a"), quiet, asked("serial, third")},
		{quiet, asked("b"), asked("pipelined, third")},
	}
	modes := []Mode{local, serial, pipelined}
	assert.Equal(t, "local, third", chooseWaterfall(modes, answers, 0)[0].Kind)
	assert.Equal(t, "serial, third", chooseWaterfall(modes, answers, 1)[0].Outcome)
	assert.Equal(t, "pipelined, third", chooseWaterfall(modes, answers, 2)[0].Outcome)
	for i := range answers {
		answers[i] = answers[i][:2]
	}
	assert.Equal(t, "a", chooseWaterfall(modes, answers, 1)[0].Outcome, "without such a question, the first")
}
