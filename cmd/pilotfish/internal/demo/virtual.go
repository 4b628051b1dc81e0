package demo

import (
	"context"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Speeds of Qwen2.5-Coder 0.5B and 1.5B in Q4_K_M, each on two cores: docs/results/real-times.jsonl.gz.
const (
	deviceReads  = 1450.0 // tokens of a prompt per second
	deviceWrites = 60.0   // passes per second
	rowCost      = 0.08   // of each further token in a pass, as a share of the pass
	serverReads  = 380.0
	serverPace   = 40 * time.Millisecond // for each token of its own
)

// maxTokens is the maximum length of an answer, in tokens.
const maxTokens = 64

// virtualPair is a small model on a virtual device and a large one on a virtual server: they compute here, and take the
// time that the constants above say.
type virtualPair struct {
	small, large *engine.Engine
	rtt          time.Duration
	prompts      [][]int32 // of the questions
	shared       int       // length of the common beginning of all prompts, which the server has read
}

// virtualAnswer is an answer, and what it cost.
type virtualAnswer struct {
	ids   []int32
	asked map[int]bool // tokens of the large model, by their places in ids
	right bool
	took  time.Duration
	sum   draft.Summary // Prefilled and Decoded count tokens of the large model
}

func (p *virtualPair) preparePrompts(questions []demo.Question) error {
	for _, q := range questions {
		prompt, err := p.small.Chat(tokenizer.Message{Role: "user", Content: q.Text})
		if err != nil {
			return err
		}
		p.prompts = append(p.prompts, prompt)
	}
	p.shared = len(p.prompts[0])
	for _, prompt := range p.prompts[1:] {
		p.shared = min(p.shared, terms.CommonPrefix(prompt, p.prompts[0]))
	}
	return nil
}

// answerAlone returns the large model's own answer to a question, as a server streams it.
func (p *virtualPair) answerAlone(
	ctx context.Context, s *engine.Session, question int, q demo.Question,
) (a virtualAnswer, err error) {
	prompt := p.prompts[question]
	for t, err := range s.Generate(ctx, prompt, terms.Settings{MaxTokens: maxTokens, Lookup: -1}) {
		if err != nil {
			return a, err
		}
		a.ids = append(a.ids, t.ID)
	}
	a.sum.Prefilled, a.sum.Decoded = len(prompt), len(a.ids)
	if s.Summary().Stop == engine.StopEnd {
		a.sum.Decoded++
	}
	a.right = q.Correct(s.Summary().Text)
	a.took = p.rtt + readingTime(len(prompt), serverReads) + time.Duration(len(a.ids))*serverPace
	return a, nil
}

// answerWith returns the small model's answer to a question; it asks the large model behind far, unless that is nil.
func (p *virtualPair) answerWith(
	ctx context.Context, s *engine.Session, far engine.Cloud, asks *router.Router, question int, q demo.Question,
) (a virtualAnswer, err error) {
	clock := simclock.New(time.Unix(0, 0))
	r := engine.Route{
		Settings: terms.Settings{MaxTokens: maxTokens},
		Draft:    engine.DraftOptions{Mode: engine.Serial, Deadline: -1, Lookup: -1, Clock: clock},
		Wrap:     func(m draft.Model) draft.Model { return virtualDevice{m, clock} },
	}
	if far != nil {
		r.Draft.Mode, r.Draft.Branches, r.Draft.Window, r.Draft.InFlight = engine.Pipelined, engine.AutoBranches, 32, 4
		r.Router, r.Cloud = asks, &virtualServer{p: p, model: far, clock: clock}
	}
	a.asked = map[int]bool{}
	clock.Run(func() {
		for t, failed := range s.Routed(ctx, p.prompts[question], r) {
			if err = failed; err != nil {
				return
			}
			a.asked[len(a.ids)] = t.Origin == pilotfish.Large
			a.ids = append(a.ids, t.ID)
		}
	})
	a.took, a.sum, a.right = clock.Now().Sub(time.Unix(0, 0)), s.Summary().Routing, q.Correct(s.Summary().Text)
	return a, err
}

func readingTime(tokens int, perSecond float64) time.Duration {
	return time.Duration(float64(tokens) / perSecond * float64(time.Second))
}

// virtualDevice is the small model at the speed of the device.
type virtualDevice struct {
	draft.Model
	clock *simclock.Clock
}

func (d virtualDevice) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	sleepFor(ctx, d.clock, readingTime(len(prompt), deviceReads))
	return d.Model.Prefill(ctx, prompt)
}

func (d virtualDevice) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	pass := float64(time.Second) / deviceWrites * (1 + rowCost*float64(len(nodes)-1))
	sleepFor(ctx, d.clock, time.Duration(pass))
	return d.Model.Extend(ctx, nodes)
}

// sleepFor returns false if ctx is done before d has passed.
func sleepFor(ctx context.Context, clock *simclock.Clock, d time.Duration) bool {
	return ctx.Err() == nil && !clock.Sleep(d, func() bool { return ctx.Err() != nil })
}

// virtualServer is the large model at the speed of the server and behind the link, for one answer. It reads texts one
// after the other.
type virtualServer struct {
	p      *virtualPair
	model  engine.Cloud
	clock  *simclock.Clock
	begun  [][]int32 // texts that it has read or is reading
	served [][]int32 // texts that it has answered, or that were sent early
	free   time.Time // when it will have read them
}

// Ask implements [engine.Cloud].
func (s *virtualServer) Ask(ctx context.Context, q engine.CloudQuestion) (a engine.CloudAnswer, err error) {
	way := s.p.rtt / 2
	if !sleepFor(ctx, s.clock, way) {
		return a, context.Cause(ctx)
	}
	a.Queue = max(0, s.free.Sub(s.clock.Now()))
	a.Compute = s.readText(q.Context) - a.Queue + serverPace
	if !sleepFor(ctx, s.clock, a.Queue+a.Compute) {
		return a, context.Cause(ctx)
	}
	said, err := s.model.Ask(ctx, q)
	if err != nil {
		return a, err
	}
	a.Reply, a.Prefilled = said.Reply, len(q.Context)-longestPrefix(s.served, q.Context)
	if s.served = append(s.served, q.Context); !sleepFor(ctx, s.clock, way) {
		return engine.CloudAnswer{}, context.Cause(ctx)
	}
	return a, nil
}

// Warm implements [draft.Warmer].
func (s *virtualServer) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	way := s.p.rtt / 2
	if !sleepFor(ctx, s.clock, way) {
		return 0, 0, context.Cause(ctx)
	}
	s.readText(text)
	if !sleepFor(ctx, s.clock, way) {
		return 0, 0, context.Cause(ctx)
	}
	s.served = append(s.served, text)
	return 4 * len(text), 0, nil // bytes: without any, nothing would count as sent
}

// readText begins to read the new part of a text, and returns how long it takes from now until it has been read. The
// last token belongs to the pass that answers.
func (s *virtualServer) readText(text []int32) time.Duration {
	n := max(0, len(text)-1-max(s.p.shared, longestPrefix(s.begun, text)))
	s.begun = append(s.begun, text)
	if now := s.clock.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(readingTime(n, serverReads))
	return s.free.Sub(s.clock.Now())
}

func longestPrefix(texts [][]int32, of []int32) (most int) {
	for _, text := range texts {
		most = max(most, terms.CommonPrefix(text, of))
	}
	return most
}
