package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// budgeted returns a router with a budget and a new balance.
func budgeted(t testing.TB, p router.Policy, budget float64) *router.Router {
	t.Helper()
	r, err := router.New(router.Options{Policy: p, Budget: budget, Seed: 3})
	require.NoError(t, err)
	return r
}

// stateOf returns a balance in its stored format.
func stateOf(t testing.TB, r *router.Router) string {
	t.Helper()
	text, err := json.Marshal(r.Balance())
	require.NoError(t, err)
	return string(text)
}

// routed holds the tokens of an answer and the counts from their events.
type routed struct {
	IDs     []int32
	Origins []string
	Spent   router.Answer
}

// answer decodes one answer and counts from its events what it spends.
func answer(
	t testing.TB, ctx context.Context, s *engine.Session, r engine.Route, prompt []int32,
) (a routed, err error) {
	t.Helper()
	var counted router.Answer
	r.Observe = func(e engine.Event) {
		if k := e.Token; k != nil {
			counted.Confidences = append(counted.Confidences, k.Confidence)
			if k.Origin == draft.FromCloud {
				counted.Escalations++
			}
			if !k.End || r.IgnoreEnd {
				counted.Tokens++
			}
		}
	}
	for tok, e := range s.Routed(ctx, prompt, r) {
		if err = e; err == nil {
			a.IDs, a.Origins = append(a.IDs, tok.ID), append(a.Origins, string(tok.Origin))
		}
	}
	a.Spent = s.Summary().Spent
	if err == nil {
		assert.Equal(t, counted, a.Spent)
	}
	return a, err
}

// TestBudgetModes: consecutive answers have the same tokens and leave the same balance in every mode, also if an end
// token or a stop string ends them, and ten of them keep the budget.
func TestBudgetModes(t *testing.T) {
	racing.Spare(t)
	edge, _, cloud := pair(t)
	modes := map[string]draft.Options{
		"serial":    {Mode: draft.Serial, Deadline: -1},
		"pipelined": {Deadline: -1},
		"wide":      {Branches: 4, InFlight: 8, Window: 20, Deadline: -1},
		"little":    {Branches: 1, InFlight: 1, Window: 2, Rows: 1, Deadline: -1},
	}
	for _, p := range []router.Policy{router.Margin, router.Entropy, router.Random} {
		for _, budget := range []float64{0.07, 0.3, 1} {
			routers, sessions := map[string]*router.Router{}, map[string]*engine.Session{}
			for name := range modes {
				routers[name], sessions[name] = budgeted(t, p, budget), session(t, edge)
			}
			stop, stopped, asked := "", false, false
			for i := range 12 {
				request := terms.Settings{MaxTokens: 8 + 5*i%23, IgnoreEnd: i%2 == 0}
				if i%3 == 2 { // the prompt of earlier answers
					request.Stop = []string{stop}
				}
				want := routed{}
				for _, name := range []string{"serial", "pipelined", "wide", "little"} {
					got, err := answer(t, t.Context(), sessions[name], engine.Route{
						Settings: request, Router: routers[name], Draft: modes[name],
						Cloud: &delayed{Cloud: cloud.Local(uint64(i))},
					}, []int32{1, 2, int32(i / 3), 9})
					require.NoError(t, err)
					if name == "serial" {
						want = got
					}
					require.Equal(t, want, got, "%s, %v, %s, answer %d", p, budget, name, i)
					require.Equal(t, stateOf(t, routers["serial"]), stateOf(t, routers[name]))
				}
				summary := sessions["serial"].Summary()
				stopped = stopped || summary.Stop == engine.StopString
				if text := []rune(summary.Text); len(text) > 5 {
					stop = string(text[3:5])
				}
				total := routers["serial"].Balance().Total()
				asked = asked || total.Escalations > 0
				if budget < 1 && i == 9 {
					require.LessOrEqual(t, total.Share(), budget)
				}
			}
			assert.True(t, asked)
			assert.True(t, stopped)
		}
	}
}

