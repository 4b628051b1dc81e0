package replay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// scripted returns a recording made by hand: a prompt of 2 tokens, then 10, 11, 12 and the end token, all by the small
// model. The second token is escalated, with second as the small model's choice and large as the cloud's. The cloud
// takes 20 ms, including 5 ms in a queue.
func scripted(second, large int32) *Recording {
	sure := func(node, id int32) Head {
		return Head{Node: node, IDs: []int32{id, 1}, Logits: []float32{9, 0}, LogSumExp: 9}
	}
	a := &Answer{
		Mode: "serial", Prompt: []int32{2, 3}, Tokens: []int32{10, 11, 12}, Parents: []int32{0, 1, 2},
		Heads: []Head{
			sure(0, 10), {Node: 1, IDs: []int32{second, 11, 30}, Logits: []float32{2, 2, 1}, LogSumExp: 2.9},
			sure(2, 12), sure(3, end),
		},
		Prefill: 40 * ms, Took: time.Second, IDs: []int32{10, 11, 12}, Ended: true, Graded: true, Correct: true,
		Calls: []Call{{1, 9 * ms}, {1, 11 * ms}, {1, 13 * ms}},
		Asks: []Ask{{
			Node: 1, Took: 120 * ms, Token: large, Queue: 5 * ms, Cloud: 15 * ms, BytesUp: 30, BytesDown: 20,
		}},
	}
	a.hashNodes()
	h := header()
	h.RTT = 90 * ms
	return &Recording{Header: h, Answers: []*Answer{a}}
}

// plays replays the only answer of a recording in a mode and returns its time.
func plays(
	t *testing.T, r *Recording, mode string, terms Terms, set func(*draft.Options),
) (shown, *Text, time.Duration) {
	p := playing(t, r)
	clock := simclock.New(time.Unix(0, 0))
	var s shown
	var text *Text
	var took time.Duration
	clock.Run(func() {
		text = p.Text(Of{Mode: mode}, terms, clock)
		o := options(clock)
		o.Warm, o.Audit, o.Lookup = -1, false, -1
		set(&o)
		s = decodes(t, r.Answers[0].Prompt, text.Model(), policy(t, 0.5), text.Cloud(), o, nil)
		text.Shown(r.Answers[0].Prompt, s.tokens)
		took = clock.Now().Sub(time.Unix(0, 0))
	})
	return s, text, took
}

// TestKnownTimes: times computed by hand, for serial and pipelined decoding, hit and miss.
func TestKnownTimes(t *testing.T) {
	serial, pipelined := ways()["serial"], func(o *draft.Options) { o.Branches = 2 }
	link := linkOf(100*ms, 0, 1)
	for _, c := range []struct {
		name   string
		mode   string
		second int32
		large  int32
		terms  Terms
		set    func(*draft.Options)
		want   time.Duration
	}{
		{"as recorded", "serial", 11, 11, Terms{}, serial, (40 + 11 + 120 + 11 + 11) * ms},
		{"paced", "serial", 11, 11, Terms{EdgeTPS: 100}, serial, (40 + 10 + 120 + 10 + 10) * ms},
		{"pipelined, a hit: after the second pass there is nothing left to draft", "serial", 11, 11, Terms{}, pipelined,
			(40 + 11 + 120) * ms},
		{"another pace of the cloud", "serial", 11, 11, Terms{CloudPace: new(115 * ms)}, serial,
			(40 + 11 + 220 + 11 + 11) * ms},
		// 10 ms of the way in addition to the round trip of 90 ms, 100 ms round trip, 20 ms in the cloud
		{"another link", "serial", 11, 11, Terms{Link: link}, serial, (40 + 11 + 10 + 100 + 20 + 11 + 11) * ms},
		{"another link, pipelined, a hit", "serial", 11, 11, Terms{Link: link, EdgeTPS: 100}, pipelined,
			(40 + 10 + 130) * ms},
		{"an unknown mode", "other", 11, 11, Terms{EdgeTPS: 50}, serial, (40 + 20 + 120 + 20 + 20) * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, took := plays(t, scripted(c.second, c.large), c.mode, c.terms, c.set)
			assert.Equal(t, c.want, took)
		})
	}
}

