package draft

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// settled is a model that notes what it settles.
type settled struct {
	Model
	ids []ID
}

func (s *settled) Settle(path ...ID) { s.ids = append(s.ids, path...) }

// TestDraftTree: a token that is not evaluated yet stays above the settled text when it is shown; a branch that is cut
// gives up each node that the model holds, its questions, and its share of the pass.
func TestDraftTree(t *testing.T) {
	m := &settled{}
	tree := newDraftTree(newRules(Options{End: func(id int32) bool { return id == 9 }, MaxTokens: 4}, 2),
		newScheduler(nil), m, []int32{1, 2})
	first := tree.addChild(tree.tip, 3, 1)
	tree.appendShown(first)
	tree.settleShown()
	assert.Empty(t, m.ids, "the model does not hold it")
	assert.Same(t, first.parent, tree.base)

	call := &pass{took: 7}
	tree.markEvaluated(first, call)
	tree.settleShown()
	assert.Equal(t, []ID{first.id}, m.ids)
	assert.Same(t, first, tree.base)

	first.esc = &escalation{at: first}
	first.esc.Outcome = inFlight
	right, wrong := tree.addChild(first, 4, 1), tree.addChild(first, 5, 1)
	assert.Equal(t, right.pos+1, right.since, "the question before it verifies what precedes it")
	tree.markEvaluated(right, call)
	tree.markEvaluated(wrong, &pass{took: 5})
	end := tree.addChild(wrong, 9, 1)
	wrong.check = &escalation{at: wrong}
	wrong.check.Outcome = inFlight
	assert.True(t, end.final && !right.final)
	assert.Equal(t, 2, first.esc.Drafted)
	assert.Equal(t, []int32{1, 2, 3, 5, 9}, tree.contextTokens(end))
	assert.Equal(t, []Node{{ID: end.id, Token: 9, Pos: 4, Path: []ID{wrong.id}}}, tree.modelNodes([]*node{end}))

	var cost escalation
	dead, questions := tree.cutBranch(wrong, &cost)
	assert.Equal(t, []ID{wrong.id}, dead)
	assert.Equal(t, []*escalation{wrong.check}, questions)
	assert.Equal(t, 1, cost.Wasted)
	assert.EqualValues(t, 5, cost.Exposed)
	assert.Equal(t, 2, call.live, "of the other pass everything remains")
}
