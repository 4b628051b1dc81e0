package routing

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// recordedRun is a measurement of tiny models, its recording, and what is needed to replay it.
type recordedRun struct {
	o       Options
	reports []outcome.Report
	player  *replay.Player
}

// records measures modes with tiny models and records them.
func records(t *testing.T, questions, repeat int, names ...string) *recordedRun {
	return recordsWith(t, router.Options{Policy: router.Random, Threshold: new(0.25)}, questions, repeat, names...)
}

// mustReplay is [Replay] without an error.
func mustReplay(t *testing.T, o ReplayOptions) []outcome.Report {
	t.Helper()
	reports, err := Replay(t.Context(), o)
	require.NoError(t, err)
	return reports
}

// recordsWith is [records] with a policy.
func recordsWith(t *testing.T, policy router.Options, questions, repeat int, names ...string) *recordedRun {
	edge, large := tiny(t, nil), tiny(t, func(s *synth.Spec) { s.Layers = 3 })
	judge, err := synth.Judge(large.Width())
	require.NoError(t, err)
	stage := openStage(t, edge, large, remote.StageOptions{RTT: 4 * time.Millisecond, Judge: judge})
	r := &recordedRun{o: Options{
		Edge: edge, Large: large, Parallel: 2, MaxTokens: 12, RTT: 4 * time.Millisecond, Repeat: repeat, WarmUp: 1,
		Modes: modes(t, names...), Router: policy,
		Draft:  draft.Options{Deadline: -1, Audit: true, Lookup: -1, Judge: judge.Fingerprint()},
		Direct: stage.Direct(), Dial: stage.Dial,
	}}
	for _, text := range strings.Fields("where does a nevgle live and what")[:questions] {
		r.o.Questions = append(r.o.Questions, task.Question{Text: text,
			Grade: task.JudgeBy(func(string) bool { return len(text)%2 == 0 })})
	}
	r.measure(t)
	return r
}

// measure records a measurement.
func (r *recordedRun) measure(t *testing.T) {
	h, err := r.o.Records()
	require.NoError(t, err)
	var b bytes.Buffer
	r.o.Record, err = replay.NewRecorder(&b, h)
	require.NoError(t, err)
	r.reports, err = Measure(t.Context(), r.o)
	require.NoError(t, err)
	require.NoError(t, r.o.Record.Close())
	rec, err := replay.Read(&b, "recording")
	require.NoError(t, err)
	r.player, err = replay.NewPlayer(rec)
	require.NoError(t, err)
}

// options returns options that replay the recording unchanged.
func (r *recordedRun) options() ReplayOptions {
	return ReplayOptions{Player: r.player, Modes: r.o.Modes, Router: r.o.Router, Draft: r.o.Draft}
}

// TestBudgetOfModes: with a budget all modes escalate the same tokens, at most its share, because each mode starts with
// a new balance after the warm-up. A replay does the same.
func TestBudgetOfModes(t *testing.T) {
	racing.Spare(t)
	const budget = 0.3
	rule := router.Options{Policy: router.Margin, Budget: budget}
	names := []string{"serial", "pipelined-2", "pipelined-1", "local"}
	r := recordsWith(t, rule, 7, 3, names...)
	replayed := mustReplay(t, r.options())
	for _, all := range [][]outcome.Report{r.reports, replayed} {
		for _, one := range all[:3] {
			assert.Equal(t, r.reports[0].Rates()["escalated_share"], one.Rates()["escalated_share"], one.Mode)
			assert.LessOrEqual(t, one.Rates()["escalated_share"], budget)
			assert.Greater(t, one.Rates()["escalated_share"], budget/2)
			if one.Differing != nil {
				assert.Zero(t, *one.Differing, one.Mode)
			}
		}
		assert.NotContains(t, all[3].Rates(), "escalated_share")
	}
	o := r.o
	o.Record, o.Parallel, o.Modes = nil, 1, modes(t, "serial")
	stage := openStage(t, o.Edge, o.Large, remote.StageOptions{})
	o.Direct, o.Dial = stage.Direct(), stage.Dial
	var shares []float64
	for _, o.WarmUp = range []int{0, 3} {
		reports := mustMeasure(t, o)
		shares = append(shares, reports[0].Rates()["escalated_share"])
	}
	assert.Equal(t, shares[0], shares[1], "the warm-up does not change the balance")
}

