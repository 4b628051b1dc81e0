package serve

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
)

// written is a stream that writes what happens to its parts.
type written struct{ *partedResult }

func (w written) openPart(i int) []any                   { return []any{fmt.Sprint("open ", i, w.Parts[i].Tool)} }
func (w written) writePiece(i int, p answer.Piece) []any { return []any{fmt.Sprint(i, p.Text)} }
func (w written) closePart(i int) []any                  { return []any{fmt.Sprint("close ", i, w.Finish)} }

// TestParted: the parts of a stream are opened and closed in order, and there is one at least.
func TestParted(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []answer.Piece
		want   []any
	}{
		"nothing": {nil, []any{"open 0", "0", "close 0stop"}},
		"a thought, a text, a call": {
			[]answer.Piece{{Text: "a", Thought: true}, {Text: "b"}, {Text: "c"}, {Call: &answer.CallPiece{Name: "f"}}},
			[]any{"open 0", "0a", "close 0", "open 1", "1b", "1c", "close 1", "open 2f", "2", "close 2stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(partedResult)
			var got []any
			for _, p := range c.pieces {
				got = append(got, r.takeEvents(p, written{r})...)
			}
			e := answer.Ending{Finish: "stop", Stopped: "s", Sent: pilotfish.Receipt{Bytes: 1}}
			assert.Equal(t, c.want, append(got, r.endEvents(e, written{r})...))
			assert.Equal(t, e, r.Ending)
			var named partedResult
			named.completeParts(r.Result, func(prefix string) string { return "x" + prefix })
			for _, p := range named.Parts {
				assert.Equal(t, "x", p.ID)
			}
			assert.Len(t, named.Parts, max(1, len(r.Parts)))
		})
	}
	var none partedResult
	none.completeParts(answer.Result{}, func(string) string { return "" })
	assert.Len(t, none.Parts, 1)
}
