package dialect

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// replay returns a client that replays a recording of a real engine.
func replay(t *testing.T, dialect, name string) (*Client, *fakeengine.Transcript) {
	t.Helper()
	r, err := fakeengine.ReadTranscript("../testdata/" + dialect + "/" + name + ".json")
	require.NoError(t, err)
	base, err := url.Parse("http://engine")
	require.NoError(t, err)
	return NewClient(base, "", r), r
}

// asRecorded checks that requests equal the recorded ones, but for some fields.
func asRecorded(t *testing.T, r *fakeengine.Transcript, but ...string) {
	t.Helper()
	unlike, err := r.Unlike(but...)
	require.NoError(t, err)
	assert.Empty(t, unlike)
}

// llamaReplay returns an engine that replays a recording of a real one.
func llamaReplay(t *testing.T, name string) (*Llama, *fakeengine.Transcript) {
	t.Helper()
	c, r := replay(t, "llama", name)
	e := NewLlama(c)
	e.slots.resizeSlots(3)
	return e, r
}

// llamaRecorded returns the context of a recorded question.
func llamaRecorded(t *testing.T, r *fakeengine.Transcript) (ids []int32) {
	t.Helper()
	require.NoError(t, r.Field(&ids, "prompt"))
	return ids
}

// TestReplayedAnswersLlama: answers of a real server are parsed correctly, and requests equal the recorded ones.
func TestReplayedAnswersLlama(t *testing.T) {
	for name, want := range map[string]struct {
		k, token, top, cached int
		best                  float32
	}{
		"ask": {0, 379, 0, 30, 0}, "ask-again": {0, 379, 0, 39, 0}, "ask-k5": {5, 379, 5, 39, -1.1920929e-07},
		"ask-k20": {20, 411, 20, -2, 0}, "ask-end": {3, 767, 3, 40, -4.7683716e-07},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := llamaReplay(t, name)
			got, err := e.Ask(t.Context(), Ask{Session: 7, Context: llamaRecorded(t, r), K: want.k})
			require.NoError(t, err)
			assert.EqualValues(t, want.token, got.Token)
			if want.cached >= 0 {
				assert.Equal(t, want.cached, got.Cached)
			}
			require.Len(t, got.Top, want.top)
			if want.top > 0 {
				assert.EqualValues(t, want.token, got.Top[0].ID)
			}
			if want.best != 0 {
				assert.InDelta(t, want.best, got.Top[0].LogProb, 1e-9)
			}
			assert.Positive(t, got.Compute)
			asRecorded(t, r, "id_slot", "response_fields")
		})
	}
}

// TestReplayedPieces: a token that is part of a character has an id, and its probabilities if they arrived.
func TestReplayedPieces(t *testing.T) {
	for name, want := range map[string]struct {
		token int32
		top   int
	}{"ask-inner-byte": {128, 2}, "ask-lead-byte": {226, 0}} {
		t.Run(name, func(t *testing.T) {
			e, r := llamaReplay(t, name)
			got, err := e.Ask(t.Context(), Ask{Context: llamaRecorded(t, r), K: 2})
			require.NoError(t, err)
			assert.Equal(t, want.token, got.Token)
			assert.Len(t, got.Top, want.top)
		})
	}
	e, r := llamaReplay(t, "ask-inner-byte-without-parser")
	_, err := e.Ask(t.Context(), Ask{Context: llamaRecorded(t, r), K: 2})
	assert.Equal(t, 500, Status(err), "this is why each request has a parser")
}

// TestReplayedRefusalsLlama: refusals of a real server are distinguished.
func TestReplayedRefusalsLlama(t *testing.T) {
	for name, want := range map[string]netproto.Code{
		"too-long": netproto.TooLarge, "unknown-id": netproto.Failed, "wrong-key": netproto.Failed,
	} {
		t.Run(name, func(t *testing.T) {
			e, r := llamaReplay(t, name)
			_, err := e.Ask(t.Context(), Ask{Context: llamaRecorded(t, r)})
			assert.Equal(t, want, codeOf(err))
			assert.NotContains(t, err.Error(), "Prompt contains", "text of the engine is not logged")
		})
	}
}

// TestReplayedRestLlama: the other paths.
func TestReplayedRestLlama(t *testing.T) {
	e, r := llamaReplay(t, "warm")
	require.NoError(t, e.Warm(t.Context(), Ask{Context: llamaRecorded(t, r)}))
	asRecorded(t, r, "id_slot", "response_fields")
	e, _ = llamaReplay(t, "health")
	require.NoError(t, e.Alive(t.Context()))
	e, r = llamaReplay(t, "tokenize")
	ids, err := e.Tokenize(t.Context(), "Where does a mavgri sleep?<|im_end|>")
	require.NoError(t, err)
	assert.Equal(t, []int32{344, 333, 257, 754, 402, 63, 767}, ids)
	asRecorded(t, r)
	e, r = llamaReplay(t, "detokenize")
	require.NoError(t, r.Field(&ids, "tokens"))
	text, err := e.Detokenize(t.Context(), ids)
	require.NoError(t, err)
	assert.Equal(t, "Hi €\x00\uFFFDch has<|endoftext|><|im_start|><|im_end|>", text)
	for _, name := range []string{"wrong-key-props", "get-model-info"} {
		e, _ = llamaReplay(t, name)
		assert.Error(t, e.c.Get(t.Context(), map[string]string{
			"wrong-key-props": "/props", "get-model-info": "/get_model_info"}[name], nil))
	}
}

