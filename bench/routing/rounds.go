package routing

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// modeOrder returns the order in which the modes answer the question of a round. Over 2n rounds each mode is equally
// often at each place and, of two modes, each equally often directly after the other: a balanced Latin square
// (Williams, Aust. J. Sci. Res. A, 1949). So after-effects of an answer, such as a warm CPU, affect all modes equally.
func modeOrder(round, modes int) []int {
	all := make([]int, modes)
	for i := range all {
		step := (i + 1) / 2 // 0, 1, -1, 2, -2, …
		if i%2 == 0 {
			step = modes - i/2
		}
		all[i] = (round + step) % modes
	}
	if modes%2 == 1 && round/modes%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// modeSession is the state of a device in one mode: its memory, its connection and its router, which has a balance of
// its own. It persists between questions.
type modeSession struct {
	session *engine.Session
	router  *router.Router // nil: the mode has none
	far     draft.Cloud
	hangUp  func()
	last    string // the previous question
}

// device answers questions, each in all modes.
type device struct {
	b        *measurement
	number   int
	modes    []outcome.Mode
	sessions []*modeSession
}

// answerRounds asks all questions in each of some modes, several at a time: each device takes the next round that is
// free. It returns the answers of each mode in the order of the rounds, without rounds that some mode did not finish.
func (b *measurement) answerRounds(
	ctx context.Context, modes []outcome.Mode, n, warmUp int,
) ([][]outcome.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	devices := make([]*device, min(b.Parallel, n))
	for i := range devices {
		devices[i] = &device{b: b, number: i, modes: modes, sessions: make([]*modeSession, len(modes))}
		defer devices[i].closeSessions()
	}
	all := func(do func(*device) error) {
		var wait sync.WaitGroup
		for _, d := range devices {
			wait.Go(func() {
				if err := do(d); err != nil {
					cancel(err)
				}
			})
		}
		wait.Wait()
	}
	b.counts = false
	all(func(d *device) error { return d.prepareSessions(ctx, warmUp) })
	b.counts = true
	rounds, next := make([][]outcome.Answer, n), atomic.Int64{}
	all(func(d *device) error {
		for i := next.Add(1) - 1; int(i) < len(rounds) && ctx.Err() == nil; i = next.Add(1) - 1 {
			answers, err := d.answerRound(ctx, int(i))
			if err != nil {
				return err
			}
			rounds[i] = answers
		}
		return nil
	})
	answers, whole := groupByMode(rounds, len(modes))
	if whole { // ctx ended too late to matter
		return answers, nil
	}
	return answers, context.Cause(ctx)
}

func groupByMode(rounds [][]outcome.Answer, modes int) (answers [][]outcome.Answer, whole bool) {
	answers, whole = make([][]outcome.Answer, modes), true
	for _, r := range rounds {
		if r == nil {
			whole = false
			continue
		}
		for i := range modes {
			answers[i] = append(answers[i], r[i])
		}
	}
	return answers, whole
}

// prepareSessions also answers questions that do not count. Budgets begin after them.
func (d *device) prepareSessions(ctx context.Context, warmUp int) error {
	for i := range d.modes {
		if err := d.openSession(ctx, i); err != nil {
			return err
		}
	}
	n := len(d.b.Questions)
	for k := range warmUp {
		q := n - 1 - (d.number+k)%n // not the first ones of the measurement, if there are enough
		for i := range d.modes {
			if _, err := d.answerQuestion(ctx, i, q); err != nil {
				return err
			}
		}
	}
	for i, s := range d.sessions {
		var err error
		if s.router, err = d.modes[i].Router(d.b.Router); err != nil {
			return err
		}
	}
	return nil
}

// answerRound returns nil if the round could not be finished.
func (d *device) answerRound(ctx context.Context, round int) ([]outcome.Answer, error) {
	n := len(d.b.Questions)
	answers := make([]outcome.Answer, len(d.modes))
	for _, i := range modeOrder(round, len(d.modes)) {
		a, err := d.answerQuestion(ctx, i, round%n)
		if err != nil {
			return nil, err
		}
		a.Question, a.Repetition = round%n, round/n
		answers[i] = a
		d.b.reportProgress()
	}
	return answers, nil
}

// answerQuestion opens a new session, with the same router, if the previous question was the same one: the KV cache
// would still have its prompt.
func (d *device) answerQuestion(ctx context.Context, mode, question int) (outcome.Answer, error) {
	text := d.b.Questions[question].Text
	if d.sessions[mode].last == text {
		d.sessions[mode].hangUp()
		kept := d.sessions[mode].router
		if err := d.openSession(ctx, mode); err != nil {
			return outcome.Answer{}, err
		}
		d.sessions[mode].router = kept
	}
	s := d.sessions[mode]
	s.last = text
	a, err := d.b.measureAnswer(ctx, d.modes[mode], s, question, d.number)
	if err != nil {
		return a, fmt.Errorf("mode %s: %w", d.modes[mode].Name, err)
	}
	return a, nil
}

func (d *device) openSession(ctx context.Context, mode int) error {
	d.sessions[mode] = nil
	session, err := d.b.Edge.NewSession()
	if err != nil {
		return err
	}
	far, hangUp, err := d.b.connectCloud(ctx, d.modes[mode], d.number)
	if err != nil {
		return fmt.Errorf("mode %s: %w", d.modes[mode].Name, err)
	}
	d.sessions[mode] = &modeSession{session: session, far: far, hangUp: hangUp}
	d.sessions[mode].router, err = d.modes[mode].Router(d.b.Router)
	return err
}

func (d *device) closeSessions() {
	for _, s := range d.sessions {
		if s != nil {
			s.hangUp()
		}
	}
}

func (b *measurement) reportProgress() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done++; b.Progress != nil {
		b.Progress(b.done, b.total)
	}
}
