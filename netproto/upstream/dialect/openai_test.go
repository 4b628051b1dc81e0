package dialect

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// engine returns an engine with the replies of to, and a vocabulary with some texts of the transcripts as tokens.
func engine(t *testing.T, to http.RoundTripper) *OpenAI {
	t.Helper()
	base, err := url.Parse("http://engine")
	require.NoError(t, err)
	e := NewOpenAI(NewClient(base, "", to), "demo-large")
	pieces := make([][]byte, 768)
	for id := range pieces {
		pieces[id] = fmt.Appendf(nil, "<%d>", id)
	}
	for id, text := range map[int]string{379: "In", 451: "Choose", 763: "kes", 5: "twice", 6: "twice", 7: "\xe4\xb8",
		8: "bytes:"} {
		pieces[id] = []byte(text)
	}
	e.v = only{fakeengine.VocabularyOf(pieces, 768, nil)}
	return e
}

// only finds a token only if its text is unique.
type only struct{ *fakeengine.Vocabulary }

func (v only) Find(piece []byte) int32 {
	if string(piece) == "twice" {
		return -1
	}
	return v.Vocabulary.Find(piece)
}

// TestReplayedAnswersOpenAI: answers of real servers, in each form of a token.
func TestReplayedAnswersOpenAI(t *testing.T) {
	for name, want := range map[string]struct{ k, top, cached int }{
		"llama/v1-completions": {3, 3, 39}, "sglang/v1-completions": {3, 3, -1}, "vllm/completions-text": {2, 2, 32},
		"vllm/completions-k5": {5, 5, -2}, "vllm/completions-k5-without-token-ids": {5, 5, -2},
		"vllm/completions": {0, 0, -2},
	} {
		r, err := fakeengine.ReadTranscript("../testdata/" + name + ".json")
		require.NoError(t, err)
		var context []int32
		require.NoError(t, r.Field(&context, "prompt"))
		got, err := engine(t, r).Ask(t.Context(), Ask{Context: context, K: want.k})
		require.NoError(t, err, name)
		assert.EqualValues(t, 379, got.Token, name)
		require.Len(t, got.Top, want.top, name)
		if want.top > 0 {
			assert.Equal(t, []int32{379, 451}, []int32{got.Top[0].ID, got.Top[1].ID}, name)
			assert.InDelta(t, -15.54, got.Top[1].LogProb, 0.05)
		}
		if want.cached > -2 {
			assert.Equal(t, want.cached, got.Cached, name)
		}
		assert.Zero(t, got.Audited)
	}
}

// TestReplayedRefusalsOpenAI: refusals of a real server are distinguished.
func TestReplayedRefusalsOpenAI(t *testing.T) {
	for name, want := range map[string]error{
		"completions-far-too-long": netproto.TooLarge, "completions-busy": netproto.Busy,
		"completions-k21": netproto.Failed, "completions-other-model": netproto.Failed,
		"completions-wrong-key": netproto.Failed,
	} {
		r, err := fakeengine.ReadTranscript("../testdata/vllm/" + name + ".json")
		require.NoError(t, err)
		_, err = engine(t, r).Ask(t.Context(), Ask{Context: []int32{1}})
		require.ErrorIs(t, err, want, name)
	}
}

// openaiSays replies with one body.
type openaiSays string

func (s openaiSays) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}

// TestPieces: a token is identified by an id, by bytes, or by a unique text.
func TestPieces(t *testing.T) {
	for logprobs, want := range map[string]int32{
		`{"tokens":["In"]}`: 379, `{"tokens":["token_id:9"]}`: 9, `{"tokens":["twice"]}`: -1, `{"tokens":["Inn"]}`: -1,
		`{"tokens":["\ufffd"]}`: -1, `{"tokens":["bytes:\\xe4\\xb8"]}`: 7, `{"tokens":["bytes:"]}`: 8,
		`{"tokens":["bytes:nonsense"]}`: -1, `{"tokens":["\\x49n"]}`: -1, `{"tokens":[]}`: -1, `{}`: -1, `null`: -1,
		`{"content":[{"token":"In"}]}`: 379, `{"content":[{"token":"x","bytes":[73,110]}]}`: 379,
		`{"content":[{"token":"In","id":4}]}`: 4, `{"content":[{"token":"\ufffd","bytes":[228,184]}]}`: 7,
		`{"content":[{"token":"In","bytes":[73,300]}]}`: -1, `{"content":[{"token":"In","bytes":[-1]}]}`: -1,
		`{"content":[]}`: -1,
	} {
		got, err := engine(t, openaiSays(`{"choices":[{"logprobs":`+logprobs+`}]}`)).Ask(t.Context(),
			Ask{Context: []int32{1}})
		assert.Equal(t, want < 0, err != nil, logprobs)
		if err == nil {
			assert.Equal(t, want, got.Token, logprobs)
		}
	}
}

// TestLeastProbabilities: one probability is requested if a question needs none: the token is beside it.
func TestLeastProbabilities(t *testing.T) {
	for k, want := range map[int]int{0: 1, 1: 1, 5: 5} {
		assert.Equal(t, want, *new(OpenAI).newRequest(nil, k).LogProbs)
	}
}

// TestSpelling: the texts of a prompt's tokens, from a server that echoes it.
func TestSpelling(t *testing.T) {
	e := engine(t, openaiSays(`{"choices":[{"logprobs":{"tokens":["a","bytes:\\xe4","c","d"]}}]}`))
	pieces, err := e.Spell(t.Context(), []int32{1, 2, 3})
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("a"), {0xe4}, []byte("c")}, pieces)
	for reply, want := range map[string]string{
		`{"tokens":["a b"]}`: "a b", `{"content":[{"token":"x","bytes":[228,184]}]}`: "\xe4\xb8",
		`{"content":[{"token":"x"}]}`:   "x",
		`{"content":[{"bytes":[500]}]}`: "", `{}`: "",
	} {
		piece, err := engine(t, openaiSays(`{"choices":[{"logprobs":`+reply+`}]}`)).Next(t.Context(), []int32{1})
		assert.Equal(t, want == "", err != nil, reply)
		assert.Equal(t, want, string(piece))
	}
	_, err = e.Spell(t.Context(), []int32{1, 2, 3, 4, 5})
	assert.ErrorIs(t, err, ErrAbsent)
}
