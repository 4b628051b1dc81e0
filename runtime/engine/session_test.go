package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// dictator is a cloud that gives a fixed answer: after a prompt of this length it answers with these tokens.
type dictator struct {
	prompt int
	says   []int32
	takes  time.Duration
	asked  []draft.Question
}

func (d *dictator) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	d.asked = append(d.asked, q)
	select {
	case <-time.After(d.takes):
		return draft.Answer{Reply: terms.Reply{Token: d.says[len(q.Context)-d.prompt]}}, nil
	case <-ctx.Done():
		return draft.Answer{}, context.Cause(ctx)
	}
}

// warmed is a dictator that is sent text early.
type warmed struct {
	dictator
	text []int32
}

func (w *warmed) Warm(_ context.Context, text []int32) (bytesUp, bytesDown int, err error) {
	w.text = text
	return 1, 1, nil
}

// dictated returns a route on which a cloud chooses every token.
func dictated(t *testing.T, d *dictator) Route {
	t.Helper()
	r, err := router.New(router.Options{Policy: router.Always})
	require.NoError(t, err)
	return Route{Router: r, Cloud: d, Draft: DraftOptions{Mode: Serial, Deadline: -1, Warm: -1}}
}

// KVBytes returns the memory of keys and values, which grows with the text; 0 after the session is closed.
func (s *Session) KVBytes() int64 {
	if s.cache == nil {
		return 0
	}
	return s.cache.KV().Bytes()
}

// tokens collects a text.
func tokens(t testing.TB, s *Session, prompt []int32, r Route) []Token {
	t.Helper()
	all := timed(t, s, prompt, r)
	for i := range all {
		all[i].At = 0
	}
	return all
}

// timed collects tokens with their times.
func timed(t testing.TB, s *Session, prompt []int32, r Route) (all []Token) {
	t.Helper()
	for tok, err := range s.Routed(t.Context(), prompt, r) {
		require.NoError(t, err)
		all = append(all, tok)
	}
	return all
}

// echo returns a repetitive prompt.
func echo(tokens int) (prompt []int32) {
	for i := range tokens {
		prompt = append(prompt, 5+int32(i*i%13))
	}
	return prompt
}

// TestTokens: each token has its position, its origin and the characters that it completes. The summary has the text,
// including the rest of an incomplete character, why it ended, and its time.
func TestTokens(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := small(t, Options{Context: 32}, nil)
		tok, err := e.Tokenizer()
		require.NoError(t, err)
		says := tok.Encode("hé!é", false)
		require.Len(t, says, 6, "two tokens for each é")
		prompt := []int32{1, 2, 3}
		d := &dictator{prompt: 3, says: says, takes: 250 * time.Millisecond}
		s := session(t, e)
		r := dictated(t, d)
		r.MaxTokens = 5
		var events, escalations int
		const ms = time.Millisecond
		tokens(t, s, []int32{9}, Route{Settings: terms.Settings{MaxTokens: 2, IgnoreEnd: true}})
		r.Observe = func(ev Event) {
			assert.Equal(t, events, s.Summary().Tokens, "of this text so far")
			assert.Equal(t, 3, s.Summary().PromptTokens)
			assert.Zero(t, s.Summary().Routing.Tokens, "during the text")
			if ev.Token != nil {
				events++
			}
			if ev.Escalation != nil {
				escalations++
			}
		}
		got := timed(t, s, prompt, r)
		for i := range got {
			assert.True(t, got[i].Asked && got[i].Local != got[i].ID, "the cloud changed it")
			got[i].Local, got[i].Asked = 0, false
		}
		require.Equal(t, []Token{
			{Pos: 3, ID: says[0], Text: "h", Origin: "cloud", At: 250 * ms},
			{Pos: 4, ID: says[1], Origin: "cloud", At: 500 * ms},
			{Pos: 5, ID: says[2], Text: "é", Origin: "cloud", At: 750 * ms},
			{Pos: 6, ID: says[3], Text: "!", Origin: "cloud", At: 1000 * ms},
			{Pos: 7, ID: says[4], Origin: "cloud", At: 1250 * ms},
		}, got)
		assert.Equal(t, 5, events)
		assert.Equal(t, 5, escalations)
		routing := s.Summary().Routing
		assert.Equal(t, Summary{
			Text: "hé!\ufffd", Stop: StopLength, Tokens: 5, CloudTokens: 5, Routing: routing,
		}, s.Summary())
		assert.Equal(t, []int{3, 4}, []int{routing.PromptTokens, routing.Passes})
		assert.Equal(t, []time.Duration{250 * time.Millisecond, time.Second},
			[]time.Duration{routing.PromptTime, routing.DecodeTime})
		assert.Equal(t, 5, routing.Cloud)
		assert.Equal(t, 5, routing.Answered)
		assert.Equal(t, 1250*time.Millisecond, routing.Wait)
		checkLocal(t, s, prompt)
	})
}

