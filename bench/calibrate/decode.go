package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
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
	IDs   []int32
	Right func(ctx context.Context, answer string) (bool, error) // grades an answer; nil: not graded
}

// Decoded is an answer with the router's confidences.
type Decoded struct {
	certify.Answer
	Confidences []float32 // of the tokens, including an end token
	Right       bool      // false also if answers are not graded
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
			return p.device(ctx, r, next, prompts, got, func() {
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

// device answers prompts until there are no more.
func (p Pair) device(
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
		if got[i], err = p.answer(ctx, r, s, cloud, prompts[i]); err != nil {
			return err
		}
		each()
	}
	return nil
}

func (p Pair) answer(
	ctx context.Context, r *router.Router, s *engine.Session, cloud engine.Cloud, prompt Prompt,
) (d Decoded, err error) {
	route := engine.Route{
		Settings: terms.Settings{MaxTokens: p.MaxTokens}, Router: r, Cloud: cloud,
		Draft: engine.DraftOptions{Mode: engine.Serial, Deadline: -1, Warm: -1},
		Observe: func(e engine.Event) {
			if t := e.Token; t != nil {
				d.Confidences = append(d.Confidences, t.Confidence)
			}
		},
	}
	var text strings.Builder
	for t, err := range s.Routed(ctx, prompt.IDs, route) {
		if err != nil {
			return d, err
		}
		text.WriteString(t.Text)
	}
	sum := s.Summary().Routing
	d.Answer = certify.Answer{Escalated: sum.Cloud, Tokens: sum.Tokens}
	if sum.Answered < sum.Escalations {
		return d, fmt.Errorf("the large model did not answer: %w", sum.Cause)
	}
	if prompt.Right != nil {
		d.Right, err = prompt.Right(ctx, text.String())
	}
	return d, err
}
