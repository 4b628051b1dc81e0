package eval

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// turns makes the runs with a budget answer the questions in sequence, as a device does: what remains of a budget after
// one question is available for the next. Different runs, and runs without a budget, do not wait for each other. So the
// answers do not depend on how many questions are answered concurrently.
type turns struct {
	over    map[string][]chan struct{} // by run and question: closed when its answer is in the balance
	balance map[string]*router.Balance // by run: after the last finished question
}

func newTurns(runs []Run, questions []task.Question) *turns {
	t := &turns{over: map[string][]chan struct{}{}, balance: map[string]*router.Balance{}}
	for _, r := range runs {
		if r.Budget == 0 {
			continue
		}
		all := make([]chan struct{}, len(questions))
		for i := range all {
			all[i] = make(chan struct{})
		}
		t.over[r.Name()], t.balance[r.Name()] = all, new(router.Balance)
	}
	return t
}

// wait waits until the questions before number are finished in run r, and returns its balance.
func (t *turns) wait(ctx context.Context, r Run, number int) (*router.Balance, error) {
	if number > 0 {
		select {
		case <-t.over[r.Name()][number-1]:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return t.balance[r.Name()], nil
}

// end adds the answer to question number to the balance of its run, and releases the next question.
func (t *turns) end(r Run, number int, spent *router.Answer) {
	if spent != nil {
		t.balance[r.Name()].Add(*spent)
	}
	close(t.over[r.Name()][number])
}
