package replay

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/simclock"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// recorder returns a recorder and what it writes.
func recorder(t *testing.T) (*Recorder, *bytes.Buffer) {
	b := new(bytes.Buffer)
	rec, err := NewRecorder(b, header())
	require.NoError(t, err)
	return rec, b
}

// answers closes a recorder and returns the answers that it wrote.
func answers(t *testing.T, rec *Recorder, b *bytes.Buffer) []*Answer {
	require.NoError(t, rec.Close())
	r, err := Read(b, "x")
	require.NoError(t, err)
	return r.Answers
}

// TestTimes: the times of calls and asks, without the program's own.
func TestTimes(t *testing.T) {
	rec, b := recorder(t)
	bubble.Test(t, func(t *testing.T) {
		take := rec.Begin("a", 2, 5, []int32{1, 2}, nil)
		m := take.Model(timed(10 * ms))
		c := take.Cloud(answering(20 * ms))
		time.Sleep(3 * ms)
		_, err := m.Prefill(t.Context(), []int32{1, 2})
		require.NoError(t, err)
		extend := func(nodes ...draft.Node) {
			time.Sleep(ms)
			_, err := m.Extend(t.Context(), nodes)
			require.NoError(t, err)
		}
		extend(draft.Node{ID: 7, Token: 7})
		_, err = c.Ask(t.Context(), draft.Question{Context: []int32{1, 2, 7}})
		assert.NoError(t, err)
		extend(draft.Node{ID: 8, Token: 8, Path: []draft.ID{7}}, draft.Node{ID: 6, Token: 6, Path: []draft.ID{7}})
		m.Settle(7)
		extend(draft.Node{ID: 9, Token: 9, Path: []draft.ID{8}}, draft.Node{ID: 5, Token: 5})
		take.End([]int32{7, 8}, true, true, true)
	})
	a := answers(t, rec, b)[0]
	assert.Equal(t, "a", a.Mode)
	assert.Equal(t, 2, a.Question)
	assert.Equal(t, 5, a.Device)
	assert.Equal(t, 10*ms, a.Prefill)
	assert.Equal(t, 66*ms, a.Took)
	assert.Equal(t, []Call{{1, 10 * ms}, {2, 10 * ms}, {2, 10 * ms}}, a.Calls)
	assert.Equal(t, []int32{7, 8, 6, 9, 5}, a.Tokens)
	assert.Equal(t, []int32{0, 1, 1, 2, 1}, a.Parents)
	assert.Equal(t, []Ask{{Node: 1, Took: 20 * ms, Token: 4, BytesUp: 5}}, a.Asks)
	assert.True(t, a.Ended && a.Graded && a.Correct)
}

// timed is a small model that takes a time for everything.
type timed time.Duration

func (m timed) Prefill(context.Context, []int32) (backend.Output, error) {
	time.Sleep(time.Duration(m))
	return head(1, 2), nil
}

func (m timed) Extend(_ context.Context, nodes []draft.Node) ([]backend.Output, error) {
	time.Sleep(time.Duration(m))
	out := make([]backend.Output, len(nodes))
	for i := range out {
		out[i] = head(3)
	}
	return out, nil
}

func (timed) Settle(...draft.ID) {}
func (timed) Drop(...draft.ID)   {}
func (timed) Room() int          { return 9 }

func head(ids ...int32) backend.Output {
	out := backend.Output{LogSumExp: 1, Entropy: 2}
	for _, id := range ids {
		out.Top = append(out.Top, backend.Candidate{ID: id, Logit: -float32(id)})
	}
	return out
}

// answering is a large model that takes a time.
type answering time.Duration

func (c answering) Ask(context.Context, draft.Question) (draft.Answer, error) {
	time.Sleep(time.Duration(c))
	return draft.Answer{BytesUp: 5, Reply: terms.Reply{Token: 4}}, nil
}

// TestRecordedAhead: tokens ahead are recorded and passed on in real time as well.
func TestRecordedAhead(t *testing.T) {
	rec, b := recorder(t)
	take := rec.Begin("a", 0, 0, []int32{1}, nil)
	a, err := take.Cloud(streaming{7, 8}).Ask(t.Context(), draft.Question{Context: []int32{1}, Ahead: 2})
	require.NoError(t, err)
	var got []int32
	for token := range a.Ahead {
		got = append(got, token)
	}
	assert.Equal(t, []int32{7, 8}, got)
	take.End(nil, false, false, false)
	q := answers(t, rec, b)[0].Asks[0]
	assert.Equal(t, []int32{7, 8}, []int32{q.Ahead[0].Token, q.Ahead[1].Token})
}