// checkLocal checks a text without a router, after one with a router and the same prompt of three tokens.
func checkLocal(t *testing.T, s *Session, prompt []int32) {
	local := tokens(t, s, prompt, Route{Settings: terms.Settings{MaxTokens: 2, IgnoreEnd: true}})
	logits, top, err := s.e.Logits(t.Context(), prompt, 1)
	require.NoError(t, err)
	lse, _ := sums(logits)
	require.Len(t, local, 2)
	assert.Equal(t, top[0].ID, local[0].ID)
	assert.InDelta(t, math.Exp(float64(top[0].Logit-lse)), local[0].Confidence, 1e-5, "its probability")
	assert.EqualValues(t, draft.Edge, local[0].Origin)
	assert.Zero(t, s.Summary().Asks, "of the last text, which had no router")
	assert.Equal(t, 2, s.Summary().ReusedTokens)
}

// lateFar is a large model that takes a second to begin a session, and a session that counts tokens.
type lateFar struct {
	Cloud
	ended *bool
}

func (f lateFar) Session(context.Context) (Cloud, func(), error) {
	time.Sleep(time.Second)
	return f, func() { *f.ended = true }, nil
}

func (f lateFar) Receipt() Receipt { return Receipt{Tokens: 7} }

// TestTimesFromTheCall: the times of an answer begin with the call, not when decoding begins. The session of the large
// model ends with the answer, which has its receipt.
func TestTimesFromTheCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &dictator{prompt: 1, says: []int32{5, 6}, takes: 250 * time.Millisecond}
		r := dictated(t, d)
		r.Cloud, r.Far, r.MaxTokens = nil, lateFar{d, new(bool)}, 2
		s := session(t, small(t, Options{}, nil))
		all := timed(t, s, []int32{1}, r)
		require.Len(t, all, 2)
		assert.Equal(t, 1250*time.Millisecond, all[0].At)
		assert.Equal(t, 1500*time.Millisecond, all[1].At)
		assert.Equal(t, all[0].At, s.Summary().PromptTime)
		assert.Equal(t, all[1].At, s.Summary().PromptTime+s.Summary().DecodeTime)
		assert.Equal(t, Receipt{Tokens: 7}, s.Summary().Receipt)
		assert.True(t, *r.Far.(lateFar).ended)
	})
}

// TestEnds: an end token ends the text and is not shown, unless it is ignored; so does a full context.
func TestEnds(t *testing.T) {
	e := small(t, Options{Context: 10}, nil)
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	end := int32(299)
	require.True(t, tok.IsEnd(end))
	says := []int32{5, 6, end, 7, 8, 9, 10}
	s := session(t, e)
	for name, c := range map[string]struct {
		request terms.Settings
		want    int
		stop    string
	}{
		"to the end token":       {terms.Settings{}, 2, StopEnd},
		"one fewer":              {terms.Settings{MaxTokens: 1}, 1, StopLength},
		"as many as there are":   {terms.Settings{MaxTokens: 2}, 2, StopLength},
		"the end token is in it": {terms.Settings{MaxTokens: 3}, 2, StopEnd},
		"beyond the end token":   {terms.Settings{IgnoreEnd: true, MaxTokens: 4}, 4, StopLength},
		"a full context":         {terms.Settings{IgnoreEnd: true}, 6, StopContext},
		"exactly full":           {terms.Settings{IgnoreEnd: true, MaxTokens: 6}, 6, StopLength},
	} {
		t.Run(name, func(t *testing.T) {
			r := dictated(t, &dictator{prompt: 4, says: says})
			r.Settings = c.request
			var ids []int32
			for _, x := range tokens(t, s, []int32{1, 2, 3, 4}, r) {
				ids = append(ids, x.ID)
			}
			assert.Equal(t, says[:c.want], ids)
			assert.Equal(t, c.stop, s.Summary().Stop)
			assert.Equal(t, c.want, s.Summary().Tokens)
			assert.Equal(t, s.cache.Len(), s.KVTokens())
			assert.InDelta(t, 4+c.want, s.KVTokens(), 1)
		})
	}
	all := tokens(t, s, make([]int32, 9), Route{Settings: terms.Settings{IgnoreEnd: true}})
	assert.Len(t, all, 1, "a prompt that leaves room for one")
}

