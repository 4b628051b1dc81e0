package collect

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// fakeGateway reports the given properties.
type fakeGateway struct {
	engine.Far
	audit   string
	choices int
}

func (g fakeGateway) Audit() string { return g.audit }
func (g fakeGateway) Choices() int  { return g.choices }
func (g fakeGateway) Context() int  { return 300 }
func (g fakeGateway) Model() string { return "theirs" }

// TestPlanRefused: options that cannot work are refused, and the error says what to do.
func TestPlanRefused(t *testing.T) {
	good := demoOptions(t, 3, engine.Options{})
	for want, spoil := range map[string]func(o *Options){
		`reference given: question 2 of`: func(o *Options) {
			o.Reference, o.Data.Questions[1].Reference = Given, ""
		},
		"the temperature is 0": func(o *Options) { o.Reference, o.Temperature = Sampled, 0 },
		`label rule citer compares final answers, and question 3 of demo-train has no ri`: func(o *Options) {
			o.Data.Questions[2].Grade = nil
		},
		`label rule consequence compares final answers, and question 3 of demo-train has no ri`: func(o *Options) {
			o.Labels, o.Data.Questions[2].Grade = []string{RuleConsequence}, nil
		},
		"there is no large model": func(o *Options) { o.Large = nil },
		"theirs audits none of":   func(o *Options) { o.Large, o.Far = nil, fakeGateway{nil, "none", 0} },
		"its 20 best tokens only": func(o *Options) {
			o.Large, o.Far, o.Reference = nil, fakeGateway{nil, "exact", 20}, Sampled
		},
	} {
		o := good
		o.Data = questions(t, 3)
		spoil(&o)
		_, err := NewPlan(o)
		assert.ErrorContains(t, err, want)
	}
	o := good
	o.Large, o.Far = nil, fakeGateway{nil, "exact", 20}
	p := plan(t, o)
	assert.Equal(t, 300, p.limit)
	assert.Equal(t, 32, p.o.Parallel)
}

// TestPlanDefaults: a plan reports the chosen defaults.
func TestPlanDefaults(t *testing.T) {
	o := demoOptions(t, 2, engine.Options{})
	o.MaxTokens, o.Labels, o.Compute = 256, nil, "kv f32"
	p := plan(t, o)
	assert.Equal(t, Given, p.Reference())
	s := p.settings
	assert.Equal(t, 256, s.MaxTokens)
	assert.Equal(t, 128, s.Width)
	assert.Equal(t, 2, s.Prompts)
	assert.Equal(t, router.TapFinalNorm, s.Tap)
	assert.Equal(t, o.Data.Hash, s.Data)
	assert.Equal(t, o.Data.Prompts, s.Task)
	fingerprint, err := o.Edge.Fingerprint()
	require.NoError(t, err)
	assert.Equal(t, trace.Model{Fingerprint: fingerprint, Name: o.Edge.Name(), Context: 512, Compute: o.Compute},
		s.Small)
	fingerprint, err = o.Large.Fingerprint()
	require.NoError(t, err)
	assert.Equal(t, trace.Model{Fingerprint: fingerprint, Name: o.Large.Name(), Context: 512}, s.Large)
	assert.Nil(t, s.Sampling)
	assert.Nil(t, s.Routing)

	for i := range 2 {
		o.Data = questions(t, 2)
		o.Data.Questions[i].Reference = ""
		assert.Equal(t, Large, plan(t, o).Reference())
	}
	o.Reference = Sampled
	s = plan(t, o).settings
	assert.Equal(t, &trace.Sampling{Temperature: 2, Seed: 3}, s.Sampling)
	o.Reference = Routed
	assert.Equal(t, &trace.Routing{Router: "abc", Threshold: 0.5}, plan(t, o).settings.Routing)
	threshold := 0.25
	o.Router.Threshold = &threshold
	assert.Equal(t, &trace.Routing{Router: "abc", Threshold: 0.25}, plan(t, o).settings.Routing)
}

