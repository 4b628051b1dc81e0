package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/certify"
)

// Pair is a pair of models with their settings for decoding.
type Pair struct {
	Edge      *engine.Engine
	Far       engine.Far // the large model
	MaxTokens int        // maximum number of tokens of an answer, at least 1
	Parallel  int        // concurrent answers, which share passes; 0 means 32
}

// Prompt is a prompt with the grading of its answers.
type Prompt struct {
	IDs []int32
	// Right grades an answer, which may be cut at a limit; nil: not graded.
	Right func(ctx context.Context, answer string, cut bool) (bool, error)
}

// Decoded is an answer with confidences.
type Decoded struct {
	certify.Answer
	// Confidences are those that the threshold is compared with, of the tokens, including an end token: the router's,
	// or with the policy verify p(the small model's token) / p(the large one's) under the large model. There they are 1
	// for tokens of which the models agree, and 0 for a replaced one of which nothing else is known.
	Confidences []float32
	Seen        []float32 // those of the router
	Right       bool      // false also if answers are not graded
}

// confidenceCollector collects the confidences of an answer.
type confidenceCollector struct {
	*Decoded
	verifies bool
	prompt   int
	replaced float32 // ratio of the token that the next one replaces
}

func (c *confidenceCollector) observeEvent(e engine.Event) {
	ratio := func(f terms.Finding) float32 { return float32(math.Exp(float64(f.Stands - f.Score))) }
	switch {
	case e.Turn != nil:
		if f := e.Turn.Finding; f.Stands < f.Score { // else it is unknown, as a margin of 0 needs no scores
			c.replaced = ratio(f)
		}
	case e.Escalation != nil && c.verifies: // of tokens that stand
		for _, f := range e.Escalation.Missed {
			c.Confidences[f.Pos-c.prompt] = ratio(f)
		}
	case e.Token != nil:
		t := e.Token
		c.Seen = append(c.Seen, t.Confidence)
		switch {
		case !c.verifies:
			c.Confidences = append(c.Confidences, t.Confidence)
		case t.ID == t.Local:
			c.Confidences = append(c.Confidences, 1)
		default:
			c.Confidences, c.replaced = append(c.Confidences, c.replaced), 0
		}
	}
}

// Decode answers prompts and grades the answers, several at a time, and calls each after every one. Decoding is serial
// and greedy and waits for every answer of the large model: a missing one ends Decode with an error.
func (p Pair) Decode(ctx context.Context, prompts []Prompt, o router.Options, each func()) ([]Decoded, error) {
	r, err := router.New(o)
	if err != nil {
		return nil, err
	}
	got, next := make([]Decoded, len(prompts)), make(chan int, len(prompts))
	for i := range prompts {
		next <- i
	}
	close(next)
	devices, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex // for each
	for range min(cmp.Or(p.Parallel, 32), len(prompts)) {
		devices.Go(func() error {
			return p.answerPrompts(ctx, r, next, prompts, got, func() {
				mu.Lock()
				defer mu.Unlock()
				each()
			})
		})
	}
	if devices.Wait() != nil {
		return got, context.Cause(ctx)
	}
	return got, nil
}

func (p Pair) answerPrompts(
	ctx context.Context, r *router.Router, next <-chan int, prompts []Prompt, got []Decoded, each func(),
) error {
	s, err := p.Edge.NewSession()
	if err != nil {
		return err
	}
	cloud, end, err := p.Far.Session(ctx)
	if err != nil {
		return err
	}
	defer end()
	for i := range next {
		if got[i], err = p.answerPrompt(ctx, r, s, cloud, prompts[i]); err != nil {
			return err
		}
		each()
	}
	return nil
}

func (p Pair) answerPrompt(
	ctx context.Context, r *router.Router, s *engine.Session, cloud engine.Cloud, prompt Prompt,
) (d Decoded, err error) {
	events := &confidenceCollector{Decoded: &d, verifies: r.Verifies(), prompt: len(prompt.IDs)}
	route := engine.Route{
		Settings: terms.Settings{MaxTokens: p.MaxTokens}, Router: r, Cloud: cloud, Observe: events.observeEvent,
		Draft: engine.DraftOptions{Mode: engine.Serial, Deadline: -1, Warm: -1},
	}
	if events.verifies {
		route.Draft.CheckEvery = draft.SerialChecks
	}
	var text strings.Builder
	for t, err := range s.Routed(ctx, prompt.IDs, route) {
		if err != nil {
			return d, err
		}
		text.WriteString(t.Text)
	}
	stop, sum := s.Summary().Stop, s.Summary().Routing
	d.Answer = certify.Answer{Escalated: sum.Cloud, Tokens: sum.Tokens}
	if sum.Late+sum.Failed+sum.Unasked > 0 {
		return d, fmt.Errorf("the large model did not answer: %w", sum.Err)
	}
	if prompt.Right != nil {
		d.Right, err = prompt.Right(ctx, text.String(), stop == engine.StopLength || stop == engine.StopContext)
	}
	return d, err
}
