// Package collect makes traces: the outputs of a small and a large model for the same texts, and labels that say at
// which positions asking the large model is worthwhile. The files are those of package trace.
//
// A text is a prompt with an answer from one of four sources ([Reference]). Both models read the whole text, so the
// small model's output for each position is bit-identical to its output when it decodes that text.
package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// Reference is the source of the answers.
type Reference string

// The references.
const (
	Given   Reference = "given"   // part of the questions
	Small   Reference = "small"   // greedy decoding by the small model: what a router sees before it asks
	Large   Reference = "large"   // greedy decoding by the large model
	Sampled Reference = "sampled" // sampling by the large model
	Routed  Reference = "routed"  // decoding by both models with a router: what the router will see in use
	// Judged is the large model's, with every token of the small one that leaves it right: see [RuleMismatch].
	Judged Reference = "judged"
)

// Options configure a collection.
type Options struct {
	Edge  *engine.Engine
	Large *engine.Engine // nil if a gateway has it
	Far   engine.Far     // the large model; without a gateway it is used only for routed answers

	Data      *task.Set
	Raw       bool      // questions are texts to continue, without the chat template
	Reference Reference // ""; Given if all questions have an answer, else Large
	MaxTokens int       // maximum number of tokens of an answer, including its end token

	Temperature float64 // of sampled answers, above 0
	Seed        uint64  // of these

	Router     router.Options // of routed answers: policy learned
	RouterHash string         // SHA-256 of its file, in hexadecimal digits

	// names of rules, such as [RuleCiter]; nil: [RuleMismatch] of judged answers, [RuleDisagreement] of others
	Labels []string

	Compute  string // how the small model is computed, if that affects its last bits; for the file
	Parallel int    // concurrent texts, which share passes; 0 means 32

	walkLimit int // tokens; 0 means the usual limit
}

// Plan is a checked collection that is ready to run.
type Plan struct {
	o        Options
	settings trace.Settings
	limit    int // maximum length of a text, in tokens
	end      int32
}

// Reference returns the source of the answers.
func (p *Plan) Reference() Reference { return p.o.Reference }

// Run fills the file at path, or continues an interrupted run with the same plan: the resulting file is identical to
// that of an uninterrupted run. progress, if set, is called with the number of finished prompts whenever it changes.
func (p *Plan) Run(ctx context.Context, path string, progress func(done, total int)) (*Summary, error) {
	w, err := trace.Create(path, p.settings)
	if err != nil {
		return nil, err
	}
	r := &collectionRun{Plan: p, w: w, texts: map[int]trace.Text{}, progress: progress}
	r.ahead = make(chan struct{}, mostAhead*p.o.Parallel)
	if err := errors.Join(r.collectTexts(ctx), w.Close()); err != nil {
		return nil, err
	}
	return summarizeFile(path)
}

// collectionRun is one call of Run.
type collectionRun struct {
	*Plan
	w        *trace.Writer
	progress func(done, total int)

	ahead chan struct{} // a place for each text that is begun and not written

	mu    sync.Mutex
	texts map[int]trace.Text // that wait for an earlier one
	done  int
}

// mostAhead limits the texts that are begun and not written, as a multiple of those at a time: a stopped run loses
// them.
const mostAhead = 8

// collectTexts makes all missing texts, several at a time, and writes them in order.
func (r *collectionRun) collectTexts(ctx context.Context) error {
	first := r.w.Prompts()
	r.reportProgress(first)
	workers, ctx := errgroup.WithContext(ctx)
	numbers := make(chan int, r.settings.Prompts-first)
	for n := first; n < r.settings.Prompts; n++ {
		numbers <- n
	}
	close(numbers)
	for range min(r.o.Parallel, r.settings.Prompts-first) {
		workers.Go(func() error { return r.runWorker(ctx, numbers) })
	}
	return workers.Wait()
}

// storeText adds a text, and writes all texts that are next.
func (r *collectionRun) storeText(number int, t trace.Text) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts[number] = t
	for {
		next := r.w.Prompts()
		t, made := r.texts[next]
		if !made {
			break
		}
		if err := r.w.Append(t); err != nil {
			return err
		}
		delete(r.texts, next)
		<-r.ahead
	}
	r.reportProgress(1)
	return nil
}

func (r *collectionRun) reportProgress(more int) {
	if r.done += more; r.progress != nil {
		r.progress(r.done, r.settings.Prompts)
	}
}

func (r *collectionRun) runWorker(ctx context.Context, numbers <-chan int) error {
	w, err := newWorker(ctx, r.Plan)
	if err != nil {
		return err
	}
	defer w.closeLarge()
	for {
		select { // before a number is taken: the text with the lowest number always has a place
		case r.ahead <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		n, more := <-numbers
		if !more {
			<-r.ahead
			return nil
		}
		t, err := w.collectText(ctx, n)
		if cause := context.Cause(ctx); err != nil && cause != nil && errors.Is(err, cause) {
			return cause
		} else if err != nil {
			return fmt.Errorf("question %s: %w", r.o.Data.Questions[n].ID, err)
		}
		if err := r.storeText(n, t); err != nil {
			return err
		}
	}
}
