package routing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/bench/timeline"
	"github.com/pilotfish-ai/pilotfish/internal/cputime"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Options configure a measurement with [Measure].
type Options struct {
	Edge, Large *engine.Engine
	Questions   []task.Question
	Modes       []outcome.Mode
	Router      router.Options
	Draft       draft.Options // window, open escalations, deadline; the mode sets the rest
	Raw         bool          // the questions are texts to continue, without the chat template
	Repeat      int           // how often each question is asked in each mode; 0 means once
	WarmUp      int           // uncounted questions that each device answers first in each mode
	MaxTokens   int           // of an answer; 0 means 64
	RTT         time.Duration // of the HTTP baselines; the link of Dial is separate
	Loss        float64       // of the link of Dial, for reports
	Traces      []string      // of the link of Dial, for reports
	EdgeTPS     float64       // pace of the small model, in forward passes per second; 0: unlimited
	RowCost     float64       // with EdgeTPS: additional time of each further row, as a share of a pass
	CloudPace   time.Duration // time per token of a text that the large model streams
	Parallel    int           // concurrent answers, as if by separate devices; 0 means 8

	// the large model without a network, for the HTTP baselines
	Direct   draft.Cloud
	Dial     func(ctx context.Context, device int) (draft.Cloud, func(), error) // connects a device over our protocol
	Progress func(done, total int)                                              // called after each answer; may be nil

	// Timeline, if set, returns where to draw an answer that counts and is about to be decoded; nil: nowhere. Those of
	// the mode cloud are not decoded here.
	Timeline func(outcome.Mode, *outcome.Cell, task.Question) *timeline.Text
	Record   *replay.Recorder // records the answers, if set; not those of a warm-up
}

// Measure asks all questions in each mode and returns the reports in the order of the modes. Each question is asked in
// all modes, in turns, before the next one, so that a disturbance affects all modes. If a mode fails or ctx is done,
// the reports cover the questions that all modes have answered; there are no reports if there are no such questions.
func Measure(ctx context.Context, o Options) ([]outcome.Report, error) {
	if o.Parallel == 0 {
		o.Parallel = 8
	}
	o.MaxTokens = cmp.Or(o.MaxTokens, usualTokens)
	o.Repeat = max(o.Repeat, 1)
	b := &measurement{Options: o, rounds: o.Repeat * len(o.Questions)}
	b.total = len(o.Modes) * b.rounds
	if slices.ContainsFunc(o.Modes, func(m outcome.Mode) bool { return m.Kind == outcome.Paper }) {
		w, err := remote.StartWeb(o.Large, o.Direct, o.RTT)
		if err != nil {
			return nil, err
		}
		defer w.Close()
		b.web = w
	}
	var alone []outcome.Answer
	if needsReference(o.Modes) {
		b.total += len(o.Questions)
		reference := []outcome.Mode{{Name: cloudAlone, Kind: outcome.Reference}}
		got, err := b.answerRounds(ctx, reference, len(o.Questions), 0)
		if err != nil {
			return nil, fmt.Errorf("the large model alone: %w", err)
		}
		alone = got[0]
	}
	answers, err := b.answerRounds(ctx, o.Modes, b.rounds, o.WarmUp)
	if len(answers) == 0 || len(answers[0]) == 0 {
		return nil, err
	}
	return b.buildReports(answers, alone), err
}

// buildReports takes in alone the large model's own answers, if no mode has them.
func (o *Options) buildReports(answers [][]outcome.Answer, alone []outcome.Answer) []outcome.Report {
	return outcome.Reports(o.Modes, answers, outcome.ReportOptions{
		Cell: o.sweepCell(), Alone: alone, Verdict: o.RTT + o.CloudPace,
	})
}

func (o *Options) sweepCell() *outcome.Cell {
	return &outcome.Cell{
		RTT: result.Rounded(o.RTT), Loss: o.Loss, Trace: outcome.TraceNames(o.Traces), EdgeTPS: o.EdgeTPS,
		RowCost: o.RowCost,
		ModelMS: result.Rounded(o.CloudPace), Parallel: o.Parallel,
	}
}

// measurement is one call of [Measure].
type measurement struct {
	Options
	web    *remote.Web // nil: no mode uses HTTP
	counts bool        // answers count; false during the warm-up
	rounds int         // questions, including repetitions
	total  int         // answers of all modes
	mu     sync.Mutex  // for done, while devices run
	done   int         // of total
}

// connectCloud returns a nil cloud for a mode that asks none.
func (b *measurement) connectCloud(ctx context.Context, m outcome.Mode, number int) (draft.Cloud, func(), error) {
	switch m.Kind {
	case outcome.Paper:
		t, err := b.Edge.Tokenizer()
		if err != nil {
			return nil, nil, err
		}
		return b.web.Paper(func(ids []int32) string { return spellTokens(t, ids) }), func() {}, nil
	case outcome.Routed, outcome.Verified, outcome.Speculative:
		return b.Dial(ctx, number)
	}
	return nil, func() {}, nil
}