// TestThoughts: tokens of a thought are counted and told from those of the answer, and no stop string ends a thought.
func TestThoughts(t *testing.T) {
	e := small(t, Options{}, func(s *synth.Spec) { s.Thinks = true })
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	s := session(t, e)
	for name, c := range map[string]struct {
		says, text, answer string
		thought, tokens    int // with those that hold a stop string back, and end it
		stop               string
	}{
		"a whole thought": {
			"<think>\nhm!é?</think>\n\nI!?", "<think>\nhm!é?</think>\n\nI", "I", 11, 14, StopString,
		},
		"an unfinished thought":    {"<think>h!?", "<think>h!?", "", 4, 4, StopLength},
		"a mark within the answer": {"h<think>!?", "h<think>", "h<think>", 0, 4, StopString},
	} {
		t.Run(name, func(t *testing.T) {
			says := tok.Encode(c.says, true)
			require.Len(t, says, c.tokens)
			r := dictated(t, &dictator{prompt: 1, says: says})
			r.Stop, r.MaxTokens = []string{"!?"}, len(says)
			text, answer, thought := "", "", 0
			for _, x := range tokens(t, s, []int32{1}, r) {
				if text += x.Text; x.Kind == string(tokenizer.Answer) {
					answer += x.Text
				} else {
					thought++
				}
			}
			sum := s.Summary()
			assert.Equal(t, c.text, text)
			assert.Equal(t, c.answer, answer)
			assert.Equal(t, c.thought, thought)
			assert.Equal(t, c.stop, sum.Stop)
			assert.Equal(t, c.text, sum.Text)
			assert.Equal(t, c.answer, sum.Answer())
			assert.Equal(t, c.thought, sum.Thought)
			assert.Equal(t, c.tokens, sum.Tokens)
		})
	}
}

// TestNoCacheInTime: a session is free again after a text that could not begin, because the cache could not be made
// before the text was cancelled.
func TestNoCacheInTime(t *testing.T) {
	e := small(t, Options{}, nil)
	s := e.Session()
	done, err := e.acquireModel(t.Context())
	require.NoError(t, err)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for range 2 {
		for _, err := range s.Generate(ctx, []int32{1}, terms.Settings{}) {
			assert.ErrorIs(t, err, why)
		}
		assert.ErrorIs(t, s.Read(ctx, []int32{1}, 0, 0, func(Seen) error { return nil }), why)
	}
	done()
	assert.Len(t, tokens(t, s, []int32{1}, Route{Settings: terms.Settings{MaxTokens: 2, IgnoreEnd: true}}), 2)
}

// TestCloseAtTheEnd: a text that ended before the engine was closed is complete.
func TestCloseAtTheEnd(t *testing.T) {
	e := small(t, Options{Context: 10}, nil)
	s := session(t, e)
	r := dictated(t, &dictator{prompt: 1, says: []int32{5, 299}})
	r.Observe = func(ev Event) {
		if ev.Token != nil && ev.Token.End {
			assert.NoError(t, e.Close())
		}
	}
	assert.Len(t, tokens(t, s, []int32{1}, r), 1)
	assert.Equal(t, StopEnd, s.Summary().Stop)
}

