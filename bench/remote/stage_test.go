package remote

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestStageLink: each way has half of the round trip and the same chance and loss; each trace applies to its own way.
func TestStageLink(t *testing.T) {
	dir := t.TempDir()
	rtt, up := filepath.Join(dir, "a.rtt.csv"), filepath.Join(dir, "a.up")
	require.NoError(t, os.WriteFile(rtt, []byte("t_ms,rtt_ms\n0,20\n100,30\n"), 0o600))
	require.NoError(t, os.WriteFile(up, []byte("1\n2\n3\n"), 0o600))
	o, err := StageOptions{RTT: 30 * time.Millisecond, Loss: 0.2, Seed: 9}.Link("127.0.0.1:7")
	require.NoError(t, err)
	way := link.Direction{Delay: 15 * time.Millisecond, Loss: 0.2}
	assert.Equal(t, link.Options{Target: "127.0.0.1:7", Seed: 9, Up: way, Down: way}, o)
	o, err = StageOptions{Traces: []string{rtt, up}}.Link("127.0.0.1:7")
	require.NoError(t, err)
	assert.NotNil(t, o.RTT)
	assert.NotNil(t, o.Up.Capacity)
	assert.Nil(t, o.Down.Capacity)
	_, err = StageOptions{Traces: []string{filepath.Join(dir, "none.up")}}.Link("127.0.0.1:7")
	assert.ErrorIs(t, err, os.ErrNotExist)
	edge := tiny(t, nil)
	_, err = NewStage(edge, edge, StageOptions{Traces: []string{filepath.Join(dir, "none.up")}})
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, 9*time.Second, (&Stage{rtt: time.Second}).linkTimeout())
	for attempts, o := range map[int]StageOptions{1: {RTT: time.Second}, maxAttempts: {Loss: 0.01}} {
		s, err := NewStage(edge, edge, o)
		require.NoError(t, err)
		assert.Equal(t, attempts, s.attempts)
		assert.Equal(t, 5*time.Second+4*o.RTT, s.linkTimeout())
		require.NoError(t, s.Close())
	}
	s, err := NewStage(edge, edge, StageOptions{Traces: []string{rtt}})
	require.NoError(t, err)
	assert.Equal(t, maxAttempts, s.attempts)
	_, leave, err := s.Dial(t.Context(), 0)
	require.NoError(t, err)
	leave()
	require.NoError(t, s.Close())
}

// TestStageAttempts: a connection is tried several times, but not after it has succeeded or its context has ended.
func TestStageAttempts(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct{ n, succeeds, ends, want int }{
		"fails":           {n: 5, want: 5},
		"fails at once":   {n: 1, want: 1},
		"succeeds":        {n: 5, succeeds: 2, want: 2},
		"a context ended": {n: 5, ends: 3, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := 0
			_, err := retryUpTo(ctx, c.n, func(context.Context) (int, error) {
				if got++; got == c.ends {
					cancel()
				}
				if got == c.succeeds {
					return got, nil
				}
				return 0, failed
			})
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.succeeds != got, errors.Is(err, failed))
		})
	}
	edge := tiny(t, nil)
	s, err := NewStage(edge, edge, StageOptions{})
	require.NoError(t, err)
	s.pin[0]++
	_, _, err = s.Dial(t.Context(), 0)
	assert.ErrorContains(t, err, "connect to the gateway over the emulated link")
	require.NoError(t, s.Close())
}

// TestStageApart: a session does not profit from what the large model has read for another one.
func TestStageApart(t *testing.T) {
	edge := tiny(t, nil)
	s, err := NewStage(edge, edge, StageOptions{})
	require.NoError(t, err)
	for session := range uint64(2) {
		a, err := s.service.Local(session).Ask(t.Context(), draft.Question{Context: make([]int32, 200)})
		require.NoError(t, err)
		assert.Equal(t, 200, a.Prefilled)
	}
	require.NoError(t, s.Close())
}

// TestGivenBack: a stage and an HTTP server close what they have opened, also if they cannot start or a device cannot
// connect.
func TestGivenBack(t *testing.T) {
	edge := tiny(t, nil)
	held.Same(t, func() {
		for _, o := range []StageOptions{{Traces: []string{"none.up"}}, {Typical: [][]int32{{1 << 30}}}} {
			_, err := NewStage(edge, edge, o)
			assert.Error(t, err)
		}
		s, err := NewStage(edge, edge, StageOptions{})
		require.NoError(t, err)
		_, leave, err := s.Dial(t.Context(), 0)
		require.NoError(t, err)
		leave()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err = s.Dial(over, 0)
		assert.Error(t, err)
		_, _, err = s.Dial(connected{context.Background()}, 0)
		assert.ErrorIs(t, err, context.Canceled, "there is a connection, and no session")
		assert.NoError(t, s.Verifies(t.Context(), ""))
		assert.ErrorIs(t, s.Verifies(t.Context(), "a judge"), netproto.CannotVerify)
		w, err := StartWeb(edge, s.Direct(), 0)
		require.NoError(t, err)
		_, err = w.Paper(func([]int32) string { return "a" }).Ask(t.Context(), draft.Question{})
		require.NoError(t, err)
		w.Close()
		assert.NoError(t, s.Close())
	})
}

// connected is a context that is not noticed to have ended while a device connects.
type connected struct{ context.Context }

func (connected) Err() error { return context.Canceled }