// TestUngraded: without right answers, the rule that needs none works.
func TestUngraded(t *testing.T) {
	racing.Spare(t)
	o := demoOptions(t, 3, engine.Options{})
	for i := range o.Data.Questions {
		o.Data.Questions[i].Grade = nil
	}
	o.Labels, o.Reference = []string{RuleDisagreement}, Sampled
	set, sum := gather(t, o)
	assert.Zero(t, sum.Graded)
	assert.Positive(t, sum.Labels[0].Escalate)
	about, _, _ := set.Prompt(0)
	assert.False(t, about.Graded)
}

// TestSummary: each figure of a file of traces is counted.
func TestSummary(t *testing.T) {
	path := newFile(t)
	w, err := trace.Create(path, trace.Settings{Width: 1, Prompts: 3, MaxTokens: 9, Reference: "routed",
		Labels: []string{"a", "b"}})
	require.NoError(t, err)
	pos := int32(0)
	label := func(large int32, a, b trace.Verdict) trace.Position {
		pos++
		return trace.Position{Pos: pos, Large: large, Labels: [8]trace.Verdict{a, b}}
	}
	for _, x := range []trace.Text{
		{Prompt: trace.Prompt{LeftOut: true}},
		{Prompt: trace.Prompt{Cut: true, Graded: true, Right: true, Cloud: 3, Rollouts: 4, RolloutTokens: 5},
			Positions: []trace.Position{label(0, trace.Keep, trace.Escalate), label(1, trace.Spoil, trace.Keep),
				label(1, trace.Escalate, trace.Unknown)}, Hidden: make([]uint16, 3)},
		{Prompt: trace.Prompt{Graded: true, Cloud: 30, Rollouts: 40, RolloutTokens: 50},
			Positions: []trace.Position{label(1, trace.Escalate, trace.Escalate)}, Hidden: make([]uint16, 1)},
	} {
		require.NoError(t, w.Append(x))
	}
	require.NoError(t, w.Close())
	got, err := summarizeFile(path)
	require.NoError(t, err)
	assert.Len(t, got.Hash, 64)
	assert.EqualValues(t, len(bytesOf(t, path)), got.Bytes)
	got.Hash, got.Bytes = "", 0
	assert.Equal(t, &Summary{Reference: "routed", Prompts: 3, LeftOut: 1, Cut: 1, Graded: 2, Right: 1, Positions: 4,
		Differ: 3, DifferShare: 0.75, Cloud: 33, Rollouts: 44, RolloutTokens: 55,
		Labels: []LabelSummary{{"a", 4, 2, 1, 0.5}, {"b", 3, 2, 0, 2. / 3}}}, got)
	_, err = summarizeFile(newFile(t))
	assert.Error(t, err)
}

// flaky answers after a number of failures, or never.
type flaky struct {
	fails int
	asked int
	slow  time.Duration
}

var errFlaky = errors.New("the line is bad")

func (f *flaky) Ask(ctx context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	if f.asked++; f.asked > f.fails {
		return engine.CloudAnswer{Reply: terms.Reply{Token: 7, Audited: len(q.Context) - q.AuditFrom}}, nil
	}
	select {
	case <-time.After(f.slow):
		return engine.CloudAnswer{}, errFlaky
	case <-ctx.Done():
		return engine.CloudAnswer{}, ctx.Err()
	}
}

