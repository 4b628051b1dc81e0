package timeline

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/timelinetest"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// us returns a time in microseconds, as in files.
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// TestRandomSchedules: prompt, forward calls, waits and the rest add up to the time of the answer, each part is what
// the decoder reports, and viewers can read the file of any schedule.
func TestRandomSchedules(t *testing.T) {
	runs := 300
	if testing.Short() {
		runs = 25
	}
	r := rand.New(rand.NewPCG(7, 8))
	for i := range runs {
		bubble.Test(t, func(t *testing.T) {
			w := random(r)
			o := draft.Options{
				Mode: draft.Mode(r.IntN(2)), Branches: 1 + r.IntN(3), Window: 1 + r.IntN(12), InFlight: 1 + r.IntN(4),
				MaxTokens: 1 + r.IntN(30), Ahead: r.IntN(2), Verify: r.IntN(3) == 0,
			}
			if o.Deadline = -1; r.IntN(2) == 0 {
				o.Deadline = time.Duration(1+r.IntN(150)) * time.Millisecond
			}
			f, sum, took := decode(t, w, o)
			require.JSONEq(t, `{"of":"a test"}`, string(f.About))
			whole := f.All("X", "device", "draft steps", "answer")
			require.Len(t, whole, 1)
			require.InDelta(t, us(took), whole[0].Dur, 0.01, "run %d", i)
			parts := timelinetest.Sum(f.All("X", "device", "draft steps", "")) - whole[0].Dur
			require.InDelta(t, us(took), parts, 0.01*us(took)+0.01)
			calls := timelinetest.Sum(f.All("X", "device", "draft steps", "prompt")) +
				timelinetest.Sum(f.All("X", "device", "draft steps", "forward"))
			require.InDelta(t, us(w.calls), calls, 0.01)
			require.InDelta(t, us(w.calls), timelinetest.Sum(f.All("X", "device", "operations", "")), 0.01)
			require.Len(t, f.All("X", "device", "draft steps", "forward"), sum.Passes)
			require.Len(t, f.All("X", "device", "text", "token"), sum.Tokens)
			require.Equal(t, float64(sum.Cloud), whole[0].Arg("cloud_tokens"))
			require.LessOrEqual(t, len(f.All("X", "device", "asks", "ask")), sum.Asks,
				"an ask of zero length is not drawn")
			require.Equal(t, len(f.All("s", "device", "asks", "ask")), len(f.All("f", "device", "", "ask"))+
				len(f.All("f", "network", "", "ask")))
		})
	}
}

// story is a serial text with one question and known times: 10 ms of prompt, then forward calls of 5 ms. The token at
// position 5 is escalated: 20 ms there, 3 in the queue, 7 of computing, 30 back.
func story(clock bool) *world {
	ms := time.Millisecond
	w := &world{seed: 3, prompt: 10 * ms, forward: 5 * ms, escalates: func(pos int) bool { return pos == 5 }}
	w.ask = func(ctx context.Context, q draft.Question) (draft.Answer, error) {
		return travels(ctx, q, 20*ms, 3*ms, 7*ms, 30*ms, clock, w.local(5)+1)
	}
	return w
}

// TestKnownTimes: the file of an answer with known times.
func TestKnownTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, _, _ := decode(t, story(true), draft.Options{Mode: draft.Serial, MaxTokens: 5, Deadline: -1})
		type at struct {
			name     string
			from, to float64
		}
		have := func(process, thread string) (all []at) {
			for _, e := range f.All("X", process, thread, "") {
				all = append(all, at{e.Name, *e.Time / 1000, e.End() / 1000})
			}
			return all
		}
		assert.Equal(t, []at{{"answer", 0, 90}, {"prompt", 0, 10}, {"forward", 10, 15}, {"forward", 15, 20},
			{"wait", 20, 80}, {"forward", 80, 85}, {"forward", 85, 90}}, have("device", "draft steps"))
		assert.Equal(t, []at{{"ask", 20, 80}}, have("device", "asks"))
		assert.Equal(t, []at{{"ask", 20, 40}}, have("network", "up"))
		assert.Equal(t, []at{{"answer", 50, 80}}, have("network", "down"))
		assert.Equal(t, []at{{"served", 40, 50}, {"queue", 40, 43}, {"compute", 43, 50}}, have("gateway", "asks"))
		assert.Equal(t, []at{{"embed", 0, 10}, {"head", 10, 15}, {"head", 15, 20}, {"head", 80, 85}, {"head", 85, 90}},
			have("device", "operations"))
		var shown []float64
		for _, e := range f.All("X", "device", "text", "token") {
			shown = append(shown, e.End()/1000)
		}
		assert.Equal(t, []float64{10, 15, 80, 85, 90}, shown)
		arrow := append(f.All("s", "", "", ""), append(f.All("t", "", "", ""), f.All("f", "", "", "")...)...)
		require.Len(t, arrow, 4)
		for i, want := range []at{{"asks", 20, 0}, {"asks", 43, 0}, {"down", 50, 0}, {"text", 80, 0}} {
			assert.Equal(t, want.name, f.Thread(arrow[i]))
			assert.InDelta(t, want.from, *arrow[i].Time/1000, 0.001)
		}
		assert.Equal(t, "gateway", f.Process(arrow[1]))
		ask := f.All("X", "device", "asks", "ask")[0]
		for name, want := range map[string]float64{"pos": 5, "wait_ms": 60, "queue_ms": 3, "cloud_ms": 7, "wire_ms": 50,
			"exposed_ms": 60, "hidden_ms": 0, "bytes_up": 10, "bytes_down": 20} {
			assert.Equal(t, want, ask.Arg(name), name)
		}
		assert.Equal(t, "miss", ask.Args["outcome"])
		at5 := f.All("X", "gateway", "asks", "served")[0]
		assert.Equal(t, "measured", at5.Args["clock"])
		assert.Equal(t, 1000.0, at5.Arg("clock_within_us"))
	})
}

