package collect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// worker makes one text at a time.
type worker struct {
	*Plan
	tokens *tokenizer.Tokenizer
	edge   *engine.Session
	small  model
	large  largeModel
	router *router.Router

	largeSession *engine.Session // of a large model in this process
}

func newWorker(ctx context.Context, p *Plan) (*worker, error) {
	w := &worker{Plan: p}
	var err error
	if w.tokens, err = p.o.Edge.Tokenizer(); err != nil {
		return nil, err
	}
	if w.edge, err = p.o.Edge.NewSession(); err != nil {
		return nil, err
	}
	w.small = local{w.edge}
	if p.o.Reference == Routed {
		if w.router, err = router.New(p.o.Router); err != nil {
			return nil, err
		}
	}
	if p.o.Large == nil {
		w.large = &remote{far: p.o.Far}
		return w, nil
	}
	w.largeSession, err = p.o.Large.NewSession()
	w.large = local{w.largeSession}
	return w, err
}

func (w *worker) close() { w.large.close() }

// draft is an answer before both models read its text.
type draft struct {
	question task.Question
	prompt   []int32
	answer   []int32 // including its end token, if there is one
	small    *tree
	large    *tree
	about    trace.Prompt
	decided  bool            // [RuleConsequence] has marked a position; labels are computed from the last position on
	graded   map[string]bool // whether each graded answer is right
}

func (w *worker) collect(ctx context.Context, number int) (trace.Text, error) {
	d := &draft{question: w.o.Data.Questions[number]}
	var err error
	if w.o.Raw {
		d.prompt, err = w.o.Edge.RawPrompt(w.o.Data.Raw(d.question))
	} else {
		d.prompt, err = w.o.Edge.Chat(w.o.Data.Chat(d.question.Text)...)
	}
	if err == nil && len(d.prompt) == 0 {
		err = errors.New("its prompt has no tokens")
	}
	if err != nil {
		return trace.Text{}, err
	}
	d.about.Tokens = len(d.prompt)
	if len(d.prompt) >= w.limit {
		d.about.LeftOut = true
		return trace.Text{Prompt: d.about}, nil
	}
	most := min(w.limit, len(d.prompt)+w.o.MaxTokens)
	d.small = newTree(w.small, d.prompt, most, w.tokens.IsEnd)
	d.large = newTree(w.large, d.prompt, most, w.tokens.IsEnd)
	if err := w.refer(ctx, d, number, most); err != nil {
		return trace.Text{}, err
	}
	if d.question.Grade != nil {
		d.about.Graded = true
		if d.about.Right, err = w.gradeReference(ctx, d); err != nil {
			return trace.Text{}, err
		}
	}
	if w.o.Reference == Judged {
		t, err := w.walkMismatches(ctx, d)
		t.Rollouts, t.RolloutTokens = d.large.rollouts, d.large.tokens
		return t, err
	}
	return w.read(ctx, d)
}

// gradeReference reports whether the reference is right.
func (w *worker) gradeReference(ctx context.Context, d *draft) (bool, error) {
	if w.o.Reference == Given {
		return w.grade(ctx, d, d.question.Reference, false)
	}
	return w.right(ctx, d, d.answer)
}

// right reports whether an answer of the models is right. One without an end token was cut.
func (w *worker) right(ctx context.Context, d *draft, answer []int32) (bool, error) {
	last := len(answer) - 1
	return w.grade(ctx, d, w.text(answer), last < 0 || !w.tokens.IsEnd(answer[last]))
}

// grade reports whether an answer is right. Each answer is graded once: many choices lead to the same answer, and
// grading may run a program.
func (w *worker) grade(ctx context.Context, d *draft, answer string, cut bool) (bool, error) {
	if right, known := d.graded[answer]; known {
		return right, nil
	}
	right, err := w.o.Data.Right(ctx, &d.question, answer, cut)
	if err != nil {
		return false, err
	}
	if d.graded == nil {
		d.graded = map[string]bool{}
	}
	d.graded[answer] = right
	return right, nil
}