// TestPatient: a question is repeated a few times with pauses, and not after its context has ended.
func TestPatient(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begin := time.Now()
		f := &flaky{fails: 4}
		a, err := retryingCloud{f}.Ask(t.Context(), engine.CloudQuestion{Context: []int32{1}})
		require.NoError(t, err)
		assert.EqualValues(t, 7, a.Token)
		assert.Equal(t, 7500*time.Millisecond, time.Since(begin))

		f = &flaky{fails: 99}
		_, err = retryingCloud{f}.Ask(t.Context(), engine.CloudQuestion{})
		assert.ErrorIs(t, err, errFlaky)
		assert.ErrorContains(t, err, "asked 5 times")
		assert.ErrorContains(t, err, "repeat the command")
		assert.Equal(t, 5, f.asked)

		begin = time.Now()
		f = &flaky{fails: 1, slow: time.Hour}
		_, err = retryingCloud{f}.Ask(t.Context(), engine.CloudQuestion{})
		require.NoError(t, err)
		assert.Equal(t, answerTime+firstPause, time.Since(begin))
		f = &flaky{fails: 99, slow: time.Hour}
		_, err = retryingCloud{f}.Ask(t.Context(), engine.CloudQuestion{})
		assert.ErrorIs(t, err, errSilent)

		for name, c := range map[string]struct{ after, slow time.Duration }{
			"in a pause":       {time.Second, 0},
			"in the first ask": {time.Minute, time.Hour},
			"in the last ask":  {12 * time.Second, time.Second},
		} {
			over := errors.New("over")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(c.after, func() { cancel(over) })
			begin = time.Now()
			_, err = retryingCloud{&flaky{fails: 99, slow: c.slow}}.Ask(ctx, engine.CloudQuestion{})
			assert.Equal(t, over, err, name)
			assert.Equal(t, c.after, time.Since(begin), name)
		}
	})
}

// TestRoutedFailure: an answer is dropped if a token of the small model would replace a missing answer of the large
// one.
func TestRoutedFailure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := demoOptions(t, 1, engine.Options{})
		o.Reference = Routed
		o.Far = oneCloud{&flaky{fails: 1 << 30}}
		threshold := 1.0
		o.Router.Threshold = &threshold
		_, err := plan(t, o).Run(t.Context(), newFile(t), nil)
		assert.ErrorIs(t, err, errFlaky)
		assert.ErrorContains(t, err, "question 1: ")
	})
}

// oneCloud uses the same cloud for all texts.
type oneCloud struct{ engine.Cloud }

func (c oneCloud) Session(context.Context) (engine.Cloud, func(), error) {
	return c.Cloud, func() {}, nil
}

// TestShortAudit: an audit of less than the whole text is refused.
func TestShortAudit(t *testing.T) {
	for _, a := range []engine.CloudAnswer{{Reply: terms.Reply{Audited: 2}}, {Reply: terms.Reply{Audited: 4}}} {
		r := &remoteModel{far: oneCloud{answer(a)}}
		_, err := r.readChoices(t.Context(), []int32{1, 2, 3, 4, 5}, 2)
		assert.ErrorContains(t, err, "its audit is not exact")
		r.closeModel()
	}
	r := &remoteModel{far: oneCloud{answer{
		Reply: terms.Reply{Audited: 3, Audit: []engine.CloudFinding{{Pos: 3, Token: 9, LogProb: -1}}},
	}}}
	got, err := r.readChoices(t.Context(), []int32{1, 2, 3, 4, 5}, 2)
	require.NoError(t, err)
	assert.Equal(t, []int32{3, 9, 5}, []int32{got[0].token, got[1].token, got[2].token})
	assert.EqualValues(t, -1, got[1].logProb)
}

// TestRemoteSessions: each text has one session at the gateway, and no session stays open.
func TestRemoteSessions(t *testing.T) {
	far := &countedFar{Cloud: counting(func(engine.CloudQuestion) int32 { return 1 })}
	r := &remoteModel{far: far}
	for range 3 {
		err := r.generateTokens(t.Context(), []int32{1}, 1, terms.Sampling{}, func(int32) bool { return true })
		require.NoError(t, err)
		_, err = r.readChoices(t.Context(), []int32{1, 2}, 2)
		require.NoError(t, err)
		assert.Equal(t, 1, far.open)
	}
	assert.Equal(t, 4, far.begun, "continuations of a text use its session")
	r.closeModel()
	r.closeModel()
	assert.Zero(t, far.open)
}

// countedFar counts sessions.
type countedFar struct {
	engine.Cloud
	begun, open int
}

func (f *countedFar) Session(context.Context) (engine.Cloud, func(), error) {
	f.begun++
	f.open++
	return f.Cloud, func() { f.open-- }, nil
}