// spellTokens returns the text of ids, including special tokens, except for the first one if each text begins with it.
func spellTokens(t *tokenizer.Tokenizer, ids []int32) string {
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

func (b *measurement) measureAnswer(
	ctx context.Context, m outcome.Mode, s *modeSession, question, device int,
) (outcome.Answer, error) {
	q, pictured := b.Questions[question], question < outcome.MaxPictured
	prompt, err := b.Prompt(q.Text)
	if err != nil {
		return outcome.Answer{}, err
	}
	a := outcome.Answer{Known: q.Grade != nil, Pictured: pictured}
	take := b.beginTake(question, device, m, prompt)
	before := cputime.Used()
	a.Begin = time.Now()
	var text string
	switch m.Kind {
	case outcome.Reference:
		text, err = b.streamAnswer(ctx, prompt, 0, 0, &a)
	case outcome.Cloud:
		text, err = b.streamAnswer(ctx, prompt, b.RTT, b.CloudPace, &a)
		if take != nil && len(a.Shown) > 0 {
			take.Streamed(a.Shown[0] - b.RTT)
		}
	default:
		err = b.decodeAnswer(ctx, m, s, prompt, &a, take, b.answerTimeline(m, q))
		text = s.session.Summary().Text
	}
	a.Took = time.Since(a.Begin)
	if b.Parallel == 1 { // else it cannot be said whose it is
		a.CPU = cputime.Used() - before
	}
	a.Correct = a.Known && q.Grade(text) == task.Right
	if take != nil && err == nil {
		take.End(a.IDs, a.Figures.Tokens > len(a.IDs), a.Known, a.Correct)
	}
	return a, err
}

// Prompt returns the prompt of a question for the small model.
func (o *Options) Prompt(text string) ([]int32, error) {
	if o.Raw {
		return o.Edge.RawPrompt(text)
	}
	return o.Edge.Chat(tokenizer.Message{Role: "user", Content: text})
}

// streamAnswer makes each token arrive at its pace after a wait for the round trip, as in a stream over HTTP.
func (b *measurement) streamAnswer(
	ctx context.Context, prompt []int32, rtt, pace time.Duration, a *outcome.Answer,
) (string, error) {
	s, err := b.Large.NewSession()
	if err != nil {
		return "", err
	}
	time.Sleep(rtt)
	due := time.Now()
	for t, err := range s.Generate(ctx, prompt, terms.Settings{MaxTokens: b.MaxTokens, Lookup: -1}) {
		if err != nil {
			return "", err
		}
		due = due.Add(pace)
		time.Sleep(time.Until(due))
		a.Show()
		a.IDs = append(a.IDs, t.ID)
	}
	a.Figures = outcome.CloudFigures(len(prompt), len(a.IDs), s.Summary().Stop == engine.StopEnd)
	return s.Summary().Text, nil
}

func (b *measurement) newRoute(m outcome.Mode, far draft.Cloud, a *outcome.Answer) engine.Route {
	o := m.Draft(b.Draft)
	o.Trace = o.Trace || a.Pictured
	return engine.Route{
		Settings: terms.Settings{MaxTokens: b.MaxTokens}, Cloud: far, Draft: o, Pace: b.EdgeTPS,
		RowCost: b.RowCost, Observe: a.Observe,
	}
}

// answerTimeline returns where an answer is drawn; nil: nowhere.
func (b *measurement) answerTimeline(m outcome.Mode, q task.Question) *timeline.Text {
	if b.Timeline == nil || !b.counts {
		return nil
	}
	return b.Timeline(m, b.sweepCell(), q)
}

func (b *measurement) decodeAnswer(
	ctx context.Context, m outcome.Mode, s *modeSession, prompt []int32, a *outcome.Answer, take *replay.Take,
	drawn *timeline.Text,
) error {
	r := b.newRoute(m, s.far, a)
	r.Router = s.router
	drawn.Watch(&r)
	defer drawn.End()
	recordRoute(take, &r)
	for t, err := range s.session.Routed(ctx, prompt, r) {
		if err != nil {
			return err
		}
		a.Show()
		a.IDs, a.Origins = append(a.IDs, t.ID), append(a.Origins, string(t.Origin))
	}
	a.Figures = s.session.Summary().Routing
	return nil
}

// cloudAlone is the name of the large model alone without a network: it is the reference for modes if the mode cloud is
// not measured.
const cloudAlone = "cloud"

func needsReference(modes []outcome.Mode) bool {
	return slices.ContainsFunc(modes, outcome.Mode.AsCloud) &&
		!slices.ContainsFunc(modes, func(m outcome.Mode) bool { return m.Kind == outcome.Cloud })
}
