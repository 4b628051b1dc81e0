// Package eval asks a set of questions with several policies and thresholds and compares the answers: accuracy against
// the share of tokens that the large model chose. An answer is decoded serially, which is the definition of routing,
// and each question of the router is waited for: this is about answers, not about time.
package eval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Options say what is asked, of whom, and how.
type Options struct {
	Edge      *engine.Engine
	Far       engine.Far // the large model
	Context   int        // the longest text that both models take, in tokens
	Set       *task.Set
	Runs      []Run
	Net       *router.Net    // of the learned policy
	Expected  []float32      // confidences that a budget of the learned policy begins with; see [router.Calibration]
	Raw       bool           // questions are texts to go on with, without chat template
	MaxTokens int            // of an answer; 0: as many as the context holds
	Sampling  terms.Sampling // zero: greedy
	Parallel  int            // questions at the same time, which share passes; 0 means 32
	Every     int            // with verification: most tokens that nobody has looked at; 0 means 16
	Log       *Log           // keeps the answers, and has those of an earlier call

	Pause    time.Duration         // before an answer is tried again that the cloud left without a token; 0 means 1s
	Progress func(done, total int) // answers of all runs, if given; called by one goroutine at a time
}

// tries is how often an answer is begun before it is given up.
const tries = 4

// Run asks all questions in all runs, except for the answers that the log has already. A question is asked in all runs
// before the next one begins, so that what is there when it ends early can be compared. After an error the log has all
// answers that were graded.
func (o Options) Run(ctx context.Context) error {
	switch {
	case len(o.Set.Questions) == 0 || len(o.Runs) == 0:
		return errors.New("eval: there are no questions or no runs")
	case o.Log == nil:
		return errors.New("eval: there is nothing to keep the answers in")
	}
	if o.Parallel == 0 {
		o.Parallel = 32
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
	w := &work{
		Options: o, total: len(o.Set.Questions) * len(o.Runs), next: make(chan int),
		turns: newTurns(o.Runs, o.Set.Questions),
	}
	return w.run(ctx)
}

// work is one call of [Options.Run].
type work struct {
	Options
	next  chan int // numbers of questions
	turns *turns
	mu    sync.Mutex // of done, and of calls of Progress
	done  int
	total int
}

// run hands the questions out, each to the next goroutine that is free.
func (w *work) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range min(w.Parallel, len(w.Set.Questions)) {
		all.Go(func() {
			if err := w.questions(ctx); err != nil {
				cancel(err)
			}
		})
	}
feed:
	for number := range w.Set.Questions {
		select {
		case w.next <- number:
		case <-ctx.Done():
			break feed
		}
	}
	close(w.next)
	all.Wait()
	if w.done == w.total { // whatever ended ctx came too late
		return nil
	}
	return context.Cause(ctx)
}

// questions answers questions until there are no more.
func (w *work) questions(ctx context.Context) error {
	s, err := w.Edge.NewSession()
	if err != nil {
		return err
	}
	for number := range w.next {
		if err := w.question(ctx, s, number); err != nil {
			return err
		}
	}
	return nil
}

// question answers one question in all runs.
func (w *work) question(ctx context.Context, s *engine.Session, number int) error {
	q := w.Set.Questions[number]
	prompt, err := w.prompt(q)
	if err != nil {
		return err
	}
	d := &decoding{work: w, session: s, question: q, prompt: prompt}
	defer d.hold(ctx)()
	for _, r := range w.Runs {
		if err := d.run(ctx, number, r); err != nil {
			return fmt.Errorf("question %s, %s: %w", q.ID, r.Name(), err)
		}
		w.tick()
	}
	return nil
}

// run sees to it that the log has the answer of a run.
func (d *decoding) run(ctx context.Context, number int, r Run) (err error) {
	if r.Budget > 0 {
		if d.balance, err = d.turns.wait(ctx, r, number); err != nil {
			return err
		}
	}
	a, ok := d.Log.Answer(d.question.ID, r.Name())
	if !ok {
		if a, err = d.answer(ctx, r); err != nil {
			return err
		}
		if err := d.Log.add(a); err != nil {
			return err
		}
	}
	if r.Budget > 0 {
		d.turns.end(r, number, a.Spent)
	}
	return nil
}

func (w *work) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done++; w.Progress != nil {
		w.Progress(w.done, w.total)
	}
}