// TestOwnServer: with paces and another link, device and server are separate computers. The device reads the prompt as
// fast as if it were alone; so does the server read new tokens, in the order in which texts arrive.
func TestOwnServer(t *testing.T) {
	link := linkOf(100*ms, 0, 1)
	for _, c := range []struct {
		name  string
		alone time.Duration // until the large model's first token, for a prompt of 2 tokens
		warm  int           // [draft.Options.Warm]
		want  time.Duration
	}{
		// as above until 50 ms, arrival at 100 ms; 2 of the 3 tokens are read before a pass of 20 ms
		{"the question brings the prompt", 60 * ms, -1, (50 + 100 + 60 + 20 + 20) * ms},
		{"the prompt was sent before", 60 * ms, 0, (50 + 100 + 20 + 20) * ms},
		{"it is still read", 300 * ms, 0, (50 + 150 + 20 + 50 + 20) * ms},
		{"all prompts begin so", 60 * ms, -1, (50 + 100 + 30 + 20 + 20) * ms},
		{"not recorded: as recorded", 0, 0, (50 + 100 + 5 + 20 + 20) * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := scripted(11, 11)
			for mode, prefill := range map[string]time.Duration{LocalMode: 30 * ms, CloudMode: c.alone} {
				a := &Answer{Mode: mode, Prompt: r.Answers[0].Prompt, Prefill: prefill}
				a.hashNodes()
				r.Answers = append(r.Answers, a)
			}
			if c.name == "all prompts begin so" {
				r.Answers = append(r.Answers, &Answer{Mode: LocalMode, Question: 1, Prompt: []int32{2, 4}})
			}
			terms := Terms{Link: link, EdgeTPS: 100, CloudPace: new(20 * ms)}
			_, text, took := plays(t, r, "serial", terms, func(o *draft.Options) {
				ways()["serial"](o)
				o.Warm = c.warm
			})
			assert.Equal(t, c.want, took)
			assert.Zero(t, text.Assumed)
		})
	}
}

// TestServerReads: a text that was read is not read again, and one that arrives meanwhile waits.
func TestServerReads(t *testing.T) {
	r := scripted(11, 11)
	r.Answers = append(r.Answers, &Answer{Mode: CloudMode, Prompt: []int32{2, 3}, Prefill: 60 * ms})
	p := playing(t, r)
	text := p.Text(Of{Mode: "serial"}, Terms{Link: linkOf(0, 0, 0), CloudPace: new(20 * ms)},
		simclock.New(time.Unix(0, 0)))
	assert.Equal(t, 30*ms, text.simulateReading([]int32{2, 3}),
		"all but the last token, which belongs to the pass that answers")
	assert.Equal(t, 30*ms, text.simulateReading([]int32{2, 3}))
	queue, cloud := text.computeTimes(new(Ask), []int32{2, 3, 10})
	assert.Equal(t, 30*ms, queue)
	assert.Equal(t, 20*ms, cloud)
}

// TestLearned: what a player takes from a recording: times between tokens ahead, the modes and questions with answers,
// and as the large model's choices only those that it made.
func TestLearned(t *testing.T) {
	r := scripted(11, 11)
	r.Modes = []string{"other", "serial", "serial"}
	own := r.Answers[0]
	p := playing(t, r)
	assert.Equal(t, r.CloudPace, p.pace, "no two tokens ahead")
	assert.Equal(t, []string{"serial"}, p.Modes())
	numbers, partial, prompts := p.Questions()
	assert.Equal(t, []int{0}, numbers)
	assert.Empty(t, partial)
	assert.Equal(t, map[int][]int32{0: {2, 3}}, prompts)
	assert.Equal(t, map[uint64]int32{hashTokens([]int32{2, 3, 10}): 11}, p.said)

	own.Asks[0].Ahead = []Later{{12, 3 * ms}, {5, 10 * ms}, {6, 15 * ms}}
	own.Asks = append(own.Asks, Ask{Node: 2, Token: 8}, Ask{Node: 2, Token: 9}, Ask{Node: 3, Warm: true, Token: 9})
	p = playing(t, r)
	assert.Equal(t, 6*ms, p.pace, "the mean of 5 and 7 ms")
	assert.Equal(t, int32(8), p.recordedAsk(askKey{"serial", own.texts[2], false}).Token, "the first")
	assert.Equal(t, int32(5), p.said[own.texts[3]], "not from a text that was sent early")
}