// TestEstimated: if the gateway reports no times, its part is drawn in the middle of the time on the wire, and marked
// as estimated.
func TestEstimated(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, _, _ := decode(t, story(false), draft.Options{Mode: draft.Serial, MaxTokens: 5, Deadline: -1})
		at := f.All("X", "gateway", "asks", "served")[0]
		assert.Equal(t, []float64{45000, 55000}, []float64{*at.Time, at.End()}, "25 ms each way, in place of 20 and 30")
		for _, e := range append(f.All("X", "network", "", ""), at) {
			assert.Equal(t, "estimated", e.Args["clock"])
		}
		assert.NotContains(t, at.Args, "clock_within_us")
	})
}

// TestBranchesAndRollback: while a question is open two branches are drafted; a branch that the answer contradicts is
// dropped. A token is settled when its question is answered, even if it is shown only after the forward call.
func TestBranchesAndRollback(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := story(true)
		f, sum, _ := decode(t, w, draft.Options{Branches: 2, MaxTokens: 6, Deadline: -1})
		assert.Equal(t, 1, sum.Hits)
		both := f.All("X", "device", "draft steps", "forward")[2]
		assert.Equal(t, 2., both.Arg("rows"))
		assert.Equal(t, 2., both.Arg("branches"))
		nodes := both.Args["nodes"].([]any)
		require.Len(t, nodes, 2)
		assert.Equal(t, nodes[0].(map[string]any)["parent"], nodes[1].(map[string]any)["parent"])
		assert.Equal(t, 5.0, nodes[0].(map[string]any)["pos"])
		rollbacks := f.All("i", "device", "draft steps", "rollback")
		require.NotEmpty(t, rollbacks)
		first := rollbacks[0]
		assert.Equal(t, 5.0, first.Arg("answer_pos"))
		dropped := first.Args["nodes"].([]any)
		require.Len(t, dropped, int(first.Arg("dropped")))
		assert.Contains(t, dropped, nodes[0], "the small model's guess is rejected")
		token := f.All("X", "device", "text", "token")[2]
		assert.Equal(t, []float64{20000, 80000}, []float64{*token.Time, token.End()}, "from the ask until the answer")
	})
	bubble.Test(t, func(t *testing.T) {
		w := story(true)
		w.forward = 25 * time.Millisecond
		f, _, _ := decode(t, w, draft.Options{Branches: 2, MaxTokens: 12, Deadline: -1})
		token := f.All("X", "device", "text", "token")[2]
		settled := f.All("X", "device", "text", "settled")
		require.NotEmpty(t, settled)
		assert.Equal(t, []float64{120000, 135000}, []float64{*settled[0].Time, settled[0].End()},
			"answered during a call")
		assert.Equal(t, token.End(), settled[0].End())
		assert.Equal(t, token.Process, settled[0].Process)
		assert.Equal(t, token.Thread, settled[0].Thread)
	})
}

