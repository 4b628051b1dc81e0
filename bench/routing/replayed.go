package routing

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// ReplayOptions are the differences of a [Replay] from the recording. Modes and the options of decoding may differ.
type ReplayOptions struct {
	Player    *replay.Player
	Modes     []outcome.Mode
	Questions int            // use the first questions of the recording, this many; 0 means all
	Router    router.Options // for the policy learned without a network: that of the recording
	Draft     draft.Options  // as in [Options]

	// Differences from the recording; zero values mean none.
	Link      *remote.StageOptions // round trip, losses, traces and seed of another link
	EdgeTPS   float64              // as in [Options]
	RowCost   float64              // with EdgeTPS
	CloudPace *time.Duration       // time of the large model for an answer, without waiting for others
}

// ErrNotRecorded means that a recording lacks something that a mode needs.
var ErrNotRecorded = errors.New("missing in the recording")

// Replay decodes the questions of a recording again in each mode, in virtual time: see package replay. Reports have the
// form of those of [Measure], and are the same each time. For the mode cloud, which uses HTTP, the recorded times are
// used, adjusted for another round trip and another pace of the large model if these are given: it must be in the
// recording.
//
// Each question has its own starting position in a link's traces: the first question of the workload at the beginning,
// the others spread over the length. So all modes have the same conditions, and all parts of the traces count equally.
func Replay(ctx context.Context, o ReplayOptions) ([]outcome.Report, error) {
	if err := o.checkModes(); err != nil {
		return nil, err
	}
	r := &replayRun{ReplayOptions: o}
	if err := r.prepareReplay(); err != nil {
		return nil, err
	}
	answers := make([][]outcome.Answer, len(o.Modes))
	assumed := make([]replay.Assumed, len(o.Modes))
	var jobs []func() error
	for i := range o.Modes {
		answers[i] = make([]outcome.Answer, len(r.all))
		jobs = append(jobs, r.newDeviceJobs(ctx, i, answers[i], &assumed[i])...)
	}
	if err := runJobs(ctx, jobs); err != nil {
		return nil, err
	}
	reports := r.cell.buildReports(answers, r.referenceAnswers())
	for i := range reports {
		reports[i].Assumed = &assumed[i]
	}
	return reports, nil
}

func (o *ReplayOptions) checkModes() error {
	if len(o.Modes) == 0 {
		return errors.New("bench: there are no modes")
	}
	recorded := o.Player.Modes()
	for _, m := range o.Modes {
		switch {
		case m.Kind == outcome.Paper:
			return fmt.Errorf("%w: mode %s, which is never recorded: measure it", ErrNotRecorded, m.Name)
		case (m.Kind == outcome.Cloud || m.Margin > 0 || m.Judged) && !slices.Contains(recorded, m.Name):
			return fmt.Errorf("%w: mode %s, of which nothing is computed: record that mode as well",
				ErrNotRecorded, m.Name)
		case m.Asks() && !o.Player.Asked() && !slices.ContainsFunc(recorded, modeAsks):
			return fmt.Errorf("%w: answers of the large model for mode %s: "+
				"record a mode that asks, such as serial", ErrNotRecorded, m.Name)
		}
	}
	return o.checkRecordedRouter()
}

func modeAsks(name string) bool {
	m, err := outcome.ParseMode(name)
	return err == nil && m.Asks()
}

func (o *ReplayOptions) checkRecordedRouter() error {
	if o.Router.Policy == router.Learned && o.Player.Router == "" && slices.ContainsFunc(o.Modes, outcome.Mode.Routes) {
		return fmt.Errorf("%w: confidences of the policy learned: record with it", ErrNotRecorded)
	}
	if o.Router.Policy != router.Learned || o.Router.Net == nil || !slices.ContainsFunc(o.Modes, outcome.Mode.Routes) {
		return nil
	}
	if o.Router.Net.Hash() != o.Player.Router {
		return fmt.Errorf("%w: confidences of this router: the recording is from another one", ErrNotRecorded)
	}
	return nil
}

// replayRun is one call of [Replay].
type replayRun struct {
	ReplayOptions
	terms   replay.Terms
	cell    Options // settings of the cell
	all     []round // in the order of the reports
	prompts map[int][]int32
	places  map[round]int // in all
	numbers []int         // of the questions
}

// round is a question, and how often it was asked before.
type round struct{ question, take int }