// TestOfMode: the times of prompts and asks are those of the same mode, if it has any. With a pace the device is alone.
func TestOfMode(t *testing.T) {
	r := scripted(11, 11)
	for mode, took := range map[string]time.Duration{"fast": 1 * ms, "slow": 9 * ms} {
		a := *scripted(11, 11).Answers[0]
		a.Mode, a.Prefill, a.Asks[0].Took = mode, took, 100*took
		r.Answers = append(r.Answers, &a)
	}
	alone := &Answer{Mode: LocalMode, Prompt: []int32{2, 3}, Prefill: 30 * ms}
	alone.hashNodes()
	r.Answers = append(r.Answers, alone)
	p := playing(t, r)
	for _, c := range []struct {
		mode          string
		tps           float64
		prefill, took time.Duration
	}{{"serial", 0, 40, 120}, {"serial", 1, 30, 120}, {"fast", 0, 1, 100}, {"slow", 0, 9, 900},
		{"unknown", 0, 30, 1120 / 3}} {
		t.Run(fmt.Sprintf("%s at %v tokens/s", c.mode, c.tps), func(t *testing.T) {
			clock := simclock.New(time.Unix(0, 0))
			clock.Run(func() {
				text := p.Text(Of{Mode: c.mode}, Terms{EdgeTPS: c.tps}, clock)
				_, err := text.Model().Prefill(t.Context(), []int32{2, 3})
				require.NoError(t, err)
				assert.Equal(t, c.prefill*ms, text.elapsedTime())
				assert.Equal(t, c.took, p.recordedAsk(askKey{c.mode, 7, false}).Took/ms)
			})
		})
	}
	assert.Zero(t, p.prefillTime("unknown", 1), "nothing is known")
}

// TestHeadOfQuestion: an unknown head is one of the question, or of any question if that has none.
func TestHeadOfQuestion(t *testing.T) {
	r := scripted(11, 11)
	other := &Answer{Mode: "serial", Question: 1, Prompt: []int32{5, 6}, Heads: []Head{
		{IDs: []int32{30}, Logits: []float32{1}}}}
	other.hashNodes()
	r.Answers = append(r.Answers, other)
	p := playing(t, r)
	found := map[int]map[int32]bool{0: {}, 1: {}, 2: {}}
	for text := range uint64(100) {
		for question, ids := range found {
			h, known := p.findHead(question, text, false)
			assert.False(t, known)
			ids[h.IDs[0]] = true
		}
	}
	of := map[int32]bool{10: true, 11: true, 12: true, end: true}
	assert.Equal(t, of, found[0])
	assert.Equal(t, map[int32]bool{30: true}, found[1])
	of[30] = true
	assert.Equal(t, of, found[2])
	h, known := p.findHead(1, hashTokens(other.Prompt), false)
	assert.True(t, known)
	assert.Equal(t, []int32{30}, h.IDs)
	h, known = p.findHead(1, hashTokens(other.Prompt), true)
	assert.False(t, known, "its confidence was not recorded")
	assert.Equal(t, []int32{30}, h.IDs, "its confidence was not recorded")
	h = mergeHeads(&Head{IDs: []int32{1, 2}}, &Head{IDs: []int32{1}, Confidence: new(float32(0.5))})
	assert.Len(t, h.IDs, 2)
	assert.NotNil(t, h.Confidence)
}

