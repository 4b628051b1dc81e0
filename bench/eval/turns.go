package eval

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// slots is the number of devices that the questions of a run with a budget are dealt to: device i answers the questions
// i, i+slots, i+2·slots and so on, and each device has the budget for its own answers.
const slots = 8

// deviceTurns makes each device answer its questions in sequence: what remains of its budget after one question is
// available for its next one. Devices, different runs, and runs without a budget do not wait for each other. So answers
// do not depend on how many questions are answered concurrently.
type deviceTurns struct {
	answered map[string][]chan struct{}   // by run and question: closed when its answer is in the balance
	balance  map[string][]*router.Balance // by run and device
}

func newDeviceTurns(runs []Run, questions []task.Question) *deviceTurns {
	t := &deviceTurns{answered: map[string][]chan struct{}{}, balance: map[string][]*router.Balance{}}
	for _, r := range runs {
		if r.Budget == 0 {
			continue
		}
		all := make([]chan struct{}, len(questions))
		for i := range all {
			all[i] = make(chan struct{})
		}
		t.answered[r.Name()] = all
		for range slots {
			t.balance[r.Name()] = append(t.balance[r.Name()], router.NewBalance(r.Budget))
		}
	}
	return t
}

// waitForTurn waits until the device of question number has finished the one before in run r, and returns its balance.
func (t *deviceTurns) waitForTurn(ctx context.Context, r Run, number int) (*router.Balance, error) {
	if number >= slots {
		select {
		case <-t.answered[r.Name()][number-slots]:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return t.balance[r.Name()][number%slots], nil
}

// finishTurn adds the answer to question number to the balance of its device in run r, and releases the device's next
// one.
func (t *deviceTurns) finishTurn(r Run, number int, spent *router.Answer) {
	if spent != nil {
		t.balance[r.Name()][number%slots].Add(*spent)
	}
	close(t.answered[r.Name()][number])
}