// TestRouteReaches: the settings of a route reach the questions to the cloud and the decoder.
func TestRouteReaches(t *testing.T) {
	s := session(t, small(t, Options{Context: 40}, nil))
	says := []int32{5, 6, 7}
	d := &dictator{prompt: 2, says: says}
	r := dictated(t, d)
	r.Settings = terms.Settings{MaxTokens: 3, Temperature: 0.7, TopK: 9, TopP: 0.8, Seed: 11}
	r.Draft.K, r.Draft.Sampling = 4, terms.Sampling{Seed: 99}
	r.Draft.MaxTokens, r.Draft.Room, r.Draft.Vocab = 1, 1, 3
	require.Len(t, tokens(t, s, []int32{1, 2}, r), 3, "defaults come from the request")
	for i, q := range d.asked {
		assert.Equal(t, append([]int32{1, 2}, says[:i]...), q.Context)
		assert.Equal(t, r.Sampling(), q.Sampling)
		assert.Equal(t, 4, q.K)
	}
	never, err := router.New(router.Options{})
	require.NoError(t, err)
	for _, verify := range []bool{false, true} {
		w := &warmed{dictator: dictator{prompt: 2, says: says}}
		r := dictated(t, nil)
		r.Router, r.Cloud, r.Settings = never, w, terms.Settings{MaxTokens: 1, IgnoreEnd: true}
		r.Draft.Warm, r.Draft.Verify = 0, verify
		tokens(t, s, []int32{1, 2}, r)
		assert.Equal(t, verify, w.text != nil, "nothing is sent early in vain")
	}
}

// firstAsked returns the first question of an answer with these settings.
func firstAsked(t *testing.T, s *Session, settings terms.Settings, ahead int) draft.Question {
	t.Helper()
	d := &dictator{prompt: 2, says: []int32{5}}
	r := dictated(t, d)
	r.Settings, r.Draft.Ahead = settings, ahead
	r.MaxTokens = 1
	tokens(t, s, []int32{1, 2}, r)
	return d.asked[0]
}

// TestAskedTokens: a question asks for as many best tokens as the settings need, and for tokens ahead only if no rule
// needs the best tokens, which those ahead do not have.
func TestAskedTokens(t *testing.T) {
	s := session(t, small(t, Options{Context: 40}, nil))
	for want, settings := range map[int]terms.Settings{6: {Top: 6}, 1: {LogProbs: true}, 0: {},
		32: {PresencePenalty: 1}} {
		assert.Equal(t, want, firstAsked(t, s, settings, 0).K, "best tokens with the answer")
	}
	for name, c := range map[string]struct {
		settings terms.Settings
		want     int
	}{
		"greedy":            {terms.Settings{}, 7},
		"drawn":             {terms.Settings{Temperature: 1, TopK: 3}, 7},
		"best tokens":       {terms.Settings{Top: 1}, 0},
		"log-probabilities": {terms.Settings{LogProbs: true}, 0},
		"presence penalty":  {terms.Settings{PresencePenalty: 1}, 0},
		"frequency penalty": {terms.Settings{FrequencyPenalty: 1}, 0},
		"repeat penalty":    {terms.Settings{RepeatPenalty: 2}, 0},
		"bias":              {terms.Settings{LogitBias: map[int32]float32{7: 1}}, 0},
		"min-p":             {terms.Settings{Temperature: 1, MinP: 0.1}, 0},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, firstAsked(t, s, c.settings, 8).Ahead) })
	}
}

// TestUnknownToken: an answer with a token that is not in the vocabulary is not used, and the edge goes on alone.
func TestUnknownToken(t *testing.T) {
	s := session(t, small(t, Options{Context: 40}, nil))
	for token, origin := range map[int32]draft.Origin{299: "cloud", 300: "edge-timeout", -1: "edge-timeout"} {
		for _, verify := range []bool{false, true} {
			r := dictated(t, &dictator{prompt: 2, says: []int32{token}})
			r.Settings = terms.Settings{MaxTokens: 1, IgnoreEnd: true}
			r.Draft.Verify = verify
			all := tokens(t, s, []int32{1, 2}, r)
			require.Len(t, all, 1)
			assert.EqualValues(t, origin, all[0].Origin, "%d of a vocabulary of 300", token)
			assert.Equal(t, verify && origin == draft.EdgeTimeout, all[0].Unverified)
		}
	}
}

