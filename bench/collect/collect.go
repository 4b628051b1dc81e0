// Package collect makes traces: what a small and a large model see along the same texts, and labels that say where the
// large one is worth asking. Files are those of package trace.
//
// A text is a prompt with an answer from one of four sources ([Reference]). Both models read it whole, so that what the
// small one makes of each position is, to the last bit, what it would have made of it while decoding that text.
package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// Reference says where the answers come from.
type Reference string

// The references.
const (
	Given   Reference = "given"   // the questions bring them
	Small   Reference = "small"   // the small model decodes them greedily: what a router sees before it asks
	Large   Reference = "large"   // the large model decodes them greedily
	Sampled Reference = "sampled" // the large model draws them
	Routed  Reference = "routed"  // both models decode them with a router: what it will see in use
)

// References returns all of them.
func References() []Reference { return []Reference{Given, Small, Large, Sampled, Routed} }

// Options say what is collected.
type Options struct {
	Edge  *engine.Engine
	Large *engine.Engine // nil where a gateway has it
	Far   engine.Far     // the large model to be asked; without a gateway it is for routed answers alone

	Data      *task.Set
	Raw       bool      // questions are texts to go on with, without the chat template
	Reference Reference // ""; given where all questions have one, else large
	MaxTokens int       // most tokens of an answer, its end token included; 0 means 256

	Temperature float64 // of sampled answers, above 0
	Seed        uint64  // of these

	Router     router.Options // of routed answers: policy learned
	RouterHash string         // SHA-256 of its file, in hexadecimal digits

	Labels       []string // names of rules; see [Rules]
	ShardPrompts int      // prompts of a file; 0 means 32

	Compute  string // how the small model is run, where that can change its last bits; for the manifest
	Parallel int    // texts at a time, which share passes; 0 means 32
}

// Plan is what is going to be collected, checked.
type Plan struct {
	o        Options
	settings trace.Settings
	limit    int // longest text, in tokens
	end      int32
	notes    []string
}

// Reference is where the answers come from.
func (p *Plan) Reference() Reference { return p.o.Reference }

// Notes are sentences that whoever collects has to know.
func (p *Plan) Notes() []string { return p.notes }

// Run fills the folder dir, or goes on where an earlier run with the same plan stopped: then it ends up with the same
// bytes as if that had not stopped. progress, if given, is told how many of all prompts are done, whenever that grows.
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
	return Summarize(dir)
}

// run is one call of Run.
type run struct {
	*Plan
	w        *trace.Writer
	texts    map[int][]trace.Text // of shards that are not complete
	left     map[int]int          // prompts that are missing in them
	progress func(done, total int)
	done     int
}

// collected is a text and its number.
type collected struct {
	number int
	text   trace.Text
	err    error
}

// collect makes the texts of all shards that are missing, several at a time, and writes each shard when it is complete.
func (r *run) collect(ctx context.Context) error {
	missing := r.missing()
	r.tell(0)
	if len(missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers, results := make(chan int), make(chan collected)
	var workers sync.WaitGroup
	for range min(r.o.Parallel, len(missing)) {
		workers.Go(func() { r.work(ctx, numbers, results) })
	}
	workers.Go(func() {
		defer close(numbers)
		for _, n := range missing {
			select {
			case numbers <- n:
			case <-ctx.Done():
				return
			}
		}
	})
	go func() { workers.Wait(); close(results) }()
	var failed *collected // of those that failed by themselves, the first in the order of the prompts
	for c := range results {
		if c.err == nil && failed == nil {
			c.err = r.take(c)
		}
		if c.err != nil && (failed == nil || c.number < failed.number && !errors.Is(c.err, context.Cause(ctx))) {
			failed = &c
			cancel(c.err)
		}
	}
	if failed != nil {
		return failed.err
	}
	if r.done < r.settings.Prompts {
		return context.Cause(ctx)
	}
	return nil
}

// missing returns the prompts of the shards that are not there.
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
func (r *run) take(c collected) error {
	shard := c.number / r.settings.ShardPrompts
	first, end := r.settings.ShardRange(shard)
	if r.texts[shard] == nil {
		r.texts[shard] = make([]trace.Text, end-first)
	}
	r.texts[shard][c.number-first] = c.text
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
func (r *run) work(ctx context.Context, numbers <-chan int, results chan<- collected) {
	w, err := newWorker(ctx, r.Plan)
	if err != nil {
		results <- collected{err: err}
		return
	}
	defer w.close()
	for n := range numbers {
		c := collected{number: n}
		if c.text, c.err = w.collect(ctx, n); c.err != nil {
			if cause := context.Cause(ctx); cause != nil && errors.Is(c.err, cause) {
				c.err = cause
			} else {
				c.err = fmt.Errorf("question %s: %w", r.o.Data.Questions[n].ID, c.err)
			}
		}
		results <- c
		if c.err != nil {
			return
		}
	}
}