// TestEndWaits: an answer ends when its tokens ahead have ended.
func TestEndWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rec, b := recorder(t)
		take, ahead := rec.Begin("a", 0, 0, []int32{1}, nil), make(chan int32)
		_, err := take.Cloud(later(ahead)).Ask(t.Context(), draft.Question{Context: []int32{1}, Ahead: 2})
		require.NoError(t, err)
		go func() { time.Sleep(time.Second); ahead <- 7; close(ahead) }()
		take.End(nil, false, false, false)
		assert.Equal(t, []Later{{7, time.Second}}, answers(t, rec, b)[0].Asks[0].Ahead)
	})
}

// later is a cloud with these tokens ahead.
type later <-chan int32

func (c later) Ask(context.Context, draft.Question) (draft.Answer, error) {
	return draft.Answer{Ahead: c}, nil
}

// streaming is a cloud with tokens ahead.
type streaming []int32

func (c streaming) Ask(context.Context, draft.Question) (draft.Answer, error) {
	ahead := make(chan int32, len(c))
	for _, token := range c {
		ahead <- token
	}
	close(ahead)
	return draft.Answer{Ahead: ahead}, nil
}

// TestEndAfterGivenUp: an answer ends although nothing reads the tokens ahead of an ask that was given up.
func TestEndAfterGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rec, b := recorder(t)
		take, ahead := rec.Begin("a", 0, 0, []int32{1}, nil), make(chan int32)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := take.Cloud(later(ahead)).Ask(ctx, draft.Question{Context: []int32{1}, Ahead: 1})
		require.NoError(t, err)
		go func() {
			ahead <- 7
			cancel()
			ahead <- 8
			close(ahead)
		}()
		take.End(nil, false, false, false)
		q := answers(t, rec, b)[0].Asks[0]
		assert.Len(t, q.Ahead, 2)
	})
}

// replying is a cloud with a fixed answer.
type replying struct{ a draft.Answer }

func (c replying) Ask(context.Context, draft.Question) (draft.Answer, error) {
	time.Sleep(9 * ms)
	return c.a, nil
}

func (c replying) Warm(context.Context, []int32) (up, down int, err error) {
	time.Sleep(4 * ms)
	return 3, 2, nil
}

// TestRecordedAsk: every part of a question and of its answer that decoding needs is recorded, in numbers that JSON can
// represent, and a replay answers the same.
func TestRecordedAsk(t *testing.T) {
	reply := draft.Answer{BytesUp: 11, BytesDown: 12, Prefilled: 2, Reply: terms.Reply{
		Token: 9, Audited: 1,
		Audit: []terms.Finding{{Pos: 1, Token: 6}},
		Queue: ms, Compute: 2 * ms,
	}}
	question := draft.Question{Context: []int32{1, 5}, K: 2, AuditFrom: 1, Verify: terms.EachChoice, Ahead: 3}
	var b bytes.Buffer
	bubble.Test(t, func(t *testing.T) {
		rec, err := NewRecorder(&b, header())
		require.NoError(t, err)
		prompt, shown := []int32{1}, []int32{5, 9}
		take := rec.Begin("a", 4, 3, prompt, nil)
		_, err = take.Model(fixed{head(5)}).Prefill(t.Context(), []int32{1})
		require.NoError(t, err)
		time.Sleep(2 * ms)
		got, err := take.Cloud(replying{reply}).Ask(t.Context(), question)
		require.NoError(t, err)
		assert.Equal(t, reply, got)
		time.Sleep(ms)
		_, _, err = take.Cloud(replying{}).(draft.Warmer).Warm(t.Context(), []int32{1, 5, 9})
		require.NoError(t, err)
		take.End(shown, false, true, false)
		prompt[0], shown[0] = 30, 31 // the caller uses its memory again
		require.NoError(t, rec.Close())
	})
	r, err := Read(&b, "x")
	require.NoError(t, err)
	a := r.Answers[0]
	assert.Equal(t, []int32{1, 5, 9}, append(a.Prompt, a.IDs...))
	assert.False(t, a.Ended)
	assert.True(t, a.Graded)
	assert.False(t, a.Correct)
	assert.Equal(t, 16*ms, a.Took)
	assert.Equal(t, []Ask{
		{Node: 1, Took: 9 * ms, Verify: 1, Token: 9, Audited: 1, Audit: []Finding{{Pos: 1, Token: 6}}, Queue: ms,
			Cloud: 2 * ms, BytesUp: 11, BytesDown: 12},
		{Node: 2, Warm: true, Took: 4 * ms, BytesUp: 3, BytesDown: 2},
	}, a.Asks)

	p := playing(t, r)
	clock := simclock.New(time.Unix(0, 0))
	clock.Run(func() {
		text := p.Text(Of{Mode: "a", Question: 4}, Terms{}, clock)
		question.Ahead = 0
		got, err := text.Cloud().Ask(t.Context(), question)
		require.NoError(t, err)
		assert.Equal(t, reply, got)
	})
}