// refer determines the answer. The text has room for most tokens, including those of the prompt.
func (w *worker) refer(ctx context.Context, d *draft, number, most int) (err error) {
	room := most - len(d.prompt)
	switch w.o.Reference {
	case Given:
		answer := d.question.Reference
		if w.o.Raw {
			answer = w.o.Data.Follow(cmp.Or(d.question.RawReference, answer))
		}
		d.answer = w.tokens.Encode(answer, false)
		if w.end >= 0 {
			d.answer = append(d.answer, w.end)
		}
		if len(d.answer) > room {
			d.answer, d.about.Cut = d.answer[:room], true
		}
		return nil
	case Small:
		d.answer, err = d.small.goOn(ctx, nil)
		d.small.rollouts, d.small.tokens = 0, 0
	case Large, Judged:
		d.answer, err = d.large.goOn(ctx, nil)
		d.large.rollouts, d.large.tokens = 0, 0 // these were not for labels
	case Sampled:
		s := terms.Sampling{Temperature: w.o.Temperature, Seed: seedOf(w.o.Seed, number)}
		err = w.large.follow(ctx, d.prompt, room, s, func(id int32) bool {
			d.answer = append(d.answer, id)
			return !w.tokens.IsEnd(id)
		})
	case Routed:
		err = w.route(ctx, d, room)
	}
	// an answer without an end was decoded up to the limit
	d.about.Cut = len(d.answer) == room && !w.tokens.IsEnd(d.answer[room-1])
	return err
}

// seedOf mixes a seed with the number of a prompt: noise is a function of seed and position, and must be independent
// for different prompts.
func seedOf(seed uint64, number int) uint64 {
	b := binary.LittleEndian.AppendUint64(nil, seed)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, uint64(number)))
	return binary.LittleEndian.Uint64(sum[:])
}

// text returns the text of an answer without its end token.
func (w *worker) text(answer []int32) string {
	if n := len(answer); n > 0 && w.tokens.IsEnd(answer[n-1]) {
		answer = answer[:n-1]
	}
	return w.tokens.Decode(answer)
}

// route decodes an answer with both models.
func (w *worker) route(ctx context.Context, d *draft, room int) error {
	far, end, err := w.o.Far.Session(ctx)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := engine.DraftOptions{Deadline: -1}
	if w.o.Large != nil {
		o.Mode = engine.Serial // there is no waiting time to use
	}
	for t, err := range w.edge.Routed(ctx, d.prompt, engine.Route{
		Settings: terms.Settings{MaxTokens: room, IgnoreEnd: true}, Router: w.router, Draft: o,
		Cloud: insistent{patient{far}, cancel},
	}) {
		if err != nil {
			return err
		}
		if d.answer = append(d.answer, t.ID); t.Origin == "cloud" {
			d.about.Cloud++
		}
		if w.tokens.IsEnd(t.ID) {
			break
		}
	}
	return context.Cause(ctx)
}

// insistent ends the decoding if a question gets no answer: otherwise the small model's token would be used, in a text
// that no router would produce.
type insistent struct {
	engine.Cloud
	end context.CancelCauseFunc
}

func (c insistent) Ask(ctx context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	a, err := c.Cloud.Ask(ctx, q)
	if err != nil && ctx.Err() == nil {
		c.end(err)
	}
	return a, err
}

// read makes both models read the text.
func (w *worker) read(ctx context.Context, d *draft) (trace.Text, error) {
	t := trace.Text{Prompt: d.about}
	text := append(append([]int32(nil), d.prompt...), d.answer...)
	large, err := w.large.read(ctx, text, len(d.prompt))
	if err != nil {
		return t, fmt.Errorf("the large model: %w", err)
	}
	err = w.edge.Read(ctx, text, len(d.prompt), 0, func(s engine.Seen) (err error) {
		l := large[len(t.Positions)]
		t.Positions = append(t.Positions, trace.Position{
			Pos: int32(s.Pos), Reference: text[s.Pos], Small: s.Choice, Large: l.token, Margin: s.Margin,
			Entropy:      s.Entropy,
			SmallLogProb: s.LogProb, LargeLogProb: l.logProb, ReferenceSmall: s.Given, ReferenceLarge: l.given,
		})
		t.Hidden, err = trace.AppendHalves(t.Hidden, s.Hidden)
		return err
	})
	if err != nil {
		return t, err
	}
	if err := w.label(ctx, d, t.Positions); err != nil {
		return t, fmt.Errorf("labels: %w", err)
	}
	t.Rollouts = d.small.rollouts + d.large.rollouts
	t.RolloutTokens = d.small.tokens + d.large.tokens
	return t, nil
}