// TestTwoRequests: what an answer takes from each of its two requests for the probabilities of a token that begins a
// character.
func TestTwoRequests(t *testing.T) {
	const top = `,"completion_probabilities":[{"top_logprobs":[{"id":7,"logprob":-1},{"id":8,"logprob":-2}]}]`
	answer := func(token, cached int, more string) string {
		return fmt.Sprintf(`{"tokens":[%d],"timings/cache_n":%d,"timings/prompt_ms":1,"timings/predicted_ms":0.5%s}`,
			token, cached, more)
	}
	best := []terms.Candidate{{ID: 7, LogProb: -1}, {ID: 8, LogProb: -2}}
	for name, c := range map[string]struct {
		first, second string
		want          Reply
	}{
		"a character":       {answer(7, 1, ""), answer(7, 2, top), Reply{Top: best, Cached: 1}},
		"another character": {answer(7, 1, ""), answer(8, 2, top), Reply{Cached: 1}},
		"none":              {answer(7, 1, ""), answer(7, 2, ""), Reply{Cached: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &inTurn{replies: []string{c.first, c.second}}
			got, err := engineOf(t, "llama", w).Ask(t.Context(), Ask{Context: []int32{1, 2, 3}, K: 2})
			require.NoError(t, err)
			c.want.Token, c.want.Compute = 7, 3*time.Millisecond
			assert.Equal(t, c.want, got)
			assert.Len(t, w.asked, len(w.replies))
		})
	}
}

// TestSlotOfRequest: each request names the slot of its session, or none before the number of slots is known.
func TestSlotOfRequest(t *testing.T) {
	w := &inTurn{replies: slices.Repeat([]string{`{"tokens":[1]}`}, 7)}
	e := engineOf(t, "llama", w).(*Llama)
	ask := func(session uint64, k int) {
		_, err := e.Ask(t.Context(), Ask{Session: session, Context: []int32{1}, K: k})
		require.NoError(t, err)
	}
	ask(5, 0)
	e.slots.resizeSlots(2)
	ask(5, 0)
	ask(6, 0)
	ask(5, 0)
	require.NoError(t, e.Warm(t.Context(), Ask{Session: 6, Context: []int32{1}}))
	ask(6, 3) // twice, since there are no probabilities
	require.Len(t, w.asked, 7)
	for i, slot := range []int{-1, 0, 1, 0, 1, 1, 1} {
		assert.Contains(t, w.asked[i], fmt.Sprintf(`"id_slot":%d,`, slot))
		assert.Contains(t, w.asked[i], fmt.Sprintf(`"n_probs":%d,`, i/5*3))
	}
}

// inTurn gives one reply after the other.
type inTurn struct {
	replies, asked []string
}

func (s *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.asked = append(s.asked, string(b))
	return answering(s.replies[len(s.asked)-1]).RoundTrip(r)
}

// TestFieldsLlama: all fields of a reply are requested: the server leaves out others.
func TestFieldsLlama(t *testing.T) {
	var want []string
	for f := range reflect.TypeFor[llamaReply]().Fields() {
		want = append(want, f.Tag.Get("json"))
	}
	assert.ElementsMatch(t, want, newLlamaRequest(nil, 1, 0, 0).Fields)
}

// TestSlotsApart: a session has the slot that it had last, unless it was forgotten or another session took that slot
// since then; a new session takes a free slot, else one with the fewest requests, the least recently used of these.
func TestSlotsApart(t *testing.T) {
	type state struct {
		session uint64 // 0: none
		open    int
		used    int // at which step
	}
	for seed := range uint64(20) {
		r, n := rand.New(rand.NewPCG(seed, 0)), 1+int(seed%5)
		s, all := newSlots(n), make([]state, n)
		var ends []func()
		for step := range 300 {
			session := 1 + r.Uint64N(8)
			switch r.IntN(4) {
			case 0:
				s.forgetSession(session)
				for i := range all {
					if all[i].session == session {
						all[i].session = 0
					}
				}
				continue
			case 1:
				if len(ends) > 0 {
					ends[0]()
					ends = ends[1:]
				}
				continue
			}
			number, done := s.acquireSlot(session)
			want := slices.IndexFunc(all, func(x state) bool { return x.session == session })
			if want < 0 {
				want = 0
				rank := func(x state) []int {
					if x.session == 0 && x.open == 0 {
						return []int{-1, x.used}
					}
					return []int{x.open, x.used}
				}
				for i := range all {
					if slices.Compare(rank(all[i]), rank(all[want])) < 0 {
						want = i
					}
				}
			}
			require.Equal(t, want, number, "seed %d, step %d", seed, step)
			all[want] = state{session, all[want].open + 1, step + 1}
			ends = append(ends, func() { done(); all[want].open-- })
		}
	}
}

// TestResize: with the same number of slots nothing changes; with another one all are free.
func TestResize(t *testing.T) {
	s := newSlots(3)
	var numbers []int
	for i, session := range []uint64{0, 1, 2, 2, 1, 0, 3, 4} {
		if i >= 3 {
			s.resizeSlots(2)
		}
		number, done := s.acquireSlot(session)
		done()
		numbers = append(numbers, number)
	}
	assert.Equal(t, []int{0, 1, 2, 0, 1, 0, 1, 0}, numbers)
	none, done := newSlots(0).acquireSlot(1)
	assert.Equal(t, -1, none)
	done()
}