// TestBudgetOfSessions: concurrent answers all count, and later ones compensate for overspending.
func TestBudgetOfSessions(t *testing.T) {
	edge, _, cloud := pair(t)
	r := budgeted(t, router.Margin, 0.2)
	var running sync.WaitGroup
	var mu sync.Mutex
	var sum router.Total
	run := func(i int) {
		got, err := answer(t, t.Context(), session(t, edge), engine.Route{
			Settings: terms.Settings{MaxTokens: 20, IgnoreEnd: true}, Router: r, Cloud: cloud.Local(uint64(i)),
			Draft: draft.Options{Deadline: -1},
		}, []int32{1, int32(i)})
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		sum.Tokens, sum.Escalations = sum.Tokens+got.Spent.Tokens, sum.Escalations+got.Spent.Escalations
	}
	for i := range 6 {
		running.Go(func() { run(i); run(i + 10) })
	}
	running.Wait()
	for i := range 6 {
		run(i + 20)
	}
	sum.Budget = 0.2
	assert.Equal(t, sum, r.Balance().Total())
	assert.LessOrEqual(t, float64(sum.Escalations), 0.2*float64(sum.Tokens)+2, "with what is lent")
	assert.Positive(t, sum.Escalations)
}

// TestBudgetOfTimeouts: tokens that are kept because the cloud did not answer cost nothing.
func TestBudgetOfTimeouts(t *testing.T) {
	edge, _, _ := pair(t)
	r, s := budgeted(t, router.Margin, 0.4), session(t, edge)
	for range 3 {
		_, err := answer(t, t.Context(), s, engine.Route{
			Settings: terms.Settings{MaxTokens: 20, IgnoreEnd: true}, Router: r, Cloud: dead{},
			Draft: draft.Options{Deadline: time.Millisecond},
		}, []int32{7, 8})
		require.NoError(t, err)
		assert.Positive(t, s.Summary().Routing.Timeouts)
	}
	assert.Equal(t, router.Total{Budget: 0.4, Tokens: 60}, r.Balance().Total())
}

// errLeft is the cause of a context that ends.
var errLeft = errors.New("the reader left")

// TestBudgetOfCut: for an answer that is cut, the shown tokens and the answered questions count, also if the caller
// panics.
func TestBudgetOfCut(t *testing.T) {
	edge, _, cloud := pair(t)
	for _, mode := range []draft.Mode{draft.Serial, draft.Pipelined} {
		r := budgeted(t, router.Margin, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		waits := func(yes bool) engine.Route {
			var far draft.Cloud = cloud.Local(1)
			if yes {
				far = &stuck{Cloud: far, answers: 3, then: func() { cancel(errLeft) }}
			}
			return engine.Route{Settings: terms.Settings{MaxTokens: 20, IgnoreEnd: true}, Router: r, Cloud: far,
				Draft: draft.Options{Mode: mode, Deadline: -1, InFlight: 1}}
		}
		s := session(t, edge)
		got, err := answer(t, ctx, s, waits(true), []int32{7, 8})
		require.ErrorIs(t, err, errLeft)
		require.Len(t, got.IDs, 3)
		assert.Equal(t, 3, got.Spent.Tokens)
		assert.Equal(t, 3, got.Spent.Escalations, "not the open question")
		assert.Equal(t, router.Total{Budget: 1, Tokens: 3, Escalations: 3}, r.Balance().Total())
		assert.Len(t, got.Spent.Confidences, 3)

		for range s.Routed(t.Context(), []int32{7, 8}, waits(false)) {
			break
		}
		assert.Equal(t, router.Total{Budget: 1, Tokens: 4, Escalations: 4}, r.Balance().Total())

		before := r.Balance().Total()
		assert.Panics(t, func() {
			for range s.Routed(t.Context(), []int32{7, 8}, waits(false)) {
				panic("trouble of the caller")
			}
		})
		assert.Equal(t, before.Tokens+1, r.Balance().Total().Tokens)
		assert.Equal(t, before.Escalations+1, r.Balance().Total().Escalations)
	}
}

// stuck is a cloud that answers a number of questions, and after them calls then instead.
type stuck struct {
	draft.Cloud
	mu      sync.Mutex
	answers int
	then    func()
}

func (c *stuck) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	c.mu.Lock()
	c.answers--
	left := c.answers
	c.mu.Unlock()
	if left >= 0 {
		return c.Cloud.Ask(ctx, q)
	}
	time.AfterFunc(50*time.Millisecond, c.then)
	<-ctx.Done()
	return draft.Answer{}, context.Cause(ctx)
}

// TestBudgetOfVerified: verified answers do not touch the balance.
func TestBudgetOfVerified(t *testing.T) {
	edge, _, cloud := pair(t)
	r, s := budgeted(t, router.Margin, 0.2), session(t, edge)
	for _, err := range s.Routed(t.Context(), []int32{7, 1}, engine.Route{
		Settings: terms.Settings{MaxTokens: 30, IgnoreEnd: true}, Router: r, Cloud: cloud.Local(1),
		Draft: draft.Options{Deadline: -1, Verify: true},
	}) {
		require.NoError(t, err)
	}
	assert.Positive(t, s.Summary().Routing.Turned)
	assert.Zero(t, s.Summary().Spent)
	assert.Equal(t, router.Total{Budget: 0.2}, r.Balance().Total())
}