// TestCallOf: the time of a pass is the mean of those with as many rows, of the mode if it has any, or else with the
// nearest number of rows.
func TestCallOf(t *testing.T) {
	p := Player{calls: map[string]map[int]*durationMean{
		"a": {3: {6, 2}, 5: {5, 1}}, "0": {}, "": {3: {9, 1}, 2: {2, 1}},
	}}
	for rows, want := range map[int]time.Duration{1: 3, 2: 3, 3: 3, 4: 3, 5: 5, 9: 5} {
		assert.Equal(t, want, p.callTime("a", rows), "%d rows", rows)
	}
	for _, mode := range []string{"0", "unknown"} {
		assert.Equal(t, time.Duration(2), p.callTime(mode, 1))
		assert.Equal(t, time.Duration(9), p.callTime(mode, 6))
	}
	assert.Zero(t, new(Player).callTime("a", 1))
}

// TestRoom: drafted nodes take room, and those that were dropped do not.
func TestRoom(t *testing.T) {
	p := playing(t, scripted(11, 11))
	clock := simclock.New(time.Unix(0, 0))
	clock.Run(func() {
		text := p.Text(Of{Mode: "serial"}, Terms{}, clock)
		m := text.Model()
		_, err := m.Prefill(t.Context(), []int32{2, 3})
		require.NoError(t, err)
		assert.Equal(t, room-2, m.Room())
		_, err = m.Extend(t.Context(), []draft.Node{{ID: 1, Token: 10, Pos: 2}, {ID: 2, Token: 11, Pos: 2}})
		require.NoError(t, err)
		assert.Equal(t, room-4, m.Room())
		m.Settle(1)
		assert.Equal(t, room-4, m.Room())
		m.Drop(2)
		assert.Equal(t, room-3, m.Room())
		_, err = m.Extend(t.Context(), []draft.Node{{ID: 3, Token: 11, Pos: room}})
		assert.ErrorContains(t, err, "beyond the context of 400 tokens")
	})
}

// TestBeginning: the common prefix of the prompts of all questions is counted; several answers to one question add
// nothing.
func TestBeginning(t *testing.T) {
	of := func(prompts ...[]int32) (all []*Answer) {
		for _, p := range prompts {
			all = append(all, &Answer{Prompt: p})
		}
		return all
	}
	assert.Zero(t, commonPromptLength(nil))
	assert.Zero(t, commonPromptLength(of([]int32{1, 2, 3}, []int32{1, 2, 3})))
	answers := of([]int32{1, 2, 3}, []int32{1, 2, 3}, []int32{1, 2, 4}, []int32{1, 2, 3, 5})
	assert.Equal(t, 2, commonPromptLength(answers))
	assert.Zero(t, commonPromptLength(of([]int32{1, 2}, []int32{3, 2}, []int32{1, 2, 3})))
}

// TestRowsCost: with a pace each further row of a call takes its share.
func TestRowsCost(t *testing.T) {
	p := playing(t, scripted(11, 11))
	text := p.Text(Of{Mode: "x"}, Terms{EdgeTPS: 100, RowCost: 0.25}, simclock.New(time.Unix(0, 0)))
	assert.Equal(t, 10*ms, text.passTime(1))
	assert.Equal(t, 15*ms, text.passTime(3))
}

// carrying returns when messages that are sent together arrive over a link.
func carrying(t *testing.T, l *Link, part float64, sizes ...int) (there []time.Duration) {
	p := playing(t, scripted(11, 11))
	clock := simclock.New(time.Unix(0, 0))
	clock.Run(func() {
		text := p.Text(Of{Mode: "serial", Part: part}, Terms{Link: l}, clock)
		for i, size := range sizes {
			clock.Go(func() {
				assert.True(t, text.sendMessage(t.Context(), upwards, uint64(i), size))
				there = append(there, text.elapsedTime())
			})
		}
	})
	return there
}

// narrow returns a link with a chance to send 1500 bytes every so often, in milliseconds.
func narrow(t *testing.T, up, down string) *Link {
	l, path := linkOf(100*ms, 0, 0), filepath.Join(t.TempDir(), "narrow")
	require.NoError(t, os.WriteFile(path+".up", []byte(up), 0o600))
	require.NoError(t, os.WriteFile(path+".down", []byte(down), 0o600))
	require.NoError(t, l.Options.AddTrace(path))
	return l
}