// TestStage: a device experiences the options of its stage: answers take at least the round trip and the large model's
// time, packets are lost, and a dictionary makes questions shorter.
func TestStage(t *testing.T) {
	edge, large := tiny(t, nil), tiny(t, func(s *synth.Spec) { s.Layers = 3 })
	var typical [][]int32
	for i := range int32(20) {
		var text []int32
		for n := range int32(60) {
			text = append(text, (n*n*7+n*31)%500)
		}
		typical = append(typical, append(text, i))
	}
	ask := func(o StageOptions, direct bool) (up int, token int32, took time.Duration, s link.Stats) {
		stage, err := NewStage(edge, large, o)
		require.NoError(t, err)
		far, end := stage.Direct(), func() {}
		if !direct {
			far, end, err = stage.Dial(t.Context(), 0)
			require.NoError(t, err)
		}
		begin := time.Now()
		a, err := far.Ask(t.Context(), draft.Question{Context: typical[3]})
		require.NoError(t, err)
		took = time.Since(begin)
		end()
		require.NoError(t, stage.Close())
		return a.BytesUp, a.Token, took, stage.Link().Stats()
	}
	bare, token, _, _ := ask(StageOptions{}, false)
	_, same, _, s := ask(StageOptions{}, true)
	assert.Equal(t, token, same, "over the gateway and directly")
	assert.Zero(t, s.Up.Packets, "no packets on the link")
	short, same, _, _ := ask(StageOptions{Typical: typical}, false)
	assert.Equal(t, token, same)
	assert.Less(t, short, bare-20)
	const rtt, slow = 60 * time.Millisecond, 150 * time.Millisecond
	_, _, took, _ := ask(StageOptions{RTT: rtt}, false)
	assert.GreaterOrEqual(t, took, rtt)
	for _, direct := range []bool{true, false} {
		_, _, took, _ = ask(StageOptions{AnswerTime: slow}, direct)
		assert.GreaterOrEqual(t, took, slow)
	}
	lost := int64(0)
	for seed := range uint64(20) { // the few packets of one question may all arrive
		_, _, _, s := ask(StageOptions{Loss: 0.1, Seed: seed}, false)
		if lost = s.Up.Lost + s.Down.Lost; lost > 0 {
			break
		}
	}
	assert.Positive(t, lost)
}

// TestWebRefuses: a request that cannot be read or continued gives an error with the status and the path.
func TestWebRefuses(t *testing.T) {
	edge := tiny(t, nil)
	w, err := StartWeb(edge, edgeless{}, 0)
	require.NoError(t, err)
	defer w.Close()
	r := httptest.NewRequest("POST", "/next", strings.NewReader("no JSON"))
	said := httptest.NewRecorder()
	w.serveNextToken(said, r)
	assert.Equal(t, http.StatusBadRequest, said.Code)
	paper := w.Paper(func([]int32) string { return "a" })
	_, err = paper.Ask(t.Context(), draft.Question{})
	assert.ErrorContains(t, err, "/next: 500 Internal Server Error: no answer")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = paper.Ask(gone, draft.Question{})
	assert.ErrorIs(t, err, context.Canceled)
}

// TestWebPrompt: the text of a request is tokenized as it is, including blanks at its ends.
func TestWebPrompt(t *testing.T) {
	edge, asked := tiny(t, nil), new(hearing)
	w, err := StartWeb(edge, asked, 0)
	require.NoError(t, err)
	defer w.Close()
	const text = " a b\n"
	_, err = w.Paper(func([]int32) string { return text }).Ask(t.Context(), draft.Question{})
	require.NoError(t, err)
	want, err := edge.RawPrompt(text)
	require.NoError(t, err)
	assert.Equal(t, want, asked.context)
}

// hearing is a cloud that keeps the context of its last question.
type hearing struct{ context []int32 }

func (h *hearing) Ask(_ context.Context, q draft.Question) (draft.Answer, error) {
	h.context = q.Context
	return draft.Answer{}, nil
}

// TestPaperBytes: the baseline counts the bytes of its bodies.
func TestPaperBytes(t *testing.T) {
	edge := tiny(t, nil)
	w, err := StartWeb(edge, fixedCloud(77), 0)
	require.NoError(t, err)
	defer w.Close()
	a, err := w.Paper(func(ids []int32) string { return strings.Repeat("a", len(ids)) }).Ask(t.Context(),
		draft.Question{Context: []int32{1, 2, 3}})
	require.NoError(t, err)
	assert.Equal(t, draft.Answer{Prefilled: 3, BytesUp: len(`{"text":"aaa"}`),
		BytesDown: len(`{"token":77,"text":""}` + "\n"), Reply: terms.Reply{Token: 77}}, a)
}

// TestWebTimes: an answer over HTTP takes a round trip.
func TestWebTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const rtt = 60 * time.Millisecond
		edge, l := tiny(t, nil), bubble.NewListener()
		dial := func(context.Context, string, string) (net.Conn, error) { return l.Dial() }
		w := serveWeb(l, dial, edge, fixedCloud(77), rtt)
		defer w.Close()
		began := time.Now()
		_, err := w.Paper(func([]int32) string { return "a" }).Ask(t.Context(), draft.Question{})
		require.NoError(t, err)
		assert.Equal(t, rtt, time.Since(began))
	})
}

// edgeless is a cloud that always fails.
type edgeless struct{}

func (edgeless) Ask(context.Context, draft.Question) (draft.Answer, error) {
	return draft.Answer{}, errors.New("no answer")
}

// fixedCloud answers every question with the same token.
type fixedCloud int32

func (f fixedCloud) Ask(context.Context, draft.Question) (draft.Answer, error) {
	return draft.Answer{Reply: terms.Reply{Token: int32(f)}}, nil
}

// tiny opens a random model. All random models have the same vocabulary.
func tiny(t *testing.T, edit func(*synth.Spec)) *engine.Engine {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	s := synth.Tiny(recipe, 4)
	if edit != nil {
		edit(&s)
	}
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	e, err := engine.New(f, "tiny", engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}