// verifying is a delayed cloud that can verify.
type verifying struct{ delayed }

func (*verifying) CannotVerify(terms.Sampling, string) error { return nil }

// TestBudgetOfDial: with the policy verify, what the large model replaced is what answers spend, in every mode.
func TestBudgetOfDial(t *testing.T) {
	racing.Spare(t)
	edge, _, cloud := pair(t)
	modes := map[string]draft.Options{
		"serial": {Mode: draft.Serial, Deadline: -1}, "pipelined": {Deadline: -1},
		"little": {Branches: 1, InFlight: 1, Window: 2, Rows: 1, Deadline: -1},
	}
	all := map[string]string{}
	for name, mode := range modes {
		r, s := budgeted(t, router.Verify, 0.3), session(t, edge)
		for i := range 12 {
			var want router.Answer
			route := engine.Route{
				Settings: terms.Settings{MaxTokens: 20, IgnoreEnd: true}, Router: r, Draft: mode,
				Cloud: &verifying{delayed{Cloud: cloud.Local(uint64(i))}},
				Observe: func(e engine.Event) {
					if k := e.Token; k != nil {
						want.Tokens, want.Confidences = want.Tokens+1, append(want.Confidences, k.Confidence)
						if k.ID != k.Local {
							want.Escalations++
						}
					}
				},
			}
			for token, err := range s.Routed(t.Context(), []int32{1, 2, int32(i / 3), 9}, route) {
				require.NoError(t, err)
				all[name] += fmt.Sprint(token.ID, " ")
			}
			assert.True(t, s.Summary().Verified)
			assert.Equal(t, want, s.Summary().Spent)
		}
		sum := r.Balance().Total()
		assert.Positive(t, sum.Escalations)
		assert.LessOrEqual(t, sum.Share(), 0.3)
	}
	assert.Equal(t, all["serial"], all["little"])
	assert.Equal(t, all["serial"], all["pipelined"])
}

// TestSpendingOfVerify: with the policy verify, answers are routed by margin if the large model cannot compare tokens,
// and a route with its own margin spends nothing.
func TestSpendingOfVerify(t *testing.T) {
	edge, _, cloud := pair(t)
	for name, c := range map[string]struct {
		cloud    draft.Cloud
		settings terms.Settings
		margin   bool
		verified bool
		spends   bool
	}{
		"a cloud that does not say":  {cloud: &delayed{Cloud: cloud.Local(1)}, spends: true},
		"penalties":                  {cloud: cloud.Local(1), settings: terms.Settings{RepeatPenalty: 2}, spends: true},
		"a margin of the route's":    {cloud: cloud.Local(1), margin: true, verified: true},
		"the large model can verify": {cloud: cloud.Local(1), verified: true, spends: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := budgeted(t, router.Verify, 0.3), session(t, edge)
			c.settings.MaxTokens, c.settings.IgnoreEnd = 30, true
			o := draft.Options{Deadline: -1, Verify: c.margin, VerifyEvery: 9, Preview: true}
			for _, err := range s.Routed(t.Context(), []int32{7, 1}, engine.Route{
				Settings: c.settings, Router: r, Cloud: c.cloud, Draft: o,
			}) {
				require.NoError(t, err)
			}
			assert.Equal(t, c.verified, s.Summary().Verified)
			assert.Equal(t, c.spends, r.Balance().Total().Tokens > 0)
		})
	}
}

// TestNoBudget: without a budget nothing is spent, and a failed answer spends nothing.
func TestNoBudget(t *testing.T) {
	edge, _, cloud := pair(t)
	s := session(t, edge)
	plain, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.5)})
	require.NoError(t, err)
	for _, err := range s.Routed(t.Context(), []int32{1}, engine.Route{
		Settings: terms.Settings{MaxTokens: 5}, Router: plain, Cloud: cloud.Local(1),
	}) {
		require.NoError(t, err)
	}
	assert.Zero(t, s.Summary().Spent)
	r := budgeted(t, router.Margin, 0.5)
	for _, err := range s.Routed(t.Context(), []int32{-1}, engine.Route{Router: r, Cloud: cloud.Local(1)}) {
		require.Error(t, err)
	}
	assert.Zero(t, s.Summary().Spent)
	assert.Equal(t, router.Total{Budget: 0.5}, r.Balance().Total())
}