// TestNoiseOfPosition: a token is drawn with the noise of its position.
func TestNoiseOfPosition(t *testing.T) {
	e := small(t, Options{Context: 40}, nil)
	s := session(t, e)
	drawn := terms.Sampling{Temperature: 1, Seed: 8}
	sampler, err := sample.New(drawn)
	require.NoError(t, err)
	text := []int32{1, 2}
	for _, x := range tokens(t, s, text, Route{Settings: terms.Settings{MaxTokens: 20, IgnoreEnd: true}.With(drawn)}) {
		out := headAfter(t, e, text, sampler.Want(backend.Want{K: 3}))
		require.Equal(t, sampler.Pick(len(text), out), x.ID)
		text = append(text, x.ID)
	}
}

// TestBranches: the given number of guesses is drafted while the cloud computes, so that its answer is a hit if it is
// the second best token of the small model, or the third.
func TestBranches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := small(t, Options{Context: 40}, nil)
		s := session(t, e)
		_, top, err := e.Logits(t.Context(), []int32{1, 2}, 4)
		require.NoError(t, err)
		for branches := 1; branches <= 3; branches++ {
			for best := range 4 {
				r := dictated(t, &dictator{prompt: 2, says: []int32{top[best].ID, 5, 5}, takes: time.Second})
				r.MaxTokens, r.IgnoreEnd = 2, true
				r.Draft.Mode, r.Draft.Branches, r.Draft.InFlight = Pipelined, branches, 1
				hits := 0
				r.Observe = func(ev Event) {
					if q := ev.Escalation; q != nil && q.Pos == 2 && q.Outcome == draft.Hit {
						hits++
					}
				}
				require.Len(t, tokens(t, s, []int32{1, 2}, r), 2)
				assert.Equal(t, best < branches, hits == 1, "%d branches, token number %d", branches, best)
			}
		}
	})
}

// TestBranchesAreLearnt: costs of rows and times of answers from one text determine the number of branches in the next.
// Without data all branches are drafted; if a row takes as long as a call, few are.
func TestBranchesAreLearnt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := small(t, Options{Context: 64}, nil)
		s := session(t, e)
		first := func() int {
			r := dictated(t, &dictator{prompt: 2, says: slices.Repeat([]int32{5}, 100), takes: 100 * time.Millisecond})
			r.MaxTokens, r.IgnoreEnd, r.Pace, r.RowCost = 40, true, 100, 1
			r.Draft.Mode, r.Draft.Branches, r.Draft.InFlight = Pipelined, AutoBranches, 1
			branches := 0
			r.Observe = func(ev Event) {
				if q := ev.Escalation; q != nil && q.Pos == 2 {
					branches = q.Branches
				}
			}
			require.Len(t, tokens(t, s, []int32{1, 2}, r), 40)
			return branches
		}
		assert.Equal(t, maxBranches, first(), "without data")
		assert.Less(t, first(), maxBranches)
	})
}

// unreachable is a large model that must not be asked for a session.
type unreachable struct{ t *testing.T }

func (u unreachable) Session(context.Context) (Cloud, func(), error) {
	u.t.Error("no session is to begin")
	return &known{}, func() {}, nil
}