// TestMany: however many answers there are, all are written, in order.
func TestMany(t *testing.T) {
	rec, b := recorder(t)
	for i := range 40 {
		take := rec.Begin([]string{"a", "b"}[i/2%2], i%2, i%5, []int32{1}, nil)
		take.End([]int32{int32(i % vocab)}, false, false, false)
	}
	all := answers(t, rec, b)
	require.Len(t, all, 40)
	for i, a := range all {
		assert.Equal(t, []int32{int32(i % vocab)}, a.IDs)
		assert.Equal(t, i%5, a.Device)
	}
	assert.True(t, rec.mu.TryLock(), "a late answer does not hang")
}

// TestHeadsAreShared: a head is stored once, and again only if it has more candidates or its first confidence.
func TestHeadsAreShared(t *testing.T) {
	rec, b := recorder(t)
	one, err := router.NewNet([]router.Layer{{In: 1, Out: 1, Weight: []float32{1}, Bias: []float32{0}}}, false)
	require.NoError(t, err)
	cases := []struct {
		name string
		net  *router.Net
		out  backend.Output
		want int // heads in the answer
	}{
		{"the first", nil, head(1, 2), 1},
		{"the same", nil, head(1, 2), 0},
		{"fewer candidates", nil, head(1), 0},
		{"more candidates", nil, head(1, 2, 3), 1},
		{"the first again", nil, head(1, 2), 0},
		{"a confidence", one, head(1), 1},
		{"a confidence again", one, head(1, 2, 3), 0},
		{"most candidates", nil, head(1, 2, 3, 4), 1},
	}
	for _, c := range cases {
		take := rec.Begin("a", 0, 0, []int32{1}, c.net)
		if c.out.Hidden = nil; c.net != nil {
			c.out.Hidden = []float32{2}
		}
		m := take.Model(fixed{c.out})
		_, err := m.Prefill(t.Context(), []int32{1})
		require.NoError(t, err)
		take.End(nil, false, false, false)
	}
	all := answers(t, rec, b)
	require.Len(t, all, len(cases))
	for i, c := range cases {
		assert.Len(t, all[i].Heads, c.want, c.name)
	}
	assert.Nil(t, all[0].Heads[0].Confidence)
	require.NotNil(t, all[5].Heads[0].Confidence)
	assert.InDelta(t, 1/(1+math.Exp(-2)), *all[5].Heads[0].Confidence, 1e-6)
	p := playing(t, &Recording{header(), all})
	h, known := p.findHead(0, hashTokens([]int32{1}), true)
	assert.True(t, known)
	assert.Len(t, h.IDs, 4, "the candidates of the better head")
	assert.NotNil(t, h.Confidence)
	assert.InDelta(t, 1/(1+math.Exp(-2)), h.toOutput().Confidence, 1e-6)
	assert.Equal(t, float32(-3), h.toOutput().Top[2].Logit)
	assert.Equal(t, float32(2), h.toOutput().Entropy)
}

// fixed is a model with one head.
type fixed struct{ out backend.Output }