// TestCarry: messages of a narrow link queue, each with the overhead of QUIC, UDP and IP.
func TestCarry(t *testing.T) {
	l := narrow(t, "10\n", "10\n")
	const headers = frameBytes + 28
	assert.Equal(t, []time.Duration{60 * ms}, carrying(t, l, 0, 1500-headers))
	assert.Equal(t, []time.Duration{70 * ms}, carrying(t, l, 0, 1501-headers))
	assert.Equal(t, []time.Duration{60 * ms, 60 * ms}, carrying(t, l, 0, 740-headers, 760-headers))
	assert.Equal(t, []time.Duration{60 * ms, 70 * ms}, carrying(t, l, 0, 740-headers, 761-headers))
}

// TestLoss: a lost message is sent again after a round trip and more, which doubles, as often as the given share.
// Losses depend on all arguments, but not on the mode.
func TestLoss(t *testing.T) {
	lost, all := 0, 0
	for seed := range uint64(400) {
		l := linkOf(100*ms, 0.3, seed)
		moved := *l
		moved.Seed = lossSeed(l.Seed, Of{})
		want, attempt := 50*ms, uint64(0)
		for ; moved.losesMessage(0, upwards, attempt); attempt++ {
			want += 126 * ms << attempt
		}
		lost, all = lost+int(attempt), all+int(attempt)+1
		require.Equal(t, []time.Duration{want}, carrying(t, l, 0, 10), "seed %d", seed)
	}
	assert.InDelta(t, 0.3, float64(lost)/float64(all), 0.06)
	differ := func(one, other func(l *Link, i uint64) bool) {
		n := 0
		for i := range uint64(300) {
			if one(linkOf(0, 0.5, 7), i) != other(linkOf(0, 0.5, 7), i) {
				n++
			}
		}
		assert.InDelta(t, 150, n, 50)
	}
	base := func(l *Link, i uint64) bool { return l.losesMessage(i, 0, 0) }
	differ(base, func(l *Link, i uint64) bool { return l.losesMessage(i, 1, 0) })
	differ(base, func(l *Link, i uint64) bool { return l.losesMessage(i, 0, 1) })
	differ(base, func(_ *Link, i uint64) bool { return linkOf(0, 0.5, 8).losesMessage(i, 0, 0) })
	assert.NotEqual(t, lossSeed(1, Of{Question: 1}), lossSeed(1, Of{Question: 2}))
	assert.NotEqual(t, lossSeed(1, Of{Take: 1}), lossSeed(1, Of{Take: 2}))
	assert.Equal(t, lossSeed(1, Of{Mode: "a", Question: 3}), lossSeed(1, Of{Mode: "b", Question: 3}),
		"all modes have the same losses")
}

// TestTrace: a question begins at its part of the trace, the recorded round trip is on the way back, and in an outage
// packets are sent again until it ends.
func TestTrace(t *testing.T) {
	trace, err := link.ReadRTT(strings.NewReader("t_ms,rtt_ms\n0,10\n100,30\n200,\n300,50\n"), "x")
	require.NoError(t, err)
	l := linkOf(100*ms, 0, 0)
	l.Options.RTT = trace
	serial := ways()["serial"]
	for _, c := range []struct {
		name string
		part float64
		want time.Duration
	}{
		// sent at 61 ms, arrival at 111 ms: 50 ms up, 20 ms in the cloud, 50 ms and the round trip of that moment,
		// 131 ms, down
		{"from the start", 0, (40 + 11 + 10 + 50 + 20 + 50 + 30 + 11 + 11) * ms},
		// from 100 ms on: it is sent at 161 ms and the answer at 231 ms, in the outage. The mean of the trace is 30 ms;
		// so 130 + 26 ms later
		{"from a quarter on, in the outage", 0.25, (40 + 11 + 10 + 50 + 20 + 156 + 50 + 50 + 11 + 11) * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := playing(t, scripted(11, 11))
			clock := simclock.New(time.Unix(0, 0))
			clock.Run(func() {
				text := p.Text(Of{Mode: "serial", Part: c.part}, Terms{Link: l}, clock)
				o := options(clock)
				o.Warm, o.Audit, o.Lookup = -1, false, -1
				serial(&o)
				decodes(t, []int32{2, 3}, text.Model(), policy(t, 0.5), text.Cloud(), o, nil)
				assert.Equal(t, c.want, text.elapsedTime())
			})
		})
	}
}