// TestRouteRefuses: an invalid route is refused before anything is generated, with a reason, and the session stays
// usable.
func TestRouteRefuses(t *testing.T) {
	e := small(t, Options{Context: 20}, nil)
	s := session(t, e)
	always := dictated(t, &dictator{}).Router
	for want, r := range map[string]Route{
		"must not be negative, but is -1": {Settings: terms.Settings{MaxTokens: -1}},
		"temperature":                     {Settings: terms.Settings{Temperature: -1}},
		"calls per second, but is -1":     {Pace: -1},
		"calls per second, but is NaN":    {Pace: math.NaN()},
		"calls per second, but is +Inf":   {Pace: math.Inf(1)},
		"no cloud that could be asked":    {Router: always},
		"leave out Local, or the cloud":   {Settings: terms.Settings{Local: true}, Router: always, Cloud: &known{}},
		"may leave this device": {
			Settings: terms.Settings{Local: true}, Router: always, Far: unreachable{t}},
		"branches: -2 is negative":      {Draft: DraftOptions{Branches: -2}},
		"neither pipelined nor serial":  {Draft: DraftOptions{Mode: 7}},
		"no token 300 to add a bias to": {Settings: terms.Settings{LogitBias: map[int32]float32{7: 1, 300: 1}}},
		"no token -1 to add a bias to":  {Settings: terms.Settings{LogitBias: map[int32]float32{-1: 1, 400: 1}}},
		"drafts have no effect where a": {Drafter: e, Pick: func(int, []int32, *backend.Output) int32 { return 1 }},
		"a pace says, but is 0.5 of 0":  {RowCost: 0.5},
		"a pace says, but is -1 of 5":   {RowCost: -1, Pace: 5},
		"a pace says, but is NaN of 5":  {RowCost: math.NaN(), Pace: 5},
		"a pace says, but is +Inf of 5": {RowCost: math.Inf(1), Pace: 5},
		"leaves no room for an answer in a": {Settings: terms.Settings{MaxTokens: 20}, Router: always,
			Far: unreachable{t}},
		"token 1 of the prompt is 300": {Settings: terms.Settings{MaxTokens: 21}, Router: always,
			Far: unreachable{t}},
	} {
		prompt := []int32{1, 2}
		switch r.MaxTokens {
		case 20:
			prompt = make([]int32, 22)
		case 21:
			prompt = []int32{1, 300}
		}
		n := 0
		for _, err := range s.Routed(t.Context(), prompt, r) {
			assert.ErrorContains(t, err, want)
			n++
		}
		assert.Equal(t, 1, n, want)
		assert.Equal(t, len(prompt), s.Summary().PromptTokens)
		assert.Empty(t, s.Summary().Stop)
		assert.Len(t, tokens(t, s, []int32{3}, Route{Settings: terms.Settings{MaxTokens: 1}}), 1)
	}
	last := terms.Settings{MaxTokens: 2, IgnoreEnd: true, LogitBias: map[int32]float32{0: -1, 299: 100}}
	for _, x := range tokens(t, s, []int32{3}, Route{Settings: last}) {
		assert.EqualValues(t, 299, x.ID)
	}
}

// TestPace: forward calls take as long as on a slower device, from their start. The prompt, and a call that is already
// slower, are not delayed, and a cancelled call does not wait.
func TestPace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := small(t, Options{}, nil)
		s := session(t, e)
		begin := time.Now()
		five := terms.Settings{MaxTokens: 5, IgnoreEnd: true}
		require.Len(t, tokens(t, s, []int32{1, 2}, Route{Settings: five, Pace: 8}), 5)
		assert.Equal(t, 4*125*time.Millisecond, time.Since(begin))
		assert.Zero(t, s.Summary().PromptTime)
		assert.Equal(t, 4*125*time.Millisecond, s.Summary().DecodeTime)
		require.Len(t, tokens(t, s, []int32{1, 2}, Route{Settings: terms.Settings{MaxTokens: 5, IgnoreEnd: true}}), 5)
		assert.Zero(t, s.Summary().DecodeTime)

		m := newEdgeModel(s, backend.Want{K: 3}, 100*time.Millisecond)
		const ms = time.Millisecond
		for _, c := range []struct {
			row        float64
			rows       int
			gone, want time.Duration
		}{
			{0, 1, 0, 100 * ms}, {0, 1, 30 * ms, 70 * ms}, {0, 1, 100 * ms, 0}, {0, 1, time.Second, 0},
			{0, 8, 30 * ms, 70 * ms}, {0.25, 1, 30 * ms, 70 * ms}, {0.25, 3, 30 * ms, 120 * ms}, {1, 8, 0, 800 * ms},
		} {
			m.row, begin = c.row, time.Now()
			m.waitForPace(t.Context(), begin.Add(-c.gone), c.rows)
			assert.Equal(t, c.want, time.Since(begin), "%+v", c)
		}
		m.row = 0
		for _, gone := range []time.Duration{0, time.Second} {
			m.over = 30 * ms
			m.waitForPace(t.Context(), time.Now().Add(-gone), 1)
			assert.Zero(t, m.over, "the delay counts for one call, also for one that takes longer by itself")
		}
		m.over = 30 * ms
		for _, want := range []time.Duration{70 * ms, 100 * ms} {
			begin = time.Now()
			m.waitForPace(t.Context(), begin, 1)
			assert.Equal(t, want, time.Since(begin), "the previous call ended 30 ms late")
		}
		for late, over := range map[time.Duration]time.Duration{0: 0, 30 * ms: 30 * ms, 80 * ms: 50 * ms} {
			asked := false
			s.now = func() time.Time {
				defer func() { asked = true }()
				if asked { // after the wait
					return time.Now().Add(late)
				}
				return time.Now()
			}
			m.over = 0
			m.waitForPace(t.Context(), time.Now(), 1)
			assert.Equal(t, over, m.over, "a timer that fires %v late", late)
		}
		s.now, m.over = time.Now, 0
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		begin = time.Now()
		m.waitForPace(ctx, begin, 1)
		assert.Equal(t, 20*time.Millisecond, time.Since(begin), "the call itself has ended")
	})
}