// TestReplayUnchanged: every mode gives the same text with the same number of asks, over the recorded way and over
// others.
func TestReplayUnchanged(t *testing.T) {
	racing.Spare(t)
	r := records(t, 5, 2, "local", "cloud", "serial", "pipelined-2", "verified", "verified:1",
		"judged:0.5", "speculative-3")
	reports := mustReplay(t, r.options())
	require.Len(t, reports, len(r.reports))
	for _, a := range r.player.Found("cloud", 0) {
		assert.Greater(t, a.Prefill, time.Duration(0))
		assert.Less(t, a.Prefill, a.Took)
	}
	for i, got := range reports {
		want := r.reports[i]
		require.NotNil(t, got.Assumed)
		assert.Equal(t, want.Mode, got.Mode)
		assert.Equal(t, 10, got.Answers)
		assert.Equal(t, want.Accuracy, got.Accuracy, want.Mode)
		assert.Equal(t, want.Differing, got.Differing)
		assert.Equal(t, want.Cell, got.Cell)
		assert.Zero(t, got.Assumed.Text, want.Mode)
		for k, s := range got.Samples {
			assert.Equal(t, want.Samples[k].Question, s.Question)
			assert.Equal(t, want.Samples[k].Repetition, s.Repetition)
			assert.Equal(t, want.Samples[k].Text, s.Text, "%s %d", want.Mode, k)
		}
		if !r.o.Modes[i].Pipelined() {
			assert.Equal(t, want.Sums.Asks, got.Sums.Asks, want.Mode)
		}
	}
	for _, l := range []remote.StageOptions{
		{RTT: 80 * time.Millisecond}, {RTT: 10 * time.Millisecond, Loss: 0.2, Seed: 3},
	} {
		o := r.options()
		o.Link = &l
		o.EdgeTPS = 100
		others := mustReplay(t, o)
		for i, got := range others {
			assert.Equal(t, texts(reports[i]), texts(got), got.Mode)
			assert.Equal(t, result.Rounded(l.RTT), got.Cell.RTT)
			assert.Equal(t, l.Loss, got.Cell.Loss)
			assert.Equal(t, 100., got.Cell.EdgeTPS)
		}
	}
}

// TestRecordedStream: the recorded time of the large model's first token over HTTP is without the round trip.
func TestRecordedStream(t *testing.T) {
	r := records(t, 1, 1, "local", "cloud")
	r.o.RTT, r.o.MaxTokens = 30*time.Millisecond, 1
	r.measure(t)
	a := r.player.Found("cloud", 0)[0]
	assert.Len(t, a.IDs, 1)
	assert.LessOrEqual(t, a.Prefill, a.Took-r.o.RTT)
}

// TestRecordedEnd: the end token of a text is counted and recorded in each mode, and not shown.
func TestRecordedEnd(t *testing.T) {
	file, err := gguf.Parse(demo.Large())
	require.NoError(t, err)
	large, err := engine.New(file, "large", engine.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { large.Close() })
	stage := openStage(t, large, large, remote.StageOptions{})
	q := task.Question{Text: demo.Questions(demo.HeldOut)[0].Text}
	r := &recordedRun{o: Options{Edge: large, Large: large, Questions: []task.Question{q}, MaxTokens: 100,
		Modes: modes(t, "local", "cloud"), Direct: stage.Direct(), Draft: draft.Options{Lookup: -1}}}
	r.measure(t)
	for i, m := range r.o.Modes {
		a := r.player.Found(m.Name, 0)[0]
		assert.True(t, a.Ended, m.Name)
		assert.Equal(t, len(a.IDs)+1, r.reports[i].Samples[0].Tokens, m.Name)
		assert.Equal(t, len(a.IDs)+1, r.reports[i].Sums.Tokens, m.Name)
	}
	assert.Equal(t, r.player.Found("local", 0)[0].IDs, r.player.Found("cloud", 0)[0].IDs)
	assert.Equal(t, r.reports[1].Sums.Tokens, r.reports[1].Sums.Decoded)
}

// texts returns the hashes of the texts of a mode.
func texts(r outcome.Report) (all []string) {
	for _, s := range r.Samples {
		all = append(all, s.Text)
	}
	return all
}

