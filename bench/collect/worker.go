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
	w.small = localModel{w.edge}
	if p.o.Reference == Routed {
		if w.router, err = router.New(p.o.Router); err != nil {
			return nil, err
		}
	}
	if p.o.Large == nil {
		w.large = &remoteModel{far: p.o.Far}
		return w, nil
	}
	w.largeSession, err = p.o.Large.NewSession()
	w.large = localModel{w.largeSession}
	return w, err
}

func (w *worker) closeLarge() { w.large.closeModel() }

// pendingAnswer is an answer before both models read its text.
type pendingAnswer struct {
	question task.Question
	prompt   []int32
	answer   []int32 // including its end token, if there is one
	small    *choiceTree
	large    *choiceTree
	about    trace.Prompt
	decided  bool            // [RuleConsequence] has marked a position; labels are computed from the last position on
	graded   map[string]bool // whether each graded answer is right
}

func (w *worker) collectText(ctx context.Context, number int) (trace.Text, error) {
	d := &pendingAnswer{question: w.o.Data.Questions[number]}
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
	d.small = newChoiceTree(w.small, d.prompt, most, w.tokens.IsEnd)
	d.large = newChoiceTree(w.large, d.prompt, most, w.tokens.IsEnd)
	if err := w.decodeReference(ctx, d, number, most); err != nil {
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
	return w.readText(ctx, d)
}

func (w *worker) gradeReference(ctx context.Context, d *pendingAnswer) (bool, error) {
	if w.o.Reference == Given {
		return w.gradeAnswer(ctx, d, d.question.Reference, false)
	}
	return w.gradeTokens(ctx, d, d.answer)
}

// gradeTokens reports whether an answer of the models is right. One without an end token was cut.
func (w *worker) gradeTokens(ctx context.Context, d *pendingAnswer, answer []int32) (bool, error) {
	last := len(answer) - 1
	return w.gradeAnswer(ctx, d, w.decodeAnswer(answer), last < 0 || !w.tokens.IsEnd(answer[last]))
}

// gradeAnswer reports whether an answer is right. Each answer is graded once: many choices lead to the same answer, and
// grading may run a program.
func (w *worker) gradeAnswer(ctx context.Context, d *pendingAnswer, answer string, cut bool) (bool, error) {
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

// decodeReference determines the answer. The text has room for most tokens, including those of the prompt.
func (w *worker) decodeReference(ctx context.Context, d *pendingAnswer, number, most int) (err error) {
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
		d.answer, err = d.small.continueAnswer(ctx, nil)
		d.small.rollouts, d.small.tokens = 0, 0
	case Large, Judged:
		d.answer, err = d.large.continueAnswer(ctx, nil)
		d.large.rollouts, d.large.tokens = 0, 0 // these were not for labels
	case Sampled:
		s := terms.Sampling{Temperature: w.o.Temperature, Seed: promptSeed(w.o.Seed, number)}
		err = w.large.generateTokens(ctx, d.prompt, room, s, func(id int32) bool {
			d.answer = append(d.answer, id)
			return !w.tokens.IsEnd(id)
		})
	case Routed:
		err = w.decodeRouted(ctx, d, room)
	}
	// an answer without an end was decoded up to the limit
	d.about.Cut = len(d.answer) == room && !w.tokens.IsEnd(d.answer[room-1])
	return err
}

// promptSeed mixes a seed with the number of a prompt: noise is a function of seed and position, and must be
// independent for different prompts.
func promptSeed(seed uint64, number int) uint64 {
	b := binary.LittleEndian.AppendUint64(nil, seed)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, uint64(number)))
	return binary.LittleEndian.Uint64(sum[:])
}

// decodeAnswer returns the text of an answer without its end token.
func (w *worker) decodeAnswer(answer []int32) string {
	if n := len(answer); n > 0 && w.tokens.IsEnd(answer[n-1]) {
		answer = answer[:n-1]
	}
	return w.tokens.Decode(answer)
}

func (w *worker) decodeRouted(ctx context.Context, d *pendingAnswer, room int) error {
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
		Cloud: failFastCloud{retryingCloud{far}, cancel},
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

// failFastCloud ends the decoding if a question gets no answer: otherwise the small model's token would be used, in a
// text that no router would produce.
type failFastCloud struct {
	engine.Cloud
	end context.CancelCauseFunc
}

func (c failFastCloud) Ask(ctx context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	a, err := c.Cloud.Ask(ctx, q)
	if err != nil && ctx.Err() == nil {
		c.end(err)
	}
	return a, err
}

func (w *worker) readText(ctx context.Context, d *pendingAnswer) (trace.Text, error) {
	t := trace.Text{Prompt: d.about}
	text := append(append([]int32(nil), d.prompt...), d.answer...)
	large, err := w.large.readChoices(ctx, text, len(d.prompt))
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
	if err := w.labelPositions(ctx, d, t.Positions); err != nil {
		return t, fmt.Errorf("labels: %w", err)
	}
	t.Rollouts = d.small.rollouts + d.large.rollouts
	t.RolloutTokens = d.small.tokens + d.large.tokens
	return t, nil
}