// TestTrouble: wherever a forward call fails, alone or on a device with flights, the text ends with that error, which
// names the model. Nothing leaks, and the next text is not affected.
func TestTrouble(t *testing.T) {
	for _, flights := range []bool{false, true} {
		e, d := troubled(t, Options{Context: 24}, flights)
		s := session(t, e)
		prompt, request := []int32{1, 2, 3}, terms.Settings{MaxTokens: 8, IgnoreEnd: true}
		want := tokens(t, s, prompt, Route{Settings: request})
		r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.5), Seed: 3})
		require.NoError(t, err)
		var says []int32
		for _, x := range want {
			says = append(says, x.ID)
		}
		failed := 0
		for n := range 30 {
			route := Route{Settings: request}
			if n%2 == 1 {
				route.Router, route.Cloud = r, &dictator{prompt: 3, says: says}
				route.Draft = DraftOptions{Branches: 3, Deadline: -1, InFlight: 1}
			}
			d.failing(1 + n/2)
			var last error
			for _, err := range s.Routed(t.Context(), prompt, route) {
				last = err
			}
			if last != nil {
				failed++
				assert.ErrorIs(t, last, errTrouble)
				assert.ErrorContains(t, last, "small: ")
				assert.Empty(t, s.Summary().Stop)
			}
			clear(d.fails)
			require.Equal(t, s.cache.Len(), s.cache.InUse())
			require.Equal(t, s.cache.Len(), s.KVTokens())
			require.Zero(t, d.open)
			require.Equal(t, want, tokens(t, s, prompt, Route{Settings: request}))
		}
		assert.Greater(t, failed, 10)
		d.failing(1)
		_, _, err = e.Logits(t.Context(), prompt, 1)
		assert.ErrorIs(t, err, errTrouble)
	}
}

// TestFault: a pass in which the device itself failed is repeated, alone or in flight, and the text is the same. If it
// fails again the text ends with that.
func TestFault(t *testing.T) {
	for _, flights := range []bool{false, true} {
		e, d := troubled(t, Options{Context: 24}, flights)
		d.why = backend.ErrFault
		s := session(t, e)
		prompt, route := []int32{1, 2, 3}, Route{Settings: terms.Settings{MaxTokens: 8, IgnoreEnd: true}}
		var want []int32
		for _, x := range tokens(t, s, prompt, route) {
			want = append(want, x.ID)
		}
		r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.5), Seed: 3})
		require.NoError(t, err)
		for n := range 16 {
			if n%2 == 1 { // with branches beside what is under way
				route.Router, route.Cloud = r, &dictator{prompt: 3, says: want}
				route.Draft = DraftOptions{Branches: 3, Deadline: -1, InFlight: 1}
			}
			d.failing(1 + n/2)
			before := d.begun
			var got []int32
			for _, x := range tokens(t, s, prompt, route) {
				got = append(got, x.ID)
			}
			require.Equal(t, want, got, "flights %t, attempt %d", flights, n)
			require.Greater(t, d.begun, before+n/2, "that pass was run")
			clear(d.fails)
			require.Equal(t, s.cache.Len(), s.cache.InUse())
			require.Zero(t, d.open)
		}
		for n := range 10 {
			d.failing(1 + n)
		}
		var last error
		for _, last = range s.Generate(t.Context(), []int32{1, 2, 3}, route.Settings) {
		}
		require.ErrorIs(t, last, backend.ErrFault)
	}
}