// TestReplayTwice: a replay gives the same bytes each time, at any number of threads.
func TestReplayTwice(t *testing.T) {
	racing.Spare(t)
	r := records(t, 5, 1, "serial", "pipelined-2", "verified")
	var first []byte
	for range 4 {
		o := r.options()
		o.Modes = modes(t, "serial", "pipelined-auto", "pipelined-5", "verified", "local")
		o.Link = &remote.StageOptions{RTT: 50 * time.Millisecond, Loss: 0.1}
		o.Draft.Deadline, o.Draft.Ahead = 120*time.Millisecond, 3
		reports := mustReplay(t, o)
		b, err := json.Marshal(reports)
		require.NoError(t, err)
		if first == nil {
			first = b
		}
		require.Equal(t, string(first), string(b))
	}
}

// TestReplayArithmetic: with a pace and a round trip, modes that wait take the time that can be computed, plus the time
// of the program: the prompt, a call for each token but the first, and a round trip for each ask.
func TestReplayArithmetic(t *testing.T) {
	racing.Spare(t)
	r := records(t, 4, 1, "cloud", "serial")
	o := r.options()
	zero := mustReplay(t, o)
	o.Link, o.EdgeTPS = &remote.StageOptions{RTT: time.Second}, 10
	far := mustReplay(t, o)
	assert.InDelta(t, zero[0].Time.Mean+996, far[0].Time.Mean, 0.01, "one round trip, and no small model")
	for i, m := range far[1:] {
		passes, asks := 0, 0
		for _, s := range m.Samples {
			passes, asks = passes+s.Passes, asks+s.Asks
		}
		require.Positive(t, asks, m.Mode)
		shortest := float64(1000*asks+100*passes) / 4
		assert.Greater(t, m.Time.Mean, shortest, m.Mode)
		assert.Less(t, m.Time.Mean, shortest+zero[1+i].Time.Mean+1, m.Mode)
	}
	o = r.options()
	o.CloudPace = new(2 * time.Second) // much more than on any machine
	slow := mustReplay(t, o)
	var prompts time.Duration
	for _, a := range r.player.Answers {
		if a.Mode == "cloud" {
			prompts += a.Prefill
		}
	}
	read := float64(prompts.Microseconds()) / 4000
	assert.InDelta(t, 4+read+2000*float64(slow[0].Sums.Tokens)/4, slow[0].Time.Mean, 0.01,
		"whatever the recorded pace was")
	assert.Greater(t, slow[1].Time.Mean, zero[1].Time.Mean+1000*zero[1].Rates()["asks"])
	assert.Equal(t, 2000., slow[1].Cell.ModelMS)
	for _, a := range r.player.Answers {
		a.Ended, a.Took = true, time.Hour // as if recorded on a busy machine, and each text with its end
	}
	o.Modes = o.Modes[:1]
	ended := mustReplay(t, o)
	assert.Equal(t, slow[0].Time.Mean, ended[0].Time.Mean)
	assert.Equal(t, zero[0].Sums.Decoded+4, ended[0].Sums.Decoded)
	r.player.RTT, o.Link, o.CloudPace = 2*time.Hour, &remote.StageOptions{}, nil
	never := mustReplay(t, o)
	assert.Zero(t, never[0].Time.Mean, "no negative time")
}

// TestRecords: the header of a recording has the settings of the measurement, without folders of files.
func TestRecords(t *testing.T) {
	const ms = time.Millisecond
	edge := tiny(t, nil)
	net, err := router.NewNet([]router.Layer{{In: 2, Out: 1, Weight: []float32{1, 2}, Bias: []float32{3}}}, false)
	require.NoError(t, err)
	o := Options{Edge: edge, MaxTokens: 9, EdgeTPS: 50, RTT: 7 * ms, Loss: 0.25, RowCost: 0.5, Parallel: 3,
		CloudPace: 4 * ms, Modes: modes(t, "local", "serial", "serial"), Traces: []string{"folder/a.up", "b.down"},
		Router: router.Options{Policy: router.Learned, Net: net, Calibration: []float32{0.5}}}
	h, err := o.Records()
	require.NoError(t, err)
	require.NotEmpty(t, h.Ends)
	want := replay.Header{Modes: []string{"local", "serial"}, Vocab: 512, Context: edge.Context(), Ends: h.Ends,
		MaxTokens: 9, EdgeTPS: 50, RowCost: 0.5, RTT: 7 * ms, Loss: 0.25, Traces: []string{"a.up", "b.down"},
		Parallel: 3, CloudPace: 4 * ms, Router: net.Hash(), Calibration: []float32{0.5}}
	assert.Equal(t, want, h)
	tok, err := edge.Tokenizer()
	require.NoError(t, err)
	for id := range int32(512) {
		assert.Equal(t, tok.IsEnd(id), slices.Contains(h.Ends, id))
	}
	o.Router.Policy, o.MaxTokens, o.Modes = router.Margin, 0, modes(t, "verified:0.5")
	h, err = o.Records()
	require.NoError(t, err)
	want.Router, want.Calibration, want.Modes, want.MaxTokens = "", nil, []string{"verified:0.5"}, 64
	assert.Equal(t, want, h)
}

