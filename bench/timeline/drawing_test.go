package timeline

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/timelinetest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// laid is a span in a drawing, in milliseconds.
type laid struct {
	name     string
	from, to float64
}

func laidOn(f *timelinetest.File, process, thread string) (all []laid) {
	for _, e := range f.All("X", process, thread, "") {
		all = append(all, laid{e.Name, *e.Time / 1000, e.End() / 1000})
	}
	return all
}

// drawn returns the file of events, for an answer of 200 ms in which decoding began at 0.
func drawn(t *testing.T, events ...draft.Event) *timelinetest.File {
	t.Helper()
	line := new(Timeline)
	text := line.Begin("")
	text.events, text.wall = events, 200*time.Millisecond
	return written(t, line)
}

const ms = time.Millisecond

func asked(q draft.Escalation) draft.Event {
	return draft.Event{At: q.Decided + q.Held + q.Wait, Escalation: &q}
}

func shown(pos int, drafted, at time.Duration) draft.Event {
	return draft.Event{At: at, Token: &draft.Token{Pos: pos, CommitDelay: at - drafted}}
}

// TestHeld: a question that waited for others was sent later than it was decided.
func TestHeld(t *testing.T) {
	f := drawn(t, asked(draft.Escalation{Pos: 4, Outcome: draft.Late, Decided: 10 * ms, Held: 5 * ms, Wait: 30 * ms}))
	assert.Equal(t, []laid{{"held", 10, 15}, {"ask", 15, 45}}, laidOn(f, "device", "asks"))
	assert.Empty(t, f.All("X", "network", "", ""), "no answer")
	assert.Empty(t, f.All("s", "", "", ""))
}

// TestNotAsked: a question that was never sent is not drawn. If tokens ahead answered it first, its path is unknown.
func TestNotAsked(t *testing.T) {
	for _, outcome := range []draft.Outcome{draft.Known, draft.Unasked} {
		f := drawn(t, asked(draft.Escalation{Pos: 4, Outcome: outcome, Decided: 10 * ms, Held: 20 * ms}))
		assert.Empty(t, f.All("X", "device", "asks", ""), outcome)
	}
	q := draft.Escalation{Pos: 4, Outcome: draft.Miss, Decided: 10 * ms, Wait: 20 * ms, ByAhead: true, Wire: 20 * ms}
	f := drawn(t, asked(q), shown(4, 30*ms, 30*ms))
	assert.Equal(t, []laid{{"ask", 10, 30}}, laidOn(f, "device", "asks"))
	assert.Empty(t, f.All("X", "network", "", ""))
	assert.Empty(t, f.All("X", "gateway", "", ""))
}

// TestProbe: a probe goes to the gateway and back, and settles no token.
func TestProbe(t *testing.T) {
	for _, outcome := range []draft.Outcome{draft.Probed, draft.Checked, draft.Probing} {
		q := draft.Escalation{Pos: 4, Outcome: outcome, Decided: 10 * ms, Wait: 40 * ms, Cloud: 20 * ms, Wire: 20 * ms}
		f := drawn(t, asked(q), shown(4, 5*ms, 60*ms))
		if outcome == draft.Probing { // no answer yet
			assert.Equal(t, []laid{{"token", 5, 60}}, laidOn(f, "device", "text"))
			assert.Empty(t, f.All("X", "gateway", "", ""))
			continue
		}
		assert.Equal(t, []laid{{"served", 20, 40}, {"compute", 20, 40}}, laidOn(f, "gateway", "asks"))
		assert.Len(t, f.All("f", "network", "down", "ask"), 1, "the arrow ends with the answer")
		assert.Equal(t, []laid{{"token", 5, 60}}, laidOn(f, "device", "text"), "it was never open")
	}
}