// answer is a cloud that always gives this answer.
type answer engine.CloudAnswer

func (a answer) Ask(context.Context, engine.CloudQuestion) (engine.CloudAnswer, error) {
	return engine.CloudAnswer(a), nil
}

// TestRemoteFollow: a gateway is asked token by token, each after the previous one.
func TestRemoteFollow(t *testing.T) {
	var asked [][]int32
	r := &remoteModel{far: oneCloud{counting(func(q engine.CloudQuestion) int32 {
		asked = append(asked, q.Context)
		assert.InDelta(t, 0.5, q.Sampling.Temperature, 0)
		return int32(len(q.Context))
	})}}
	defer r.closeModel()
	var got []int32
	more := func(id int32) bool {
		got = append(got, id)
		return id < 4
	}
	s := terms.Sampling{Temperature: 0.5}
	require.NoError(t, r.generateTokens(t.Context(), []int32{8, 9}, 10, s, more))
	assert.Equal(t, []int32{2, 3, 4}, got)
	assert.Equal(t, [][]int32{{8, 9}, {8, 9, 2}, {8, 9, 2, 3}}, asked)
	got = nil
	require.NoError(t, r.generateTokens(t.Context(), []int32{8}, 2, s, more))
	assert.Equal(t, []int32{1, 2}, got)
}

// TestRemoteFails: a gateway that gives no session or no answer ends a text, which gets no token instead.
func TestRemoteFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, far := range []engine.Far{noSession{}, oneCloud{&flaky{fails: 99}}} {
			r := &remoteModel{far: far}
			none := func(int32) bool {
				assert.Fail(t, "a token without an answer")
				return false
			}
			assert.ErrorIs(t, r.generateTokens(t.Context(), []int32{1}, 3, terms.Sampling{}, none), errFlaky)
			_, err := r.readChoices(t.Context(), []int32{1, 2}, 1)
			assert.ErrorIs(t, err, errFlaky)
			r.closeModel()
		}
	})
}

// noSession is a gateway that begins no session.
type noSession struct{}

func (noSession) Session(context.Context) (engine.Cloud, func(), error) { return nil, nil, errFlaky }

// TestClosedModels: a model that is closed, or whose gateway is away, ends a plan or its run, and no text is stored.
func TestClosedModels(t *testing.T) {
	o := demoOptions(t, 1, engine.Options{})
	o.Reference, o.Labels = Given, nil
	p := plan(t, o)
	s, err := o.Edge.NewSession()
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err = localModel{s}.generateTokens(over, []int32{1}, 9, terms.Sampling{}, func(int32) bool { return true })
	assert.ErrorIs(t, err, context.Canceled)
	require.NoError(t, o.Edge.Close())
	path := newFile(t)
	_, err = p.Run(t.Context(), path, nil)
	assert.ErrorIs(t, err, engine.ErrClosed)
	_, err = NewPlan(o)
	assert.ErrorIs(t, err, engine.ErrClosed)
	o.Edge = open(t, demo.Small(), engine.Options{})
	o.Reference, o.Far = Routed, noSession{}
	_, err = plan(t, o).Run(t.Context(), newFile(t), nil)
	assert.ErrorIs(t, err, errFlaky)
	w, err := trace.Create(path, p.settings)
	require.NoError(t, err)
	assert.Zero(t, w.Prompts())
	require.NoError(t, w.Close())
}

// TestInsistent: only a question that fails ends the decoding, not one that was given up as the decoding ended.
func TestInsistent(t *testing.T) {
	var why []error
	c := failFastCloud{&flaky{fails: 2}, func(err error) { why = append(why, err) }}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{over, t.Context(), t.Context()} {
		_, _ = c.Ask(ctx, engine.CloudQuestion{})
	}
	assert.Equal(t, []error{errFlaky}, why)
}

// counting is a cloud that calls a function.
type counting func(engine.CloudQuestion) int32

func (c counting) Ask(_ context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	return engine.CloudAnswer{Reply: terms.Reply{Token: c(q)}}, nil
}