// TestAssumed: assumptions about values that a recording lacks are counted, and shown tokens that depend on them.
func TestAssumed(t *testing.T) {
	_, text, _ := plays(t, scripted(11, 11), "serial", Terms{}, ways()["serial"])
	assert.Equal(t, Assumed{}, text.Assumed)
	s, text, _ := plays(t, scripted(11, 11), "serial", Terms{}, func(o *draft.Options) { o.Branches = 3 })
	assert.Equal(t, []int32{10, 11, 12, end}, s.ids)
	assert.Positive(t, text.Heads, "heads of the other branches")
	assert.Zero(t, text.Assumed.Text)

	r := scripted(11, 30) // nothing is recorded after token 30
	s, text, _ = plays(t, r, "serial", Terms{}, ways()["serial"])
	assert.Equal(t, int32(30), s.ids[1])
	assert.Equal(t, len(s.ids)-2, text.Assumed.Text)

	r = scripted(11, 11)
	r.Answers[0].Asks = nil
	s, text, _ = plays(t, r, "serial", Terms{}, ways()["serial"])
	assert.Equal(t, []int32{10, 11, 12, end}, s.ids, "the small model's tokens")
	assert.Equal(t, Assumed{Answers: 1, Text: 1}, text.Assumed)
}

// TestCancelled: waiting ends with the context.
func TestCancelled(t *testing.T) {
	p := playing(t, scripted(11, 11))
	clock := simclock.New(time.Unix(0, 0))
	clock.Run(func() {
		text := p.Text(Of{Mode: "serial"}, Terms{Link: linkOf(time.Second, 0, 0)}, clock)
		ctx, cancel := context.WithCancel(t.Context())
		clock.Go(func() {
			clock.Sleep(30*ms, nil)
			cancel()
		})
		_, err := text.Model().Prefill(ctx, []int32{2, 3})
		assert.ErrorIs(t, err, context.Canceled)
		_, err = text.Cloud().Ask(ctx, draft.Question{Context: []int32{2, 3, 10}})
		assert.ErrorIs(t, err, context.Canceled)
		_, _, err = text.Cloud().(draft.Warmer).Warm(ctx, []int32{2, 3})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 30*ms, text.elapsedTime())
	})
}

// TestAhead: over another link tokens ahead follow the answer at the pace of the large model, however long the way
// takes, since they are on it together. They end where the recording does, or at an end token, and arrive in order
// although messages are lost.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		name          string
		ahead, wanted int
		loss          float64
		want          []int32
	}{
		{"as many as requested", 3, 2, 0, []int32{12, 13}},
		{"as many as recorded", 1, 9, 0, []int32{12}},
		{"all", 3, 9, 0, []int32{12, 13, end}},
		{"up to the end token", 4, 9, 0, []int32{12, 13, end}},
		{"with losses", 3, 3, 0.5, []int32{12, 13, end}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(20) {
				r := scripted(11, 11)
				r.Answers[0].Asks[0].Ahead = []Later{{Token: 12}, {Token: 13}, {Token: end}, {Token: 5}}[:c.ahead]
				p := playing(t, r)
				terms := Terms{Link: linkOf(400*ms, c.loss, seed), CloudPace: new(15 * ms)}
				clock := simclock.New(time.Unix(0, 0))
				clock.Run(func() {
					text := p.Text(Of{Mode: "serial"}, terms, clock)
					a, err := text.Cloud().Ask(t.Context(), draft.Question{Context: []int32{2, 3, 10}, Ahead: c.wanted})
					require.NoError(t, err)
					answered := text.elapsedTime()
					var got []int32
					for token, more := int32(0), true; more; {
						clock.Wait(time.Time{}, func() bool {
							select {
							case token, more = <-a.Ahead:
								return true
							default:
								return false
							}
						})
						if more {
							got = append(got, token)
							assert.True(t, c.loss > 0 || text.elapsedTime() == answered+time.Duration(len(got))*15*ms)
						}
					}
					assert.Equal(t, c.want, got)
				})
			}
		})
	}
}