// TestReplayedSettings: link and paces of a replay are those of the recording, unless others are given.
func TestReplayedSettings(t *testing.T) {
	const ms = time.Millisecond
	recorded := outcome.Cell{RTT: 10, Loss: 0.125, Trace: "a.up", EdgeTPS: 20, RowCost: 0.5, ModelMS: 30, Parallel: 4}
	p := &replay.Player{Recording: &replay.Recording{Header: replay.Header{RTT: 10 * ms, Loss: 0.125,
		Traces: []string{"a.up"}, EdgeTPS: 20, RowCost: 0.5, CloudPace: 30 * ms, Parallel: 4}}}
	prepared := func(o ReplayOptions) *replayRun {
		o.Player = p
		r := &replayRun{ReplayOptions: o}
		require.NoError(t, r.prepareReplay())
		return r
	}
	r := prepared(ReplayOptions{RowCost: 0.75})
	assert.Equal(t, &recorded, r.cell.sweepCell(), "without a pace there is no cost of rows either")
	assert.Nil(t, r.terms.Link)
	r = prepared(ReplayOptions{EdgeTPS: 40, RowCost: 0.25, CloudPace: new(0 * ms)})
	want := recorded
	want.EdgeTPS, want.RowCost, want.ModelMS = 40, 0.25, 0
	assert.Equal(t, &want, r.cell.sweepCell())
	assert.Equal(t, replay.Terms{EdgeTPS: 40, RowCost: 0.25, CloudPace: new(0 * ms)}, r.terms)
	r = prepared(ReplayOptions{Link: &remote.StageOptions{RTT: 50 * ms, Loss: 0.5, Seed: 9}})
	want = recorded
	want.RTT, want.Loss, want.Trace = 50, 0.5, ""
	assert.Equal(t, &want, r.cell.sweepCell())
	assert.Equal(t, &replay.Link{Loss: 0.5, Seed: 9, Options: link.Options{Seed: 9,
		Up: link.Direction{Delay: 25 * ms}, Down: link.Direction{Delay: 25 * ms}}}, r.terms.Link)
}

// TestReplayRefuses: options that the recording cannot serve are refused; the error says what to record.
func TestReplayRefuses(t *testing.T) {
	racing.Spare(t)
	r := records(t, 2, 1, "local")
	for name, want := range map[string]string{
		"serial": "record a mode that asks", "cloud": "record that mode", "paper": "never recorded",
		"verified": "record a mode that asks", "verified:0.5": "record that mode",
		"judged:0.5": "record that mode",
	} {
		o := r.options()
		o.Modes = modes(t, name)
		_, err := Replay(t.Context(), o)
		assert.ErrorIs(t, err, ErrNotRecorded, name)
		assert.ErrorContains(t, err, want)
	}
	_, err := Replay(t.Context(), ReplayOptions{Player: r.player})
	assert.ErrorContains(t, err, "no modes")
	r = records(t, 2, 1, "serial")
	o := r.options()
	o.Router = router.Options{Policy: router.Learned}
	_, err = Replay(t.Context(), o)
	assert.ErrorContains(t, err, "record with it")
	o = r.options()
	o.Link = &remote.StageOptions{Traces: []string{"no.rtt.csv"}}
	_, err = Replay(t.Context(), o)
	assert.ErrorContains(t, err, "no.rtt.csv")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Replay(ctx, r.options())
	assert.ErrorIs(t, err, context.Canceled)
}

