package dialect

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// llamaReplay returns an engine that replays a recording of a real one.
func llamaReplay(t *testing.T, name string) (*Llama, *fakeengine.Transcript) {
	t.Helper()
	r, err := fakeengine.ReadTranscript("../testdata/llama/" + name + ".json")
	require.NoError(t, err)
	base, err := url.Parse("http://engine")
	require.NoError(t, err)
	e := NewLlama(NewClient(base, "", r))
	e.slots.resize(3)
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
		e, r := llamaReplay(t, name)
		got, err := e.Ask(t.Context(), Ask{Session: 7, Context: llamaRecorded(t, r), K: want.k})
		require.NoError(t, err, name)
		assert.EqualValues(t, want.token, got.Token, name)
		if want.cached >= 0 {
			assert.Equal(t, want.cached, got.Cached, name)
		}
		require.Len(t, got.Top, want.top, name)
		if want.top > 0 {
			assert.EqualValues(t, want.token, got.Top[0].ID, name)
		}
		if want.best != 0 {
			assert.InDelta(t, want.best, got.Top[0].LogProb, 1e-9, name)
		}
		assert.Positive(t, got.Compute, name)
		unlike, err := r.Unlike("id_slot", "response_fields")
		require.NoError(t, err)
		assert.Empty(t, unlike, name)
	}
}

// TestReplayedPieces: a token that is part of a character has an id, and its probabilities if they arrived.
func TestReplayedPieces(t *testing.T) {
	for name, want := range map[string]struct {
		token int32
		top   int
	}{"ask-inner-byte": {128, 2}, "ask-lead-byte": {226, 0}} {
		e, r := llamaReplay(t, name)
		got, err := e.Ask(t.Context(), Ask{Context: llamaRecorded(t, r), K: 2})
		require.NoError(t, err)
		assert.Equal(t, want.token, got.Token)
		assert.Len(t, got.Top, want.top)
	}
	e, r := llamaReplay(t, "ask-inner-byte-without-parser")
	_, err := e.Ask(t.Context(), Ask{Context: llamaRecorded(t, r), K: 2})
	assert.Equal(t, 500, Status(err), "this is why each request has a parser")
}

// TestReplayedRefusalsLlama: refusals of a real server are distinguished.
func TestReplayedRefusalsLlama(t *testing.T) {
	for name, want := range map[string]error{
		"too-long": netproto.TooLarge, "unknown-id": netproto.Failed, "wrong-key": netproto.Failed,
	} {
		e, r := llamaReplay(t, name)
		_, err := e.Ask(t.Context(), Ask{Context: llamaRecorded(t, r)})
		require.ErrorIs(t, err, want, name)
		assert.NotContains(t, err.Error(), "Prompt contains", "text of the engine is not logged")
	}
}

// TestReplayedRestLlama: the other paths.
func TestReplayedRestLlama(t *testing.T) {
	e, r := llamaReplay(t, "warm")
	require.NoError(t, e.Warm(t.Context(), Ask{Context: llamaRecorded(t, r)}))
	unlike, err := r.Unlike("id_slot", "response_fields")
	require.NoError(t, err)
	assert.Empty(t, unlike)
	e, _ = llamaReplay(t, "health")
	require.NoError(t, e.Alive(t.Context()))
	e, r = llamaReplay(t, "tokenize")
	ids, err := e.Tokenize(t.Context(), "Where does a mavgri sleep?<|im_end|>")
	require.NoError(t, err)
	assert.Equal(t, []int32{344, 333, 257, 754, 402, 63, 767}, ids)
	unlike, err = r.Unlike()
	require.NoError(t, err)
	assert.Empty(t, unlike)
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

// TestSlotOrder: the slot that a session gets.
func TestSlotOrder(t *testing.T) {
	s := newSlots(2)
	a, doneA := s.take(1)
	b, doneB := s.take(2)
	assert.NotEqual(t, a, b)
	again, done := s.take(1)
	assert.Equal(t, a, again, "a session keeps its slot, also during a request")
	done()
	doneB()
	c, doneC := s.take(3)
	assert.Equal(t, b, c, "the slot without a request, although it was used later")
	doneA()
	doneC()
	d, done := s.take(4)
	assert.Equal(t, a, d, "the least recently used slot")
	done()
	assert.EqualValues(t, 2, s.evicted)
	s.forget(3)
	s.forget(99)
	e, done := s.take(5)
	assert.Equal(t, b, e, "an unused slot")
	done()
	_, done = s.take(4) // used later than that of 5 now
	done()
	g, done := s.take(6)
	assert.Equal(t, e, g, "the least recently used slot, in any order of arrival")
	done()
	s.forget(6)
	s.evicted--
	_, done = s.take(5)
	done()
	assert.EqualValues(t, 2, s.evicted)
	s.resize(2)
	f, done := s.take(5)
	assert.Equal(t, e, f, "the same number: nothing changes")
	done()
	s = newSlots(3)
	var numbers []int
	for i, session := range []uint64{0, 1, 2, 2, 1, 0, 3, 4} {
		if i == 3 {
			s.resize(2)
		}
		number, done := s.take(session)
		done()
		numbers = append(numbers, number)
	}
	assert.Equal(t, []int{0, 1, 2, 0, 1, 0, 1, 0}, numbers, "another number: all slots are free")
	none, done := newSlots(0).take(1)
	assert.Equal(t, -1, none)
	done()
}
