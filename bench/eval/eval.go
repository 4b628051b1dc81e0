// Package eval answers a set of questions with several policies and thresholds and compares the results: accuracy
// against the share of tokens that the large model chose. Decoding is serial, as in the definition of routing, and
// waits for each answer of the large model, since the package measures answers and not times.
package eval

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Options configure an evaluation.
type Options struct {
	Edge      *engine.Engine
	Far       engine.Far // the large model
	Context   int        // maximum length of a text for both models, in tokens
	Set       *task.Set
	Runs      []Run
	Net       *router.Net    // of the learned policy
	Judge     string         // fingerprint of the large model's judge; of the policy judge
	Expected  []float32      // initial confidences for a budget of the learned policy; see [router.Calibration]
	Raw       bool           // questions are texts to continue, without the chat template
	MaxTokens int            // of an answer; 0: no limit but the context
	Sampling  terms.Sampling // zero: greedy
	Parallel  int            // concurrent questions, which share passes; 0 means 64
	Every     int            // with verification: maximum number of unchecked tokens; 0 means 16
	Log       *Log           // stores the answers, and has those of an earlier call

	Pause    time.Duration         // before an answer is tried again that the cloud did not complete; 0 means 1s
	Progress func(done, total int) // called after each answer, one call at a time; may be nil
}

// tries is the maximum number of attempts for an answer.
const tries = 4

// Run asks all questions in all runs, except for answers that are already in the log. It finishes a question in all
// runs before it begins the next one, so that the results can be compared after an early end. After an error the log
// has all graded answers.
func (o Options) Run(ctx context.Context) error {
	o.Parallel, o.Pause = cmp.Or(o.Parallel, 64), cmp.Or(o.Pause, time.Second)
	e := &evaluation{
		Options: o, total: len(o.Set.Questions) * len(o.Runs), next: make(chan int, len(o.Set.Questions)),
		turns: newDeviceTurns(o.Runs, o.Set.Questions),
	}
	for number := range o.Set.Questions {
		e.next <- number
	}
	close(e.next)
	return e.answerAll(ctx)
}

// evaluation is one call of [Options.Run].
type evaluation struct {
	Options
	next  chan int // indices of questions
	turns *deviceTurns
	mu    sync.Mutex // for done, and for calls of Progress
	done  int
	total int
}

func (e *evaluation) answerAll(ctx context.Context) error {
	workers, ctx := errgroup.WithContext(ctx)
	for range min(e.Parallel, len(e.Set.Questions)) {
		workers.Go(func() error { return e.answerQuestions(ctx) })
	}
	if workers.Wait() == nil {
		return nil
	}
	return context.Cause(ctx)
}

func (e *evaluation) answerQuestions(ctx context.Context) error {
	s, err := e.Edge.NewSession()
	if err != nil {
		return err
	}
	for number := range e.next {
		if err := e.answerQuestion(ctx, s, number); err != nil {
			return err
		}
	}
	return nil
}

func (e *evaluation) answerQuestion(ctx context.Context, s *engine.Session, number int) error {
	q := e.Set.Questions[number]
	prompt, err := e.tokenizeQuestion(q)
	if err != nil {
		return err
	}
	d := &questionDecoder{evaluation: e, session: s, question: q, prompt: prompt}
	defer d.holdPrompt(ctx)()
	for _, r := range e.Runs {
		if err := d.ensureAnswered(ctx, number, r); err != nil {
			return fmt.Errorf("question %s, %s: %w", q.ID, r.Name(), err)
		}
		e.reportProgress()
	}
	return nil
}

func (d *questionDecoder) ensureAnswered(ctx context.Context, number int, r Run) (err error) {
	if r.Budget > 0 {
		if d.balance, err = d.turns.waitForTurn(ctx, r, number); err != nil {
			return err
		}
	}
	a, ok := d.Log.Answer(d.question.ID, r.Name())
	if !ok {
		if a, err = d.answerRun(ctx, r); err != nil {
			return err
		}
		if err := d.Log.appendAnswer(a); err != nil {
			return err
		}
	}
	if r.Budget > 0 {
		d.turns.finishTurn(r, number, a.Spent)
	}
	return nil
}

func (e *evaluation) reportProgress() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done++; e.Progress != nil {
		e.Progress(e.done, e.total)
	}
}