// TestReplayLearned: confidences come from the recording, with or without the network, and another network is refused.
func TestReplayLearned(t *testing.T) {
	racing.Spare(t)
	edge := tiny(t, nil)
	net := func(bias float32) *router.Net {
		w := make([]float32, edge.Width())
		for i := range w {
			w[i] = float32(i%5-2) / 3
		}
		n, err := router.NewNet([]router.Layer{{In: len(w), Out: 1, Weight: w, Bias: []float32{bias}}}, false)
		require.NoError(t, err)
		return n
	}
	r := recordsLearned(t, net(0))
	asked := 0
	for _, n := range []*router.Net{net(0), nil} {
		o := r.options()
		o.Router.Net = n
		reports := mustReplay(t, o)
		for i := range reports {
			assert.Equal(t, texts(r.reports[i]), texts(reports[i]), reports[i].Mode)
			assert.Zero(t, reports[i].Assumed.Text)
		}
		asked += reports[0].Samples[0].Asks
	}
	assert.Positive(t, asked)
	o := r.options()
	o.Router.Net = net(1)
	_, err := Replay(t.Context(), o)
	assert.ErrorContains(t, err, "the recording is from another one")
	o.Modes = modes(t, "local", "speculative-4")
	_, err = Replay(t.Context(), o)
	assert.NoError(t, err, "modes without a router need no confidences")
	o.Router.Net, r.player.Router = nil, ""
	_, err = Replay(t.Context(), o)
	assert.NoError(t, err)
}

// TestReplayNothingAsked: a mode that can ask and never did is recorded completely. With the policy never, no prompt is
// sent early.
func TestReplayNothingAsked(t *testing.T) {
	racing.Spare(t)
	r := recordsWith(t, router.Options{Policy: router.Never}, 2, 1, "serial")
	reports := mustReplay(t, r.options())
	assert.Equal(t, texts(r.reports[0]), texts(reports[0]))
	r = records(t, 1, 1, "serial")
	require.Positive(t, r.reports[0].Sums.Warmed)
	o := r.options()
	o.Router.Policy = router.Never
	reports = mustReplay(t, o)
	assert.Zero(t, reports[0].Rates()["asks"])
	assert.Zero(t, reports[0].Sums.Warmed)
}

// TestReplayTakes: of a question that was asked repeatedly, each repetition has its own recorded time.
func TestReplayTakes(t *testing.T) {
	r := records(t, 2, 2, "cloud", "serial")
	r.player.Found("cloud", 0)[1].Took = time.Hour
	reports := mustReplay(t, r.options())
	for _, s := range reports[0].Samples {
		hour := s.Question == 0 && s.Repetition == 1
		assert.Equal(t, hour, s.Took == time.Hour, "%d %d", s.Question, s.Repetition)
	}
}

// recordsLearned returns a recording with the policy learned, after a mode without a router.
func recordsLearned(t *testing.T, n *router.Net) *recordedRun {
	return recordsWith(t, router.Options{Policy: router.Learned, Net: n}, 2, 1, "serial", "speculative-4")
}

// TestReplayStopped: of a stopped recording the questions are replayed that were answered in all modes.
func TestReplayStopped(t *testing.T) {
	r := records(t, 3, 1, "cloud", "serial")
	r.player.Answers = slices.DeleteFunc(r.player.Answers, func(a *replay.Answer) bool {
		return a.Question == 1 && a.Mode == "cloud"
	})
	var err error
	r.player, err = replay.NewPlayer(r.player.Recording)
	require.NoError(t, err)
	_, partial, _ := r.player.Questions()
	assert.Equal(t, []int{1}, partial)
	for _, report := range mustReplay(t, r.options()) {
		assert.Equal(t, 2, report.Answers, report.Mode)
	}
}

// TestReplayQuestions: the given number of questions is replayed.
func TestReplayQuestions(t *testing.T) {
	r := records(t, 4, 1, "serial")
	o := r.options()
	o.Questions = 3
	reports := mustReplay(t, o)
	assert.Equal(t, 3, reports[0].Answers)
	assert.True(t, slices.IsSortedFunc(reports[0].Samples, func(a, b outcome.Sample) int {
		return a.Question - b.Question
	}))
	o.Questions = 1
	tokens := func() int {
		reports := mustReplay(t, o)
		return reports[0].Sums.Tokens
	}
	require.Equal(t, 12, tokens())
	r.player.Context = len(r.player.Found("serial", 0)[0].Prompt) + 5
	assert.Equal(t, 5, tokens(), "as many as the context has room for")
	r.player.MaxTokens = 3
	assert.Equal(t, 3, tokens())
	r.player.Ends = r.player.Found("serial", 0)[0].IDs[:1]
	assert.Equal(t, 1, tokens(), "the first token ends the text")
}