// TestSettledByAll: a token is settled by the last of the answers before it, in any order of arrival; a dropped
// question settles nothing.
func TestSettledByAll(t *testing.T) {
	at := func(pos int, outcome draft.Outcome, wait time.Duration) draft.Event {
		return asked(draft.Escalation{Pos: pos, Outcome: outcome, Decided: 10 * ms, Wait: wait})
	}
	f := drawn(t, at(5, draft.Hit, 30*ms), at(4, draft.Hit, 80*ms), at(4, draft.Dropped, 120*ms),
		at(6, draft.Hit, 150*ms), shown(4, 10*ms, 100*ms), shown(5, 20*ms, 110*ms))
	assert.ElementsMatch(t, []laid{{"token", 10, 100}, {"settled", 90, 100}, {"token", 20, 110}, {"settled", 90, 110}},
		laidOn(f, "device", "text"))
}

// TestWayWithinAsk: for any clock of the gateway, the parts of an ask lie inside the ask, one after the other.
func TestWayWithinAsk(t *testing.T) {
	line := new(Timeline)
	text := line.Begin("")
	at := func(d time.Duration) time.Time { return text.began.Add(d) }
	q := draft.Escalation{Pos: 4, Outcome: draft.Hit, Decided: 20 * ms, Wait: 60 * ms, Queue: 5 * ms, Cloud: 10 * ms,
		Times: terms.Times{Left: at(10 * ms), Received: at(30 * ms), Sent: at(40 * ms), Arrived: at(90 * ms)}}
	text.events, text.wall = []draft.Event{asked(q)}, 200*ms
	f := written(t, line)
	assert.Equal(t, []laid{{"ask", 20, 30}}, laidOn(f, "network", "up"))
	assert.Equal(t, []laid{{"served", 30, 45}, {"queue", 30, 35}, {"compute", 35, 45}}, laidOn(f, "gateway", "asks"))
	assert.Equal(t, []laid{{"answer", 45, 80}}, laidOn(f, "network", "down"))

	q.Times = terms.Times{Left: at(25 * ms), Received: at(30 * ms), Sent: at(50 * ms), Arrived: at(70 * ms)}
	text.events = []draft.Event{asked(q)}
	f = written(t, line)
	assert.Equal(t, []laid{{"ask", 25, 30}}, laidOn(f, "network", "up"))
	assert.Equal(t, []laid{{"answer", 50, 70}}, laidOn(f, "network", "down"))

	q.Times = terms.Times{Left: at(100 * ms), Received: at(5 * ms), Sent: at(1 * ms), Arrived: at(2 * ms)}
	text.events = []draft.Event{asked(q)}
	f = written(t, line)
	assert.Empty(t, f.All("X", "network", "", ""), "nonsense")
	assert.Empty(t, f.All("s", "", "", ""), "no arrow without an end")
}

// TestLanes: overlapping bars are on different lanes; a bar that begins when another ends follows it.
func TestLanes(t *testing.T) {
	ask := func(from, wait time.Duration) draft.Event {
		return asked(draft.Escalation{Pos: 4, Outcome: draft.Failed, Decided: from, Wait: wait})
	}
	f := drawn(t, ask(0, 10*ms), ask(10*ms, 10*ms), ask(15*ms, 30*ms), ask(20*ms, 5*ms), ask(18*ms, 1*ms))
	threads := map[int][]float64{}
	for _, e := range f.All("X", "device", "asks", "ask") {
		threads[e.Thread] = append(threads[e.Thread], *e.Time/1000)
	}
	require.Len(t, threads, 3)
	assert.Equal(t, [][]float64{{0, 10, 20}, {15}, {18}}, [][]float64{threads[3001], threads[3002], threads[3003]})
	type threadName struct {
		process, thread int
		name            any
	}
	var names []threadName
	for _, e := range f.Events {
		if e.Name == "thread_name" {
			names = append(names, threadName{e.Process, e.Thread, e.Args["name"]})
		}
		if at := e.Arg("sort_index"); e.Name == "process_sort_index" {
			assert.Equal(t, float64(e.Process), at)
		} else if e.Name == "thread_sort_index" {
			assert.Equal(t, float64(e.Thread), at)
		}
	}
	assert.Equal(t, []threadName{{1, 1, "draft steps"}, {1, 3001, "asks"}, {1, 3002, "asks 2"}, {1, 3003, "asks 3"}},
		names)
}

