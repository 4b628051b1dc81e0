package collect

import (
	"context"
	"errors"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// choiceTree caches the greedy choices of a model after texts that begin with one prompt, so that nothing is decoded
// twice.
type choiceTree struct {
	m      model
	prompt []int32
	limit  int // maximum length of a text
	isEnd  func(id int32) bool
	root   *choiceNode

	rollouts, tokens int // number of requests to the model, and number of tokens that it returned
}

// choiceNode is a text.
type choiceNode struct {
	choice int32 // of the next token, if known
	known  bool
	next   map[int32]*choiceNode
}

func (n *choiceNode) childAfter(id int32) *choiceNode {
	if n.next == nil {
		n.next = map[int32]*choiceNode{}
	}
	if n.next[id] == nil {
		n.next[id] = new(choiceNode)
	}
	return n.next[id]
}

func newChoiceTree(m model, prompt []int32, limit int, isEnd func(id int32) bool) *choiceTree {
	return &choiceTree{m: m, prompt: prompt, limit: limit, isEnd: isEnd, root: new(choiceNode)}
}

func (t *choiceTree) recordChoices(answer, choices []int32) {
	n := t.root
	for i, c := range choices {
		n.choice, n.known = c, true
		n = n.childAfter(answer[i])
	}
}

// continueAnswer returns answer with the tokens that follow it, up to an end token or the limit.
func (t *choiceTree) continueAnswer(ctx context.Context, answer []int32) ([]int32, error) {
	answer = slices.Clone(answer)
	n := t.root
	for _, id := range answer {
		n = n.childAfter(id)
	}
	over := func() bool {
		last := len(answer) - 1
		return last >= 0 && t.isEnd(answer[last]) || len(t.prompt)+len(answer) >= t.limit
	}
	for !over() {
		if n.known {
			answer = append(answer, n.choice)
			n = n.childAfter(n.choice)
			continue
		}
		t.rollouts++
		before := len(answer)
		text := slices.Concat(t.prompt, answer)
		err := t.m.generateTokens(ctx, text, t.limit-len(text), terms.Sampling{}, func(id int32) bool {
			t.tokens++
			n.choice, n.known = id, true
			n, answer = n.childAfter(id), append(answer, id)
			return !n.known && !over()
		})
		switch {
		case err != nil:
			return nil, err
		case len(answer) == before:
			return nil, errors.New("the model returned no token after a text")
		}
	}
	return answer, nil
}
