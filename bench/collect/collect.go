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
)

// References returns all references.
func References() []Reference { return []Reference{Given, Small, Large, Sampled, Routed} }

// Options configure a collection.
type Options struct {
	Edge  *engine.Engine
	Large *engine.Engine // nil if a gateway has it
	Far   engine.Far     // the large model; without a gateway it is used only for routed answers

	Data      *task.Set
	Raw       bool      // questions are texts to continue, without the chat template
	Reference Reference // ""; Given if all questions have an answer, else Large
	MaxTokens int       // maximum number of tokens of an answer, including its end token; 0 means 256

	Temperature float64 // of sampled answers, above 0
	Seed        uint64  // of these

	Router     router.Options // of routed answers: policy learned
	RouterHash string         // SHA-256 of its file, in hexadecimal digits

	Labels       []string // names of rules; see [Rules]
	ShardPrompts int      // prompts per file; 0 means 32

	Compute  string // how the small model is computed, if that affects its last bits; for the manifest
	Parallel int    // concurrent texts, which share passes; 0 means 32
}

// Plan is a checked collection that is ready to run.
type Plan struct {
	o        Options
	settings trace.Settings
	limit    int // maximum length of a text, in tokens
	end      int32
	notes    []string
}

// Reference returns the source of the answers.
func (p *Plan) Reference() Reference { return p.o.Reference }

// Notes returns sentences that the user should know.
func (p *Plan) Notes() []string { return p.notes }

// Run fills the folder dir, or continues an interrupted run with the same plan: the resulting files are identical to
// those of an uninterrupted run. progress, if set, is called with the number of finished prompts whenever it changes.
func (p *Plan) Run(ctx context.Context, dir string, progress func(done, total int)) (*Summary, error) {
	w, err := trace.Create(dir, p.settings)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r := &run{Plan: p, w: w, texts: map[int][]trace.Text{}, left: map[int]int{}, progress: progress}
	if err := r.collect(ctx); err != nil {
		return nil, err
	}
	return summarize(dir)
}

// run is one call of Run.
type run struct {
	*Plan
	w        *trace.Writer
	progress func(done, total int)

	mu    sync.Mutex
	texts map[int][]trace.Text // of incomplete shards
	left  map[int]int          // number of missing prompts in them
	done  int
}

// collect makes the texts of all missing shards, several at a time, and writes each shard when it is complete.
func (r *run) collect(ctx context.Context) error {
	missing := r.missing()
	r.tell(0)
	workers, ctx := errgroup.WithContext(ctx)
	numbers := make(chan int)
	workers.Go(func() error {
		defer close(numbers)
		for _, n := range missing {
			select {
			case numbers <- n:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range min(r.o.Parallel, len(missing)) {
		workers.Go(func() error { return r.work(ctx, numbers) })
	}
	return workers.Wait()
}

// missing returns the prompts of the missing shards.
func (r *run) missing() (all []int) {
	for shard := range r.settings.Shards() {
		first, end := r.settings.ShardRange(shard)
		if r.w.Done(shard) {
			r.done += end - first
			continue
		}
		r.left[shard] = end - first
		for n := first; n < end; n++ {
			all = append(all, n)
		}
	}
	return all
}

// take adds a text to its shard, and writes the shard when it is complete.
func (r *run) take(number int, t trace.Text) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	shard := number / r.settings.ShardPrompts
	first, end := r.settings.ShardRange(shard)
	if r.texts[shard] == nil {
		r.texts[shard] = make([]trace.Text, end-first)
	}
	r.texts[shard][number-first] = t
	if r.left[shard]--; r.left[shard] == 0 {
		if err := r.w.Write(shard, r.texts[shard]); err != nil {
			return err
		}
		delete(r.texts, shard)
	}
	r.tell(1)
	return nil
}

func (r *run) tell(more int) {
	if r.done += more; r.progress != nil {
		r.progress(r.done, r.settings.Prompts)
	}
}

// work makes texts until there are no more.
func (r *run) work(ctx context.Context, numbers <-chan int) error {
	w, err := newWorker(ctx, r.Plan)
	if err != nil {
		return err
	}
	defer w.close()
	for n := range numbers {
		t, err := w.collect(ctx, n)
		if cause := context.Cause(ctx); err != nil && cause != nil && errors.Is(err, cause) {
			return cause
		} else if err != nil {
			return fmt.Errorf("question %s: %w", r.o.Data.Questions[n].ID, err)
		}
		if err := r.take(n, t); err != nil {
			return err
		}
	}
	return nil
}