// TestGPU: a GPU has its own clock. Its passes are drawn as late as possible before their ends were reported, with
// their durations and in their order. They are not operations.
func TestGPU(t *testing.T) {
	ms := time.Millisecond
	line := new(Timeline)
	text := line.Begin("")
	ran := func(known, begin, end time.Duration) backend.Op {
		return backend.Op{Kind: backend.OpRun, Layer: -1, Rows: 2, Begin: known, End: known,
			DeviceBegin: time.Hour + begin, DeviceEnd: time.Hour + end}
	}
	for _, o := range []backend.Op{ran(30*ms, 20*ms, 25*ms), ran(31*ms, 12*ms, 20*ms), ran(52*ms, 40*ms, 50*ms),
		ran(75*ms, 60*ms, 70*ms), ran(85*ms, 69*ms, 71*ms)} {
		text.addOperation(o)
	}
	text.wall = time.Second
	f := written(t, line)
	var have [][2]float64
	for _, e := range f.All("X", "device", "GPU", "forward") {
		have = append(have, [2]float64{*e.Time / 1000, e.End() / 1000})
		assert.Equal(t, 2.0, e.Arg("rows"))
	}
	assert.Equal(t, [][2]float64{{14, 22}, {22, 27}, {42, 52}, {62, 72}, {72, 73}}, have,
		"the second was reported first, and the last one began before the end of another")
	assert.Empty(t, f.All("X", "device", "operations", ""))
}

// TestSeveralTexts: texts are drawn in parallel with their own names, and all begin at 0. Texts need not be ended.
func TestSeveralTexts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		line := new(Timeline)
		for _, name := range []string{"a", "b"} {
			text := line.Begin(name)
			time.Sleep(time.Second)
			text.Observe(draft.Event{At: 300 * time.Millisecond, Token: &draft.Token{Pos: 3}})
		}
		line.texts[0].End()
		time.Sleep(time.Hour)
		line.texts[0].End()
		f := written(t, line)
		for name, want := range map[string]float64{"a": 2000, "b": 1000} {
			e := f.All("X", name+": device", "draft steps", "answer")
			require.Len(t, e, 1)
			assert.Zero(t, *e[0].Time)
			assert.Equal(t, want*1000, e[0].Dur, name)
			assert.Len(t, f.All("X", name+": device", "text", "token"), 1)
		}
	})
	var b bytes.Buffer
	require.NoError(t, new(Timeline).Write(&b, nil))
	assert.JSONEq(t, `{"displayTimeUnit":"ms","traceEvents":[]}`, b.String(), "without further information")
	assert.Error(t, new(Timeline).Write(&b, func() {}))
	var none *Timeline
	text := none.Begin("x")
	assert.Nil(t, text)
	r := engine.Route{}
	text.Watch(&r)
	text.End()
	assert.Nil(t, r.Watch)
	assert.Nil(t, r.Observe)
	assert.False(t, r.Draft.Trace)
}

// TestWatchKeepsObserver: an existing observer of a route still gets all events.
func TestWatchKeepsObserver(t *testing.T) {
	seen := 0
	r := engine.Route{Observe: func(draft.Event) { seen++ }}
	text := new(Timeline).Begin("")
	text.Watch(&r)
	r.Observe(draft.Event{Pass: &draft.Pass{}})
	r.Observe(draft.Event{Preview: &draft.Preview{}})
	assert.Equal(t, 2, seen)
	assert.Len(t, text.events, 1, "previews are not drawn")
	assert.True(t, r.Draft.Trace)
	require.NotNil(t, r.Watch)
	assert.Equal(t, text.began, r.Watch.Zero)
	assert.Positive(t, r.Watch.Share)
	for range 300 { // more than are stored in one piece
		r.Watch.Tell(backend.Op{Kind: backend.OpHead, Layer: -1, End: 1})
	}
	r.Watch.Tell(backend.Op{Kind: backend.OpEmbed, Layer: 3, Rows: 2, End: 1})
	assert.Equal(t, 300, text.timedCalls())
	ops := text.ops[1]
	assert.Equal(t, backend.Op{Kind: backend.OpEmbed, Layer: 3, Rows: 2, End: 1}, ops[len(ops)-1])
}

// TestLayers: an operation of a layer has its number; one outside of the layers has none.
func TestLayers(t *testing.T) {
	line := new(Timeline)
	text := line.Begin("")
	for i, layer := range []int16{-1, 0, 2} {
		at := time.Duration(i) * time.Millisecond
		text.addOperation(backend.Op{Kind: backend.OpHead, Layer: layer, Rows: int32(1 + i), Begin: at, End: at + 1000})
	}
	text.wall = time.Second
	type operation struct{ layer, rows any }
	var operations []operation
	for _, e := range written(t, line).All("X", "device", "operations", "") {
		operations = append(operations, operation{e.Args["layer"], e.Args["rows"]})
	}
	assert.Equal(t, []operation{{nil, 1.}, {0., 2.}, {2., 3.}}, operations)
}