// TestReused: the common prefix of a prompt and the text before is not evaluated again, also after an error.
func TestReused(t *testing.T) {
	e, d := troubled(t, Options{Context: 24}, false)
	s := session(t, e)
	all := tokens(t, s, []int32{1, 2, 3, 4}, Route{Settings: terms.Settings{MaxTokens: 3, IgnoreEnd: true}})
	text := []int32{1, 2, 3, 4, all[0].ID, all[1].ID}
	held := s.KVTokens()
	tokens(t, s, append(slices.Clone(text), 9), Route{Settings: terms.Settings{MaxTokens: 1, IgnoreEnd: true}})
	assert.Equal(t, min(held, 6), s.Summary().ReusedTokens)
	d.failing(1)
	var last error
	for _, last = range s.Generate(t.Context(), []int32{1, 2, 7, 7}, terms.Settings{}) {
	}
	require.ErrorIs(t, last, errTrouble)
	tokens(t, s, []int32{1, 2, 7, 7}, Route{Settings: terms.Settings{MaxTokens: 1}})
	assert.Equal(t, 2, s.Summary().ReusedTokens, "tokens of the failed call are not kept")
	assert.Equal(t, 4, s.Summary().PromptTokens)
}

// TestNamed: an error names the model, unless it is only the cause of a cancelled context.
func TestNamed(t *testing.T) {
	e := &Engine{path: "m"}
	why := errors.New("why")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	closed, end := context.WithCancelCause(t.Context())
	end(ErrClosed)
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"not cancelled":                {t.Context(), why, "m: why"},
		"the cause of the context":     {gone, why, "why"},
		"another error":                {gone, errTrouble, "m: " + errTrouble.Error()},
		"cancelled by Close":           {closed, ErrClosed, "m: " + ErrClosed.Error()},
		"closed after being cancelled": {gone, ErrClosed, "m: " + ErrClosed.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			assert.EqualError(t, e.withFileName(c.ctx, c.err), c.want)
			assert.ErrorIs(t, e.withFileName(c.ctx, c.err), c.err)
		})
	}
	assert.NoError(t, e.withFileName(gone, nil))
	assert.NoError(t, e.withFileName(t.Context(), nil))
}

// sums returns the log-sum-exp of logits, computed in float64, and the sum of their exponentials.
func sums(logits []float32) (lse float32, all float64) {
	for _, l := range logits {
		all += math.Exp(float64(l))
	}
	return float32(math.Log(all)), all
}

// TestLookAside: while a session generates, other goroutines may look at it.
func TestLookAside(t *testing.T) {
	s := session(t, small(t, Options{}, nil))
	over := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for tokens := 0; ; {
				select {
				case <-over:
					return
				default:
				}
				sum := s.Summary()
				assert.GreaterOrEqual(t, sum.Tokens, tokens)
				tokens = sum.Tokens
				assert.LessOrEqual(t, s.KVTokens(), s.e.Context())
				assert.Positive(t, s.KVLimit())
				assert.ErrorIs(t, s.Busy(), ErrBusy)
			}
		})
	}
	tokens(t, s, echo(20), Route{Settings: terms.Settings{MaxTokens: 40, IgnoreEnd: true}})
	close(over)
	others.Wait()
	assert.Equal(t, 40, s.Summary().Tokens)
}

// TestShortenedStop: a value that fills both limits was shortened by the number of tokens.
func TestShortenedStop(t *testing.T) {
	s := session(t, small(t, Options{Context: 20}, nil))
	for most, want := range map[int]string{7: StopLength, 8: StopLength, 9: StopContext} {
		s.summary = Summary{Tokens: min(most, 8) - 1}
		r := terms.Settings{JSON: true, Complete: true, MaxTokens: most}
		s.noteShortened(make([]int32, 12), r, StopEnd, false)
		assert.True(t, s.summary.Shortened, most)
		assert.Equal(t, want, s.summary.Stop, most)
	}
}
