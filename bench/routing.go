package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/price"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Question is one of a workload.
type Question struct {
	Text    string                   // what the user asks
	Correct func(answer string) bool // nil where there is no right answer
}

// RoutingOptions say what [Routing] measures.
type RoutingOptions struct {
	Edge, Large *engine.Engine
	Questions   []Question
	Modes       []Mode
	Router      router.Options
	Draft       draft.Options // window, open escalations, deadline; the mode sets the rest
	MaxTokens   int           // of an answer; 0 means 64
	RTT         time.Duration // of the HTTP baselines; what Dial connects to has its own link
	EdgeTPS     float64       // pace of the small model, in forward calls per second; 0: as fast as it goes
	RowCost     float64       // with EdgeTPS: share of a call that each further row of it takes on top
	CloudPace   time.Duration // time per token of a text that the large model streams
	Parallel    int           // answers at the same time, as if by devices of their own; 0 means 8
	Prices      *price.List   // of the large model's work; nil: costs are not reported

	Direct   draft.Cloud                                                        // the large model without a network, for the HTTP baselines
	Dial     func(ctx context.Context, device int) (draft.Cloud, func(), error) // connects a device over our protocol
	Progress func(done, total int)                                              // answers of all modes, if given
}

// Routing asks all questions in each mode and reports them in the order of the modes. Where a mode fails or ctx is
// done, the reports are those of the modes before it.
func Routing(ctx context.Context, o RoutingOptions) ([]ModeReport, error) {
	if len(o.Questions) == 0 || len(o.Modes) == 0 {
		return nil, errors.New("bench: there are no questions or no modes")
	}
	if o.Parallel == 0 {
		o.Parallel = 8
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = 64
	}
	w, err := startWeb(o.Large, o.Direct, o.RTT, o.CloudPace)
	if err != nil {
		return nil, err
	}
	defer w.close()
	b := &routing{RoutingOptions: o, web: w, total: len(o.Modes) * len(o.Questions)}
	answers := map[string][]answer{}
	if needsReference(o.Modes) {
		b.total += len(o.Questions)
		if answers[cloudAlone], err = b.run(ctx, Mode{Name: cloudAlone, kind: reference}); err != nil {
			return nil, fmt.Errorf("what the large model alone says: %w", err)
		}
	}
	var all []ModeReport
	for _, m := range o.Modes {
		got, err := b.run(ctx, m)
		if err != nil {
			return compared(all, o.Modes, answers), fmt.Errorf("mode %s: %w", m.Name, err)
		}
		answers[m.Name] = got
		all = append(all, report(m, got, o.Prices))
	}
	return compared(all, o.Modes, answers), nil
}

// routing is one call of [Routing].
type routing struct {
	RoutingOptions
	web   *web
	total int        // answers of all modes
	mu    sync.Mutex // of done, while devices run
	done  int        // of total
}

// answer is what became of one question.
type answer struct {
	ids     []int32
	origins []string
	prompt  int  // its tokens
	known   bool // whether there is a right answer
	correct bool
	took    time.Duration
	tally   Tally
}

// run asks all questions in one mode, several at a time: each device takes the next question that nobody has.
func (b *routing) run(ctx context.Context, m Mode) ([]answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers, before := make([]answer, len(b.Questions)), b.done
	next := make(chan int)
	var devices sync.WaitGroup
	for n := range min(b.Parallel, len(b.Questions)) {
		devices.Go(func() {
			if err := b.device(ctx, m, n, next, answers); err != nil {
				cancel(err)
			}
		})
	}
feed:
	for i := range b.Questions {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	devices.Wait()
	if b.done-before == len(answers) { // whatever ended ctx came too late
		return answers, nil
	}
	return answers, context.Cause(ctx)
}

// device answers questions until there are no more.
func (b *routing) device(ctx context.Context, m Mode, number int, next <-chan int, answers []answer) error {
	s, err := b.Edge.NewSession()
	if err != nil {
		return err
	}
	far, hangUp, err := b.connect(ctx, m, number)
	if err != nil {
		return err
	}
	defer hangUp()
	for i := range next {
		if answers[i], err = b.ask(ctx, m, s, far, b.Questions[i]); err != nil {
			return err
		}
		b.tick()
	}
	return nil
}

func (b *routing) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done++; b.Progress != nil {
		b.Progress(b.done, b.total)
	}
}

// connect returns what a device asks in a mode, nil where it asks nobody.
func (b *routing) connect(ctx context.Context, m Mode, number int) (draft.Cloud, func(), error) {
	switch m.kind {
	case paper:
		t, err := b.Edge.Tokenizer()
		if err != nil {
			return nil, nil, err
		}
		return paperCloud{b.web, func(ids []int32) string { return spelled(t, ids) }}, func() {}, nil
	case routed, verified, speculative:
		return b.Dial(ctx, number)
	}
	return nil, func() {}, nil
}

// spelled is the text of ids with special tokens as they are written.
func spelled(t *tokenizer.Tokenizer, ids []int32) string {
	var all strings.Builder
	var run []int32
	for _, id := range ids {
		if t.IsControl(id) {
			all.WriteString(t.Decode(run) + t.Text(id))
			run = run[:0]
		} else {
			run = append(run, id)
		}
	}
	return all.String() + t.Decode(run)
}

// ask answers one question.
func (b *routing) ask(ctx context.Context, m Mode, s *engine.Session, far draft.Cloud, q Question) (answer, error) {
	prompt, err := b.Edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
	if err != nil {
		return answer{}, err
	}
	a := answer{prompt: len(prompt), known: q.Correct != nil}
	begin := time.Now()
	var text string
	switch m.kind {
	case reference:
		a.ids, err = b.alone(ctx, prompt)
	case cloud:
		text, err = b.stream(ctx, prompt, &a)
	default:
		err = b.decode(ctx, m, s, far, prompt, &a)
		text = s.Summary().Text
	}
	a.took = time.Since(begin)
	a.correct = a.known && q.Correct(text)
	return a, err
}

// stream answers with the large model alone, and returns the text.
func (b *routing) stream(ctx context.Context, prompt []int32, a *answer) (text string, err error) {
	t, err := b.Large.Tokenizer()
	if err != nil {
		return "", err
	}
	var end bool
	a.ids, text, end, err = b.web.streamed(ctx, spelled(t, prompt), b.MaxTokens)
	a.tally.Prefilled, a.tally.Tokens = len(prompt), len(a.ids)
	if end {
		a.tally.Tokens++
	}
	a.tally.Decoded = a.tally.Tokens
	return text, err
}

// decode answers with the small model, alone or with the large one to ask.
func (b *routing) decode(
	ctx context.Context, m Mode, s *engine.Session, far draft.Cloud, prompt []int32, a *answer,
) (err error) {
	r := engine.Route{
		Request: engine.Request{MaxTokens: b.MaxTokens}, Cloud: far, Draft: m.Draft(b.Draft), Pace: b.EdgeTPS,
		RowCost: b.RowCost, Observe: a.tally.Add,
	}
	if m.kind != local {
		if r.Router, err = m.Router(b.Router); err != nil {
			return err
		}
	}
	for t, err := range s.Routed(ctx, prompt, r) {
		if err != nil {
			return err
		}
		a.ids, a.origins = append(a.ids, t.ID), append(a.origins, t.Origin)
	}
	return nil
}