// TestStepsDoNotOverlap: steps that overlap because of inexact clocks are drawn one after the other, and none is after
// the end.
func TestStepsDoNotOverlap(t *testing.T) {
	pass := func(began, took time.Duration) draft.Event {
		return draft.Event{Pass: &draft.Pass{Rows: 1, Began: began, Took: took}}
	}
	f := drawn(t, pass(50*ms, 20*ms), draft.Event{Prompt: &draft.Prompt{Began: 10 * ms, Took: 41 * ms}},
		pass(55*ms, 10*ms), pass(69*ms, 11*ms), pass(190*ms, 30*ms), pass(210*ms, 5*ms))
	assert.Equal(t, []laid{{"answer", 0, 200}, {"rest", 0, 10}, {"prompt", 10, 51}, {"forward", 51, 70},
		{"forward", 70, 80}, {"rest", 80, 190}, {"forward", 190, 200}}, laidOn(f, "device", "draft steps"))
}

// TestZero: the start of decoding is derived from the event with the min delay among the first eight. All times of
// events count from there.
func TestZero(t *testing.T) {
	line := new(Timeline)
	now := time.Now()
	line.now = func() time.Time { return now }
	text := line.Begin("")
	for _, late := range []time.Duration{9 * ms, 7 * ms, 12 * ms} {
		now = text.began.Add(late)
		text.Observe(draft.Event{At: 2 * ms, Ahead: &draft.Ahead{}})
	}
	assert.Equal(t, 5*ms, text.zero)
	now = text.began.Add(100 * ms)
	text.End()
	text.Observe(draft.Event{At: 90 * ms, Token: &draft.Token{Pos: 3, CommitDelay: 10 * ms}})
	text.Observe(draft.Event{At: 20 * ms, Pass: &draft.Pass{Began: 10 * ms, Took: 10 * ms}})
	text.Observe(draft.Event{At: 25 * ms, Rollback: &draft.Rollback{}})
	text.Observe(draft.Event{At: 40 * ms, Warming: &draft.Warming{Began: 30 * ms, Took: 10 * ms}})
	text.Observe(asked(draft.Escalation{Pos: 3, Outcome: draft.Miss, Decided: 50 * ms, Wait: 35 * ms}))
	f := written(t, line)
	assert.Equal(t, []laid{{"token", 85, 95}, {"settled", 90, 95}}, laidOn(f, "device", "text"))
	assert.Equal(t, []laid{{"answer", 0, 100}, {"rest", 0, 15}, {"forward", 15, 25}, {"rest", 25, 100}},
		laidOn(f, "device", "draft steps"))
	assert.Equal(t, []laid{{"sent early", 35, 45}, {"ask", 55, 90}}, laidOn(f, "device", "asks"))
	assert.Equal(t, 30000., *f.All("i", "device", "draft steps", "rollback")[0].Time)

	text = line.Begin("")
	for i, late := range []time.Duration{5, 9, 9, 9, 9, 9, 9, 4, 3} {
		now = text.began.Add(late * ms)
		text.Observe(draft.Event{Ahead: &draft.Ahead{}})
		assert.Equal(t, []time.Duration{5, 5, 5, 5, 5, 5, 5, 4, 4}[i]*ms, text.zero, "after %d events", i+1)
	}
	text = line.Begin("")
	text.Observe(draft.Event{At: ms, Ahead: &draft.Ahead{}})
	assert.Zero(t, text.zero, "not before the text")
}

// TestEnds: events after the end of the answer are drawn up to the end.
func TestEnds(t *testing.T) {
	f := drawn(t, draft.Event{At: 201 * ms, Turn: &draft.Turn{}},
		asked(draft.Escalation{Pos: 4, Outcome: draft.Failed, Decided: 150 * ms, Wait: 300 * ms}),
		asked(draft.Escalation{Pos: 5, Outcome: draft.Failed, Decided: 250 * ms, Wait: 300 * ms}))
	assert.Equal(t, []laid{{"ask", 150, 200}}, laidOn(f, "device", "asks"))
	assert.Equal(t, 200_000., *f.All("i", "device", "draft steps", "turned")[0].Time)
}

// TestMicros: times are written in microseconds, to the nanosecond.
func TestMicros(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 7: "0.007", 2_030: "2.03", 8e12 + 567: "8000000000.567"} {
		b, err := json.Marshal(inMicroseconds(d))
		require.NoError(t, err)
		assert.Equal(t, want, string(b))
	}
}