func (r *replayRun) prepareReplay() error {
	p := r.Player
	r.terms = replay.Terms{EdgeTPS: r.EdgeTPS, RowCost: r.RowCost, CloudPace: r.CloudPace}
	r.cell = Options{
		RTT: p.RTT, Loss: p.Loss, Traces: p.Traces, EdgeTPS: p.EdgeTPS, RowCost: p.RowCost, CloudPace: p.CloudPace,
		Parallel: p.Parallel, Modes: r.Modes,
	}
	if l := r.Link; l != nil {
		o, err := l.Link("")
		if err != nil {
			return err
		}
		o.Up.Loss, o.Down.Loss = 0, 0
		r.terms.Link = &replay.Link{Options: o, Loss: l.Loss, Seed: l.Seed}
		r.cell.RTT, r.cell.Loss, r.cell.Traces = l.RTT, l.Loss, l.Traces
	}
	if r.EdgeTPS > 0 {
		r.cell.EdgeTPS, r.cell.RowCost = r.EdgeTPS, r.RowCost
	}
	if r.CloudPace != nil {
		r.cell.CloudPace = *r.CloudPace
	}
	r.listRounds()
	return nil
}

func (r *replayRun) listRounds() {
	r.numbers, _, r.prompts = r.Player.Questions()
	if r.Questions > 0 && r.Questions < len(r.numbers) {
		r.numbers = r.numbers[:r.Questions]
	}
	takes := 1
	for _, q := range r.numbers {
		for _, m := range r.Player.Modes() {
			takes = max(takes, len(r.Player.Found(m, q)))
		}
	}
	r.places = map[round]int{}
	for take := range takes {
		for _, q := range r.numbers {
			r.places[round{q, take}] = len(r.all)
			r.all = append(r.all, round{q, take})
		}
	}
}

// roundsByDevice returns the rounds of each device in a mode, in order: as recorded, or else distributed.
func (r *replayRun) roundsByDevice(mode string) map[int][]round {
	chains, recorded, times := map[int][]round{}, map[round]bool{}, map[int]int{}
	for _, a := range r.Player.Answers {
		if a.Mode != mode {
			continue
		}
		one := round{a.Question, times[a.Question]}
		times[a.Question]++
		if _, ok := r.places[one]; ok {
			chains[a.Device], recorded[one] = append(chains[a.Device], one), true
		}
	}
	for i, one := range r.all {
		if device := i % max(1, r.cell.Parallel); !recorded[one] {
			chains[device] = append(chains[device], one)
		}
	}
	return chains
}

// newDeviceJobs returns the jobs of the devices of a mode. Each answers its first question once before, which does not
// count, to learn what its models cost.
func (r *replayRun) newDeviceJobs(
	ctx context.Context, mode int, answers []outcome.Answer, assumed *replay.Assumed,
) (all []func() error) {
	var mu sync.Mutex
	m := r.Modes[mode]
	for _, chain := range r.roundsByDevice(m.Name) {
		all = append(all, func() error {
			d := &replayedDevice{replayRun: r, m: m}
			for i, one := range append(chain[:1:1], chain...) {
				a, missed, err := d.answerRound(ctx, one)
				if err != nil {
					return fmt.Errorf("mode %s, question %d: %w", m.Name, one.question+1, err)
				}
				if i == 0 {
					d.router = nil // budgets begin after the warm-up
					continue
				}
				a.Question, a.Repetition = one.question, one.take
				answers[r.places[one]] = a
				mu.Lock()
				assumed.Plus(missed)
				mu.Unlock()
			}
			return nil
		})
	}
	return all
}

func runJobs(ctx context.Context, jobs []func() error) error {
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for _, job := range jobs {
		workers.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return job()
		})
	}
	return workers.Wait()
}

// replayedDevice is the replay of a device in a mode.
type replayedDevice struct {
	*replayRun
	m      outcome.Mode
	router *router.Router // nil before the first question, and if the mode has none
	cost   lookup.Cost
	waits  draft.Waits
}

func (d *replayedDevice) answerRound(
	ctx context.Context, one round,
) (a outcome.Answer, missed replay.Assumed, err error) {
	prompt := d.prompts[one.question]
	if d.m.Kind == outcome.Cloud {
		return d.recordedCloudAnswer(one, a)
	}
	clock := simclock.New(time.Unix(0, 0))
	at := max(0, slices.Index(d.numbers, one.question))
	of := replay.Of{
		Mode: d.m.Name, Question: one.question, Take: one.take,
		Part: float64(at) / float64(len(d.numbers)),
	}
	terms := d.terms
	terms.Sure = d.m.Routes() && d.Router.Policy == router.Learned
	clock.Run(func() {
		t := d.Player.Text(of, terms, clock)
		err = d.decodeAnswer(ctx, clock, t, prompt, &a)
		missed = t.Assumed
	})
	a.Known, a.Correct = d.recordedVerdict(one.question, a.IDs)
	return a, missed, err
}

