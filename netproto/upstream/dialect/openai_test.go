package dialect

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
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
		8: "bytes:", 9: "\x00\xff", 10: "\uFFFD"} {
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
	for name, want := range map[string]netproto.Code{
		"completions-far-too-long": netproto.TooLarge, "completions-busy": netproto.Busy,
		"completions-k21": netproto.Failed, "completions-other-model": netproto.Failed,
		"completions-wrong-key": netproto.Failed,
	} {
		r, err := fakeengine.ReadTranscript("../testdata/vllm/" + name + ".json")
		require.NoError(t, err)
		_, err = engine(t, r).Ask(t.Context(), Ask{Context: []int32{1}})
		assert.Equal(t, want, codeOf(err), name)
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
		`{"content":[{"token":"In","bytes":[73,366]}]}`: -1, `{"content":[{"token":"In","bytes":[73,-146]}]}`: -1,
		`{"content":[{"token":"x","bytes":[0,255]}]}`: 9, `{"content":[{"token":"x","bytes":[0,256]}]}`: -1,
		`{"content":[]}`: -1, `{"content":[{"token":"In","bytes":[1]}]}`: -1, `{"tokens":["<0>"]}`: 0,
		`{"content":[{"token":"x","bytes":[60,48,62]}]}`: 0, `{"content":[{"token":"token_id:9"}]}`: 9,
	} {
		got, err := engine(t, openaiSays(`{"choices":[{"logprobs":`+logprobs+`}]}`)).Ask(t.Context(),
			Ask{Context: []int32{1}})
		assert.Equal(t, want < 0, err != nil, logprobs)
		if err == nil {
			assert.Equal(t, want, got.Token, logprobs)
		}
	}
}

// TestIdentifiedTop: the most probable tokens are left out if one of them is unknown.
func TestIdentifiedTop(t *testing.T) {
	for logprobs, want := range map[string][]terms.Candidate{
		`{"tokens":["In"],"top_logprobs":[{"In":-1,"kes":-2,"Choose":-3}]}`: {
			{ID: 379, LogProb: -1}, {ID: 763, LogProb: -2}},
		`{"tokens":["In"],"top_logprobs":[{"In":-1,"kes":-2,"Inn":-3}]}`: nil,
		`{"content":[{"token":"In","top_logprobs":[{"token":"kes","logprob":-2},{"token":"In","logprob":-1}]}]}`: {
			{ID: 379, LogProb: -1}, {ID: 763, LogProb: -2}},
		`{"content":[{"token":"In","top_logprobs":[{"token":"In","logprob":-1},{"token":"Inn","logprob":-2}]}]}`: nil,
	} {
		got, err := engine(t, openaiSays(`{"choices":[{"logprobs":`+logprobs+`}]}`)).Ask(t.Context(),
			Ask{Context: []int32{1}, K: 2})
		require.NoError(t, err)
		assert.Equal(t, want, got.Top, logprobs)
	}
}

// TestRequestOpenAI: what is sent to a server that accepts fields beyond OpenAI's, and to others; to spell tokens their
// texts are requested.
func TestRequestOpenAI(t *testing.T) {
	const usual = `{"model":"demo-large","prompt":[1,2],"max_tokens":1,"n":1,"temperature":0,"top_p":1,` +
		`"presence_penalty":0,"frequency_penalty":0,"logprobs":1,"seed":0,"stream":false`
	more := func(asIDs, ids bool) string {
		return fmt.Sprintf(`,"top_k":-1,"min_p":0,"repetition_penalty":1,"add_special_tokens":false,`+
			`"skip_special_tokens":false,"return_tokens_as_token_ids":%t,"return_token_ids":%t`, asIDs, ids)
	}
	for _, extras := range []bool{false, true} {
		w := &inTurn{replies: slices.Repeat([]string{`{"choices":[{"logprobs":{"tokens":["<1>","<2>"]}}]}`}, 3)}
		e, text := engine(t, w), []int32{1, 2}
		e.extras = extras
		require.NoError(t, e.Warm(t.Context(), Ask{Context: text}))
		_, err := e.Spell(t.Context(), text)
		require.NoError(t, err)
		_, _ = e.Next(t.Context(), text)
		want := []string{usual, usual + `,"echo":true`, usual}
		if extras {
			want = []string{usual + more(true, true), usual + `,"echo":true` + more(false, true),
				usual + more(false, false)}
		}
		require.Len(t, w.asked, len(want))
		for i := range want {
			assert.JSONEq(t, want[i]+"}", w.asked[i])
		}
	}
}

// TestUnsupportedFields: a server that refuses fields beyond OpenAI's, with either status, is used without them, and
// one that only returns parts of characters is described, too.
func TestUnsupportedFields(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		e := &fakeengine.Engine{Dialect: "openai", Strict: true, MaxTop: 5, Model: func([]int32) []float64 {
			p := slices.Repeat([]float64{-9}, 300)
			p[0xe4] = -0.1
			return p
		}}
		e.Fault = func(w http.ResponseWriter, r *http.Request, b []byte) bool {
			refused := strings.Contains(string(b), "top_k") || strings.Contains(string(b), `"logprobs":20`)
			if refused {
				w.WriteHeader(status)
			}
			return refused
		}
		f, err := engineOf(t, "openai", fakeengine.NewWire(map[string]http.Handler{"engine": e})).Describe(t.Context(),
			fakeengine.NewVocabulary(), "")
		require.NoError(t, err)
		assert.Equal(t, 5, f.Choices)
		assert.Len(t, f.Notes, 1)
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
		`{"tokens":["a b"]}`: "a b", `{"tokens":["bytes:\\xzz"]}`: `bytes:\xzz`,
		`{"content":[{"token":"x","bytes":[228,184]}]}`: "\xe4\xb8",
		`{"content":[{"token":"x"}]}`:                   "x",
		`{"content":[{"bytes":[500]}]}`:                 "", `{}`: "",
	} {
		piece, err := engine(t, openaiSays(`{"choices":[{"logprobs":`+reply+`}]}`)).Next(t.Context(), []int32{1})
		assert.Equal(t, want == "", err != nil, reply)
		assert.Equal(t, want, string(piece))
	}
	pieces, err = e.Spell(t.Context(), []int32{1, 2, 3, 4})
	require.NoError(t, err)
	assert.Len(t, pieces, 4)
	_, err = e.Spell(t.Context(), []int32{1, 2, 3, 4, 5})
	assert.ErrorIs(t, err, ErrAbsent)
	const choice = `{"logprobs":{"tokens":["a"]}}`
	for _, reply := range []string{`{}`, `{"choices":[{}]}`, `{"choices":[` + choice + `,` + choice + `]}`} {
		_, err = engine(t, openaiSays(reply)).Spell(t.Context(), []int32{1})
		assert.ErrorIs(t, err, ErrAbsent, reply)
		_, err = engine(t, openaiSays(reply)).Next(t.Context(), []int32{1})
		assert.ErrorIs(t, err, ErrReply, reply)
	}
}