// TestTokenBars: the bar of a token does not begin before the answer, and is long enough to end an arrow.
func TestTokenBars(t *testing.T) {
	for want, of := range map[laid]draft.Event{
		{"token", 0, 60}:      shown(4, -30*ms, 60*ms),
		{"token", 20, 60}:     shown(4, 20*ms, 60*ms),
		{"token", 59.999, 60}: shown(4, 60*ms, 60*ms),
		{"token", 150, 200}:   shown(4, 150*ms, 250*ms),
	} {
		assert.Equal(t, []laid{want}, laidOn(drawn(t, of), "device", "text"))
	}
}

// TestArrowsOfSeveral: arrows of several answers have different ids.
func TestArrowsOfSeveral(t *testing.T) {
	line := new(Timeline)
	q := draft.Escalation{Pos: 4, Outcome: draft.Hit, Decided: 20 * ms, Wait: 60 * ms, Wire: 60 * ms}
	for _, name := range []string{"a", "b"} {
		text := line.Begin(name)
		text.events, text.wall = []draft.Event{asked(q), asked(q), shown(4, 30*ms, 90*ms)}, 200*ms
	}
	f := written(t, line)
	ids := map[int]bool{}
	for _, e := range f.All("s", "", "", "") {
		ids[e.ID] = true
	}
	assert.Len(t, ids, 4)
	assert.Len(t, f.All("f", "b: device", "text", ""), 2)
}

// TestMarks: marks show when tokens were dropped or replaced, which ones, and by which answer.
func TestMarks(t *testing.T) {
	nodes := []draft.Drafted{{ID: 7, Parent: 2, Pos: 6, Token: 11}, {ID: 9, Parent: 7, Pos: 7, Token: 12, Guess: true}}
	pass := &draft.Pass{Rows: 2, Proposed: 1, Began: 10 * ms, Took: 10 * ms, Nodes: nodes}
	f := drawn(t, draft.Event{At: 20 * ms, Pass: pass},
		draft.Event{At: 30 * ms, Rollback: &draft.Rollback{Pos: 6, Of: 4, Nodes: []draft.ID{9, 7}}},
		draft.Event{At: 40 * ms, Turn: &draft.Turn{Finding: terms.Finding{Pos: 8, Token: 3}, Local: 5, Wasted: 2}})
	call := f.All("X", "device", "draft steps", "forward")[0]
	assert.Equal(t, []float64{2, 1, 1, 0},
		[]float64{call.Arg("rows"), call.Arg("branches"), call.Arg("proposed"), call.Arg("accepted")})
	back := f.All("i", "device", "draft steps", "rollback")[0]
	assert.Equal(t, []float64{30000, 6, 4, 2},
		[]float64{*back.Time, back.Arg("pos"), back.Arg("answer_pos"), back.Arg("dropped")})
	want := map[string]any{"node": 9.0, "parent": 7.0, "pos": 7.0, "token": 12.0, "guess": true}
	assert.Equal(t, want, back.Args["nodes"].([]any)[0])
	turned := f.All("i", "device", "draft steps", "turned")[0]
	assert.Equal(t, []float64{40000, 8, 3, 5, 2},
		[]float64{*turned.Time, turned.Arg("pos"), turned.Arg("token"), turned.Arg("local"), turned.Arg("wasted")})
}