func (m fixed) Prefill(context.Context, []int32) (backend.Output, error) { return m.out, nil }
func (m fixed) Extend(context.Context, []draft.Node) ([]backend.Output, error) {
	return nil, errors.New("no")
}
func (fixed) Settle(...draft.ID) {}
func (fixed) Drop(...draft.ID)   {}
func (fixed) Room() int          { return 9 }

// TestConfidenceOfDevice: the confidence of a device is stored unchanged, and an error adds no call.
func TestConfidenceOfDevice(t *testing.T) {
	rec, b := recorder(t)
	net := &router.Net{Layers: []router.Layer{{In: 3, Out: 1}}}
	take := rec.Begin("a", 0, 0, []int32{1}, net)
	out := head(1)
	out.Confidence, out.LogSumExp = 0.25, float32(math.Inf(1))
	m := take.Model(fixed{out})
	_, err := m.Prefill(t.Context(), []int32{1})
	require.NoError(t, err)
	_, err = m.Extend(t.Context(), []draft.Node{{ID: 1, Token: 3}})
	require.Error(t, err)
	take.End(nil, false, false, false)
	a := answers(t, rec, b)[0]
	assert.Equal(t, float32(0.25), *a.Heads[0].Confidence)
	assert.Equal(t, float32(math.MaxFloat32), a.Heads[0].LogSumExp, "a number that JSON can represent")
	assert.Empty(t, a.Calls)
	assert.Zero(t, clampFinite(float32(math.NaN())))
}

// TestReference: reference answers of the large model are not graded, because no mode decoded them.
func TestReference(t *testing.T) {
	rec, b := recorder(t)
	for i, mode := range []string{ReferenceMode, CloudMode} {
		take := rec.Begin(mode, 0, 0, []int32{1}, nil)
		take.Streamed([]time.Duration{-ms, 3 * ms}[i]) // -1 ms: faster than the round trip
		take.End([]int32{5, 6}, true, true, true)
	}
	all := answers(t, rec, b)
	assert.Equal(t, []time.Duration{0, 3 * ms}, []time.Duration{all[0].Prefill, all[1].Prefill})
	assert.False(t, all[0].Graded)
	assert.True(t, all[1].Graded)
	_, err := NewPlayer(&Recording{header(), all})
	assert.ErrorContains(t, err, "no answers of the small model")
	all[0].Heads = []Head{{IDs: []int32{1}, Logits: []float32{1}}}
	p := playing(t, &Recording{header(), all[:1]})
	assert.Equal(t, []int32{5, 6}, p.LargeAlone(0).IDs)
	assert.Nil(t, p.LargeAlone(1))
	for i, want := range []int32{5, 6, end} {
		got, known := p.said[hashTokens([]int32{1, 5, 6}[:1+i])]
		assert.True(t, known)
		assert.Equal(t, want, got, "asks get the tokens of the reference")
	}
	assert.False(t, p.Asked())
	assert.Empty(t, p.Modes(), "reference is not a mode")
}

// TestFailures: asks without an answer, and texts that did not arrive, are not recorded.
func TestFailures(t *testing.T) {
	rec, b := recorder(t)
	take := rec.Begin("a", 0, 0, []int32{1}, nil)
	_, err := take.Cloud(failing{errFull}).Ask(t.Context(), draft.Question{Context: []int32{1, 2}})
	assert.ErrorIs(t, err, errFull)
	up, down, err := take.Cloud(failing{}).(draft.Warmer).Warm(t.Context(), []int32{1})
	assert.Error(t, err)
	assert.Equal(t, 1, up)
	assert.Equal(t, 2, down)
	_, isWarmer := take.Cloud(answering(0)).(draft.Warmer)
	assert.False(t, isWarmer)
	take.End(nil, false, false, false)
	assert.Empty(t, answers(t, rec, b)[0].Asks)
}

// failing is a cloud that fails.
type failing struct{ err error }

func (c failing) Ask(context.Context, draft.Question) (draft.Answer, error) {
	return draft.Answer{}, c.err
}
func (c failing) Warm(context.Context, []int32) (int, int, error) { return 1, 2, errors.New("no") }

// TestWriteFails: a write error is returned by Close.
func TestWriteFails(t *testing.T) {
	rec, err := NewRecorder(full{}, header())
	if err == nil {
		err = rec.Close()
	}
	assert.ErrorIs(t, err, errFull)
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
