package collect

import (
	"context"
	"errors"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// tree caches the greedy choices of a model after texts that begin with one prompt, so that nothing is decoded twice.
type tree struct {
	m      model
	prompt []int32
	limit  int // maximum length of a text
	isEnd  func(id int32) bool
	root   *node

	rollouts, tokens int // number of requests to the model, and number of tokens that it returned
}

// node is a text.
type node struct {
	choice int32 // of the next token, if known
	known  bool
	next   map[int32]*node
}

func (n *node) after(id int32) *node {
	if n.next == nil {
		n.next = map[int32]*node{}
	}
	if n.next[id] == nil {
		n.next[id] = new(node)
	}
	return n.next[id]
}

func newTree(m model, prompt []int32, limit int, isEnd func(id int32) bool) *tree {
	return &tree{m: m, prompt: prompt, limit: limit, isEnd: isEnd, root: new(node)}
}

// learn records the model's choice at each position of an answer.
func (t *tree) learn(answer, choices []int32) {
	n := t.root
	for i, c := range choices {
		n.choice, n.known = c, true
		n = n.after(answer[i])
	}
}

// goOn returns answer with the tokens that follow it, up to an end token or the limit.
func (t *tree) goOn(ctx context.Context, answer []int32) ([]int32, error) {
	answer = slices.Clone(answer)
	n := t.root
	for _, id := range answer {
		n = n.after(id)
	}
	over := func() bool {
		last := len(answer) - 1
		return last >= 0 && t.isEnd(answer[last]) || len(t.prompt)+len(answer) >= t.limit
	}
	for !over() {
		if n.known {
			answer = append(answer, n.choice)
			n = n.after(n.choice)
			continue
		}
		t.rollouts++
		before := len(answer)
		text := slices.Concat(t.prompt, answer)
		err := t.m.follow(ctx, text, t.limit-len(text), terms.Sampling{}, func(id int32) bool {
			t.tokens++
			n.choice, n.known = id, true
			n, answer = n.after(id), append(answer, id)
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
