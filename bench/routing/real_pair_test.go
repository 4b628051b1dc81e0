//go:build real

package routing

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// realPrompts are the prompts of each test below.
var realPrompts = []string{
	"Which animal swims ahead of the shark?", "Write a Python function that reverses a string.",
	"What is 17 times 23?", "Explain recursion in one sentence.", "用一句话解释什么是编译器。",
	"Name three sorting algorithms.", "Write a haiku about the sea.", "What does HTTP status 404 mean?",
	"Give a regular expression for a date.", "How do I list files in Go?", "Translate to German: good night.",
	"Why is the sky blue?", "Write SQL that counts rows of a table.", "What is the capital of Peru?",
	"Is 91 a prime number?", "Write a JSON object with two fields.", "What is a mutex?", "Continue: 1, 1, 2, 3, 5,",
	"Suggest a name for a small fish 🐟.", "Write a loop in C that prints 1 to 10.",
}

// realLength is the max number of tokens of an answer.
const realLength = 24

// realWays are greedy decoding and sampling.
var realWays = map[string]terms.Sampling{"greedy": {}, "drawn": {Temperature: 0.8, Seed: 7}}

// realPair holds the two models, and the prompts as tokens.
type realPair struct {
	edge, large *engine.Engine
	prompts     [][]int32
}

func openRealPair(t *testing.T) realPair {
	t.Helper()
	small, large := realFiles(t)
	p := realPair{edge: openReal(t, small, engine.Options{}), large: openReal(t, large, engine.Options{})}
	tok, err := p.edge.Tokenizer()
	require.NoError(t, err)
	for _, text := range realPrompts {
		ids, err := tok.Chat([]tokenizer.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: text}},
			nil)
		require.NoError(t, err)
		p.prompts = append(p.prompts, ids)
	}
	require.Len(t, p.prompts, 20)
	return p
}

// realAnswer holds the tokens of an answer, each with its origin.
type realAnswer []string

// each answers all prompts at the same time. If meanwhile is given, it runs concurrently, and its argument is closed
// after the last answer.
func (p realPair) each(
	t *testing.T, answer func(prompt []int32) (realAnswer, error), meanwhile func(over <-chan struct{}),
) []realAnswer {
	t.Helper()
	all, failed := make([]realAnswer, len(p.prompts)), make([]error, len(p.prompts))
	var answers sync.WaitGroup
	for i, prompt := range p.prompts {
		answers.Go(func() { all[i], failed[i] = answer(prompt) })
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		answers.Wait()
	}()
	if meanwhile != nil {
		meanwhile(over)
	}
	<-over
	for i, err := range failed {
		require.NoError(t, err, realPrompts[i])
		require.NotEmpty(t, all[i], realPrompts[i])
	}
	return all
}

// alone returns the answers of the large model by itself.
func (p realPair) alone(t *testing.T, s terms.Sampling) []realAnswer {
	t.Helper()
	return p.each(t, func(prompt []int32) (got realAnswer, err error) {
		session, err := p.large.NewSession()
		if err != nil {
			return nil, err
		}
		defer session.Close()
		request := terms.Settings{MaxTokens: realLength}.With(s)
		for tok, err := range session.Generate(t.Context(), prompt, request) {
			if err != nil {
				return nil, err
			}
			got = append(got, realToken(tok, false))
		}
		return got, nil
	}, nil)
}

// realCount sums counts over all answers.
type realCount struct{ tokens, cloud, timeouts, unverified, turned int }

// add counts one answer.
func (c *realCount) add(r engine.Routing) {
	c.tokens += r.Tokens
	c.cloud += r.Cloud
	c.timeouts += r.Timeouts
	c.unverified += r.Unverified
	c.turned += r.Turned
}

// routed returns the answers of both models over a link, decoded as o says, with origins unless the text is verified.
// After killAt tokens of all answers together the gateway is killed, and started again with empty memory; 0 means
// never.
func (p realPair) routed(
	t *testing.T, o draft.Options, s terms.Sampling, killAt int,
) (all []realAnswer, sum realCount) {
	t.Helper()
	world := newPlace(t, p.edge, p.large, 0)
	defer world.close()
	world.dial("") // each answer has its own session
	o.Branches, o.Deadline = 2, -1
	var tokens atomic.Int64
	reached := make(chan struct{})
	count := func() {
		if tokens.Add(1) == int64(killAt) {
			close(reached)
		}
	}
	var mu sync.Mutex
	all = p.each(t, func(prompt []int32) (realAnswer, error) {
		got, counted, err := p.answer(t, world, prompt, engine.Route{
			Settings: terms.Settings{MaxTokens: realLength}.With(s), Draft: o,
		}, count)
		mu.Lock()
		defer mu.Unlock()
		sum.add(counted)
		return got, err
	}, func(over <-chan struct{}) {
		select {
		case <-reached:
			world.kill()
			world.open()
		case <-over:
			assert.Zero(t, killAt, "the gateway was not killed")
		}
	})
	return all, sum
}

// answer returns one answer with the large model, over the place's connection.
func (p realPair) answer(t *testing.T, world *place, prompt []int32, route engine.Route, count func()) (
	got realAnswer, counted engine.Routing, err error,
) {
	session, err := p.edge.NewSession()
	if err != nil {
		return nil, counted, err
	}
	defer session.Close()
	var leave func()
	if route.Cloud, leave, err = world.remote.Session(t.Context()); err != nil {
		return nil, counted, err
	}
	defer leave()
	if route.Router, err = router.New(router.Options{Policy: router.Margin, Threshold: new(0.6)}); err != nil {
		return nil, counted, err
	}
	for tok, err := range session.Routed(t.Context(), prompt, route) {
		if err != nil {
			return nil, counted, err
		}
		got = append(got, realToken(tok, !route.Draft.Verify))
		count()
	}
	return got, session.Summary().Routing, nil
}

// realToken formats a token for comparison.
func realToken(tok engine.Token, origin bool) string {
	if origin {
		return fmt.Sprint(tok.ID, " ", tok.Origin)
	}
	return fmt.Sprint(tok.ID)
}

// TestRealPair: over a link, without deadlines, serial decoding, pipelined decoding, and pipelined decoding with a
// gateway that is killed in the middle give the same tokens. With verification without a margin the text is the large
// model's own. Greedy and sampled.
func TestRealPair(t *testing.T) {
	p := openRealPair(t)
	for name, s := range realWays {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			step := func(what string) {
				t.Logf("%-30s %v", what, time.Since(began).Round(time.Second))
				began = time.Now()
			}
			serial, sum := p.routed(t, draft.Options{Mode: draft.Serial}, s, 0)
			assert.Greater(t, sum.cloud, len(p.prompts), "the large model chooses some tokens")
			assert.Less(t, sum.cloud, sum.tokens*2/3)
			step(fmt.Sprintf("serial, %d of %d tokens asked", sum.cloud, sum.tokens))
			for what, killAt := range map[string]int{"pipelined": 0, "pipelined, gateway killed": sum.tokens / 2} {
				got, sum := p.routed(t, draft.Options{}, s, killAt)
				assert.Equal(t, serial, got, what)
				assert.Zero(t, sum.timeouts, what)
				step(what)
			}
			alone := p.alone(t, s)
			step("large model alone")
			got, sum := p.routed(t, draft.Options{Verify: true, VerifyEvery: 8}, s, 0)
			assert.Equal(t, alone, got)
			assert.Zero(t, sum.unverified+sum.timeouts)
			step(fmt.Sprintf("verified, %d tokens turned", sum.turned))
		})
	}
}