// recordedCloudAnswer returns the large model's own answer: as recorded, with one round trip of the link; or at another
// pace, with the recorded time for the prompt, and the pace for each token, however long it took when it was recorded.
func (d *replayedDevice) recordedCloudAnswer(one round, a outcome.Answer) (outcome.Answer, replay.Assumed, error) {
	found := d.Player.Found(d.m.Name, one.question)
	if len(found) == 0 {
		return a, replay.Assumed{}, fmt.Errorf("%w: an answer to this question in this mode", ErrNotRecorded)
	}
	f := found[one.take%len(found)]
	a.IDs, a.Took, a.Known, a.Correct = f.IDs, f.Took, f.Graded, f.Correct
	rtt := d.Player.RTT
	if d.Link != nil {
		rtt = d.Link.RTT
	}
	a.Took = max(0, a.Took+rtt-d.Player.RTT)
	if p := d.terms.CloudPace; p != nil {
		a.Took = rtt + f.Prefill + time.Duration(len(f.IDs))**p
	}
	a.Figures = outcome.CloudFigures(len(d.prompts[one.question]), len(f.IDs), f.Ended)
	return a, replay.Assumed{}, nil
}

// recordedVerdict knows whether an answer is right only if the recording has the same one.
func (d *replayedDevice) recordedVerdict(question int, ids []int32) (known, correct bool) {
	for _, m := range d.Player.Modes() {
		for _, f := range d.Player.Found(m, question) {
			if f.Graded && slices.Equal(f.IDs, ids) {
				return true, f.Correct
			}
		}
	}
	return false, false
}

func (d *replayedDevice) decodeAnswer(
	ctx context.Context, clock *simclock.Clock, t *replay.Text, prompt []int32, a *outcome.Answer,
) error {
	start := clock.Now()
	begun, decoder, err := d.newDecoder(clock, t, prompt)
	if err != nil {
		return err
	}
	var shown []draft.Token
	var seen []float32
	a.Figures, err = decoder.Decode(ctx, prompt, func(e draft.Event) bool {
		a.Observe(e)
		if token := e.Token; token != nil {
			shown, seen = append(shown, *token), append(seen, token.Confidence)
			if !token.End {
				a.Shown = append(a.Shown, clock.Now().Sub(start))
				a.IDs, a.Origins = append(a.IDs, token.ID), append(a.Origins, string(token.Origin))
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if begun != nil {
		begun.Add(begun.Spent(seen, len(a.IDs)))
	}
	t.Shown(prompt, shown)
	a.Figures.PromptTokens, a.Took = len(prompt), clock.Now().Sub(start)
	return nil
}

// newDecoder returns the decoder of a mode, as in package engine, and its router after Begin; nil if it has none.
func (d *replayedDevice) newDecoder(
	clock *simclock.Clock, t *replay.Text, prompt []int32,
) (*router.Router, *draft.Decoder, error) {
	p := d.Player
	o := d.m.Draft(d.Draft)
	o.Vocab, o.Cost, o.Waits, o.Clock, o.Trace = p.Vocab, &d.cost, &d.waits, clock, true
	o.MaxTokens, o.Room = p.MaxTokens, max(1, p.Context-len(prompt))
	o.End = func(id int32) bool { return slices.Contains(p.Ends, id) }
	if d.router == nil {
		rule, err := d.Router, error(nil)
		if rule.Policy == router.Learned && rule.Net == nil { // the recorded confidences are used instead
			rule.Net = &router.Net{Layers: []router.Layer{{In: 1, Out: 1}}}
		}
		if d.router, err = d.m.Router(rule); err != nil {
			return nil, nil, err
		}
	}
	if d.router == nil {
		decoder, err := draft.New(t.Model(), nil, nil, o)
		return nil, decoder, err
	}
	r := d.router.Begin()
	if !r.Asks() && !o.Verify {
		o.Warm = -1
	}
	decoder, err := draft.New(t.Model(), r.On(confidenceDevice{}), t.Cloud(), o)
	return r, decoder, err
}

// confidenceDevice is a device with routers: heads of a recording have the confidence, and no hidden state.
type confidenceDevice struct{ backend.Device }

func (confidenceDevice) LoadRouter(layers []backend.RouterLayer, _ bool) (backend.Router, error) {
	return stubRouter(layers[0].In), nil
}

// stubRouter is a router that is never evaluated.
type stubRouter int

func (w stubRouter) Dim() int { return int(w) }

func (r *replayRun) referenceAnswers() []outcome.Answer {
	all := make([]outcome.Answer, slices.Max(r.numbers)+1)
	for _, q := range r.numbers {
		found := r.Player.LargeAlone(q)
		if found == nil {
			return nil
		}
		all[q].IDs = found.IDs
	}
	return all
}
