package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/price"
	"github.com/pilotfish-ai/pilotfish/bench/timeline"
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
	Raw         bool          // the questions are texts to go on with, without chat template
	Alternate   bool          // each question in all modes, in turns, before the next: what disturbs one disturbs all
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

	// Timeline says where an answer that is about to be decoded is drawn, if given; nil: nowhere. Answers of the mode
	// cloud are not decoded here.
	Timeline func(Mode, Question) *timeline.Text
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
		alone, err := b.run(ctx, Mode{Name: cloudAlone, kind: reference})
		if err != nil {
			return nil, fmt.Errorf("what the large model alone says: %w", err)
		}
		answers[cloudAlone] = alone[0]
	}
	var all []ModeReport
	for _, modes := range b.turns() {
		got, err := b.run(ctx, modes...)
		if err != nil {
			return compared(all, o.Modes, answers), fmt.Errorf("mode %s: %w", names(modes), err)
		}
		for i, m := range modes {
			answers[m.Name] = got[i]
			all = append(all, report(m, got[i], o.Prices))
		}
	}
	return compared(all, o.Modes, answers), nil
}

// turns are the modes that are measured at a time.
func (b *routing) turns() (all [][]Mode) {
	if b.Alternate {
		return [][]Mode{b.Modes}
	}
	for _, m := range b.Modes {
		all = append(all, []Mode{m})
	}
	return all
}

// names of modes, for people.
func names(modes []Mode) string {
	var all []string
	for _, m := range modes {
		all = append(all, m.Name)
	}
	return strings.Join(all, ", ")
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
	// the cloud was asked for the last token, and no other answer told it
	lastAsked bool
	askedFor  int // position that the cloud was asked for last
}

// observe counts an event.
func (a *answer) observe(e draft.Event) {
	a.tally.Add(e)
	if q := e.Escalation; q != nil && (q.Outcome == draft.Hit || q.Outcome == draft.Miss) {
		a.askedFor = q.Pos
	}
	if t := e.Token; t != nil {
		a.lastAsked = a.askedFor == t.Pos
	}
}

// run asks all questions in each of some modes, several at a time: each device takes the next question that nobody has.
// It returns the answers of each mode.
func (b *routing) run(ctx context.Context, modes ...Mode) ([][]answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers, before := make([][]answer, len(modes)), b.done
	for i := range answers {
		answers[i] = make([]answer, len(b.Questions))
	}
	next := make(chan int)
	var devices sync.WaitGroup
	for n := range min(b.Parallel, len(b.Questions)) {
		devices.Go(func() {
			if err := b.device(ctx, modes, n, next, answers); err != nil {
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
	if b.done-before == len(modes)*len(b.Questions) { // whatever ended ctx came too late
		return answers, nil
	}
	return answers, context.Cause(ctx)
}

// begins is the mode of a turn of a question: the turns of the next question begin with the next mode.
func begins(question, turn, modes int) int { return (question + turn) % modes }

// device answers questions until there are no more, each in all modes, of which each begins as often as the others.
func (b *routing) device(ctx context.Context, modes []Mode, number int, next <-chan int, answers [][]answer) error {
	sessions, clouds := make([]*engine.Session, len(modes)), make([]draft.Cloud, len(modes))
	for i, m := range modes {
		var err error
		if sessions[i], err = b.Edge.NewSession(); err != nil {
			return err
		}
		far, hangUp, err := b.connect(ctx, m, number)
		if err != nil {
			return err
		}
		defer hangUp()
		clouds[i] = far
	}
	for i := range next {
		for turn := range modes {
			n := begins(i, turn, len(modes))
			a, err := b.ask(ctx, modes[n], sessions[n], clouds[n], b.Questions[i])
			if err != nil {
				return err
			}
			answers[n][i] = a
			b.tick()
		}
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

// spelled is the text of ids with special tokens as they are written, but for the one that each text begins with
// anyway.
func spelled(t *tokenizer.Tokenizer, ids []int32) string {
	if bos, ok := t.BOS(); ok && t.AddBOS() && len(ids) > 0 && ids[0] == bos {
		ids = ids[1:]
	}
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
	prompt, err := b.prompt(q.Text)
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
		err = b.decode(ctx, m, s, far, prompt, &a, b.drawn(m, q))
		text = s.Summary().Text
	}
	a.took = time.Since(begin)
	a.correct = a.known && q.Correct(text)
	return a, err
}

// prompt is what a question is for the small model.
func (b *routing) prompt(text string) ([]int32, error) {
	if b.Raw {
		return b.Edge.RawPrompt(text)
	}
	return b.Edge.Chat(tokenizer.Message{Role: "user", Content: text})
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

// route is how an answer is decoded in a mode, without its router.
func (b *routing) route(m Mode, far draft.Cloud, a *answer) engine.Route {
	return engine.Route{
		Request: engine.Request{MaxTokens: b.MaxTokens}, Cloud: far, Draft: m.Draft(b.Draft), Pace: b.EdgeTPS,
		RowCost: b.RowCost, Observe: a.observe,
	}
}

// drawn returns where an answer is drawn; nil: nowhere.
func (b *routing) drawn(m Mode, q Question) *timeline.Text {
	if b.Timeline == nil {
		return nil
	}
	return b.Timeline(m, q)
}

// decode answers with the small model, alone or with the large one to ask.
func (b *routing) decode(
	ctx context.Context, m Mode, s *engine.Session, far draft.Cloud, prompt []int32, a *answer, drawn *timeline.Text,
) (err error) {
	r := b.route(m, far, a)
	drawn.Watch(&r)
	defer drawn.End()
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
	if a.tally.Asks == 0 {
		a.tally.WarmedInVain = a.tally.Warmed
	}
	return nil
}