// TestArguments: each argument of each kind of span has its own figure.
func TestArguments(t *testing.T) {
	broken := errors.New("broken")
	q := draft.Escalation{Pos: 4, Outcome: draft.Hit, Why: draft.Early, Err: broken, Local: 11, Token: 12,
		Confidence: 0.5, Decided: 10 * ms, Wait: 60 * ms, Queue: 5 * ms, Cloud: 15 * ms, Wire: 40 * ms,
		Hidden: 21 * ms, Exposed: 22 * ms, BytesUp: 23, BytesDown: 24, Drafted: 25, Wasted: 26, Prefilled: 27,
		Branches: 28}
	f := drawn(t, asked(q),
		draft.Event{Prompt: &draft.Prompt{Tokens: 31, Took: 5 * ms}},
		draft.Event{Waited: &draft.Waited{Pos: 32, Began: 90 * ms, Took: 5 * ms}},
		draft.Event{Pass: &draft.Pass{Rows: 33, Proposed: 34, Accepted: 35, Began: 6 * ms, Took: ms}},
		draft.Event{Warming: &draft.Warming{Tokens: 36, New: 37, BytesUp: 38, BytesDown: 39, Began: 100 * ms,
			Took: 20 * ms, Err: broken}},
		draft.Event{Token: &draft.Token{Pos: 4, ID: 41, Origin: draft.FromCloud, Confidence: 0.25, End: true,
			Unverified: true, CommitDelay: 42 * ms}, At: 120 * ms},
		draft.Event{Token: &draft.Token{Pos: 5, ID: 43, Origin: draft.Edge, CommitDelay: ms}, At: 125 * ms})
	args := func(process, thread, name string) map[string]any {
		all := f.All("X", process, thread, name)
		require.NotEmpty(t, all, name)
		return all[0].Args
	}
	assert.Equal(t, map[string]any{"pos": 4., "outcome": "hit", "why": "early", "local": 11., "token": 12.,
		"confidence": 0.5, "branches": 28., "drafted": 25., "wasted": 26., "wait_ms": 60., "hidden_ms": 21.,
		"exposed_ms": 22., "queue_ms": 5., "cloud_ms": 15., "wire_ms": 40., "bytes_up": 23., "bytes_down": 24.,
		"error": "broken"}, args("device", "asks", "ask"))
	assert.Equal(t, map[string]any{"tokens": 36., "new": 37., "bytes_up": 38., "bytes_down": 39., "error": "broken"},
		args("device", "asks", "sent early"))
	assert.Equal(t, [][]laid{{{"ask", 10, 70}, {"sent early", 100, 120}}, {{"ask", 10, 30}}, {{"answer", 50, 70}}},
		[][]laid{laidOn(f, "device", "asks"), laidOn(f, "network", "up"), laidOn(f, "network", "down")})
	assert.Equal(t, map[string]any{"pos": 4., "bytes": 23., "clock": "estimated"}, args("network", "up", "ask"))
	assert.Equal(t, map[string]any{"pos": 4., "bytes": 24., "clock": "estimated"}, args("network", "down", "answer"))
	assert.Equal(t, map[string]any{"pos": 4., "clock": "estimated"}, args("gateway", "asks", "served"))
	assert.Equal(t, map[string]any{"prefilled": 27.}, args("gateway", "asks", "compute"))
	assert.Equal(t, map[string]any{"pos": 4., "id": 41., "origin": "cloud", "confidence": 0.25, "end": true,
		"unverified": true, "commit_delay_ms": 42.}, args("device", "text", "token"))
	assert.Equal(t, map[string]any{"tokens": 31.}, args("device", "draft steps", "prompt"))
	assert.Equal(t, map[string]any{"for_pos": 32.}, args("device", "draft steps", "wait"))
	assert.Equal(t, map[string]any{"rows": 33., "branches": 0., "proposed": 34., "accepted": 35., "nodes": []any{}},
		args("device", "draft steps", "forward"))
	assert.Subset(t, args("device", "draft steps", "answer"), map[string]any{"tokens": 2., "cloud_tokens": 1.,
		"timeouts": 0., "asks": 1., "hits": 1., "passes": 1., "timed_calls": 0., "drafted": 25., "wasted": 26.})
}

// TestGPUAhead: the clock of a GPU may be ahead of the text's or behind it; the pass with the smallest delay tells.
func TestGPUAhead(t *testing.T) {
	runs := func(device ...time.Duration) (all []backend.Op) {
		for i, end := range device {
			all = append(all, backend.Op{End: time.Duration(i) * ms, DeviceEnd: time.Duration(i)*ms + end})
		}
		return all
	}
	assert.Equal(t, 90*ms, gpuClockOffset(runs(88*ms, 90*ms, 87*ms)))
	assert.Equal(t, -10*ms, gpuClockOffset(runs(-11*ms, -10*ms, -13*ms)))
	assert.Zero(t, gpuClockOffset(nil))
}
