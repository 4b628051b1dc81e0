package dialect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// vllmReplay returns an engine that replays a recording of a real one, with the API that was recorded.
func vllmReplay(t *testing.T, name string) (*VLLM, *fakeengine.Transcript, Ask) {
	t.Helper()
	c, r := replay(t, "vllm", name)
	e := NewVLLM(c, "demo-large")
	var a Ask
	if strings.HasPrefix(name, "generate") || name == "warm" {
		e.endpoint = generateEndpoint{}
		require.NoError(t, r.Field(&a.Context, "token_ids"))
		require.NoError(t, r.Field(&a.Name, "request_id"))
	} else if strings.HasPrefix(name, "completions") {
		_ = r.Field(&a.Context, "prompt") // one has several
		_ = r.Field(&a.Name, "request_id")
	}
	return e, r, a
}

// TestReplayedAnswersVLLM: answers of a real server are parsed correctly, and requests equal the recorded ones.
func TestReplayedAnswersVLLM(t *testing.T) {
	for name, want := range map[string]struct {
		k, token, top, cached int
		salt                  string
	}{
		"generate": {0, 379, 0, 0, ""}, "generate-again": {0, 379, 0, 32, ""}, "generate-k5": {5, 379, 5, 32, ""},
		"generate-k20": {20, 411, 20, 0, ""}, "generate-end": {2, 767, 2, 32, ""},
		"generate-longest": {0, -1, 0, 32, ""}, "generate-salt": {0, 379, 0, 0, "client 1"},
		"generate-salt-again": {0, 379, 0, 32, "client 1"}, "completions": {0, 379, 0, -2, ""},
		"completions-again": {0, 379, 0, 32, ""}, "completions-k5": {5, 379, 5, -2, ""},
		"completions-k5-without-token-ids": {5, 379, 5, -2, ""}, "completions-end": {2, 767, 2, -2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, r, a := vllmReplay(t, name)
			a.K, a.Salt = want.k, want.salt
			got, err := e.Ask(t.Context(), a)
			require.NoError(t, err)
			if want.token >= 0 {
				assert.EqualValues(t, want.token, got.Token)
			}
			if want.cached >= -1 {
				assert.Equal(t, want.cached, got.Cached)
			}
			require.Len(t, got.Top, want.top)
			if want.top > 0 {
				assert.EqualValues(t, want.token, got.Top[0].ID)
			}
			asRecorded(t, r, "priority", "request_id", "return_token_ids", "session_id")
		})
	}
}

// TestReplayedVerification: the rows for verification, as a real server gave them. The numbers were read from the
// transcript by hand.
func TestReplayedVerification(t *testing.T) {
	e, r, a := vllmReplay(t, "generate-audit")
	a.K, a.AuditFrom, a.All, e.rows = 1, 1, true, true
	got, err := e.Ask(t.Context(), a)
	require.NoError(t, err)
	require.NoError(t, got.Unheard)
	require.Len(t, got.Rows, 39)
	for i, want := range []Row{
		{Top: []terms.Candidate{{ID: 58, LogProb: -1.116844654083252}}, Stands: -6.826804161071777},
		{Top: []terms.Candidate{{ID: 651, LogProb: -2.2539174556732178}}, Stands: -6.7325334548950195},
	} {
		assert.Equal(t, want, got.Rows[i])
	}
	unlike, err := r.Unlike("priority")
	require.NoError(t, err)
	for _, u := range unlike {
		assert.Contains(t, u, "skip_reading_prefix_cache", "which was not sent in the recording")
	}

	e, _, a = vllmReplay(t, "generate-audit")
	a.K, a.AuditFrom, e.rows = 1, 30, true
	part, err := e.Ask(t.Context(), a)
	require.NoError(t, err)
	assert.Equal(t, got.Rows[29:], part.Rows)
	e, _, a = vllmReplay(t, "generate-cached-audit")
	a.AuditFrom, e.rows = 1, true
	got, err = e.Ask(t.Context(), a)
	require.NoError(t, err)
	if got.Unheard == nil { // random data may look like an audit: so fewer rows are requested only if possible
		assert.Len(t, got.Rows, len(a.Context)-1)
	}
}

// scripted is an endpoint that gives one reply after the other.
type scripted struct {
	replies []Reply
	asked   []Ask
	which   []rowSelection
}

func (s *scripted) requestToken(_ context.Context, _ *Client, a Ask, _ string, which rowSelection) (Reply, error) {
	s.asked, s.which = append(s.asked, a), append(s.which, which)
	r := s.replies[len(s.asked)-1]
	if r.Token == 0 {
		return Reply{}, ErrReply
	}
	return r, nil
}

// TestAskedRows: rows are requested if the engine has correct ones, for all tokens only if some that are to be verified
// were cached; and the audit is from the requested position on.
func TestAskedRows(t *testing.T) {
	part := Reply{Token: 8, Rows: []Row{{Stands: 9}}}
	whole := Reply{Token: 7, Rows: []Row{{}, {Stands: 2}, {Stands: 3}, {Stands: 4}}}
	unheard := Reply{Token: 9, Unheard: ErrReply}
	for name, c := range map[string]struct {
		a       Ask
		without bool // rows
		replies []Reply
		which   []rowSelection
		want    Reply
	}{
		"no audit":     {Ask{All: true}, false, []Reply{part}, []rowSelection{noRows}, part},
		"without rows": {Ask{AuditFrom: 2}, true, []Reply{part}, []rowSelection{noRows}, part},
		"fewer":        {Ask{AuditFrom: 2}, false, []Reply{part}, []rowSelection{newRows}, part},
		"as many":      {Ask{AuditFrom: 4, All: true}, false, []Reply{part}, []rowSelection{newRows}, part},
		"more": {Ask{AuditFrom: 2}, false, []Reply{whole}, []rowSelection{newRows}, Reply{Token: 7,
			Rows: whole.Rows[1:]}},
		"cached": {Ask{AuditFrom: 2, All: true}, false, []Reply{part, whole}, []rowSelection{newRows, allRows},
			Reply{Token: 8, Rows: whole.Rows[1:]}},
		"unheard": {Ask{AuditFrom: 2, All: true}, false, []Reply{unheard}, []rowSelection{newRows}, unheard},
		"unheard later": {Ask{AuditFrom: 2, All: true}, false, []Reply{part, unheard}, []rowSelection{newRows, allRows},
			Reply{Token: 8, Unheard: ErrReply}},
		"an error": {Ask{AuditFrom: 2, All: true}, false, []Reply{{}}, []rowSelection{newRows}, Reply{}},
		"an error later": {Ask{AuditFrom: 2, All: true}, false, []Reply{part, {}}, []rowSelection{newRows, allRows},
			part},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{replies: c.replies}
			c.a.Name, c.a.Context, c.a.K = "n", []int32{1, 2, 3, 4, 5}, 2
			got, err := (&VLLM{endpoint: s, rows: !c.without}).askWithAudit(t.Context(), c.a)
			assert.Equal(t, c.replies[len(c.replies)-1].Token == 0, err != nil)
			assert.Equal(t, c.which, s.which)
			assert.Equal(t, c.want, got)
			for i, a := range s.asked {
				c.a.Name = []string{"n", "n-all"}[i]
				assert.Equal(t, c.a, a)
			}
		})
	}
}

// TestGivesRows: an exact audit requires that the rows after a cached prefix are those of the computed part, and equal
// to the ones without a cache.
func TestGivesRows(t *testing.T) {
	rowsOf := func(ids ...int32) (all []Row) {
		for _, id := range ids {
			all = append(all, Row{Top: []terms.Candidate{{ID: id}}})
		}
		return all
	}
	ids := make([]int32, 299)
	for i := range ids {
		ids[i] = int32(i)
	}
	first := Reply{Token: 1, Rows: rowsOf(ids...)}
	again := func(ids ...int32) Reply { return Reply{Token: 1, Rows: rowsOf(ids...)} }
	for name, c := range map[string]struct {
		longest int
		again   Reply
		want    bool
	}{
		"the computed part":    {1000, again(ids[255:]...), true},
		"nearly all":           {1000, again(ids[1:]...), true},
		"all":                  {1000, first, false},
		"none":                 {1000, again(), false},
		"one":                  {1000, again(298), true},
		"another token":        {1000, again(296, 299, 298), false},
		"an error":             {1000, Reply{}, false},
		"in a short context":   {300, again(297, 298), true},
		"in a shorter context": {299, again(297, 298), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{replies: []Reply{first, c.again}}
			got := (&VLLM{endpoint: s}).givesRows(t.Context(), fakeengine.NewVocabulary(), "salt", c.longest)
			assert.Equal(t, c.want, got)
			assert.Equal(t, []rowSelection{newRows, newRows}, s.which)
			assert.Len(t, s.asked[1].Context, min(c.longest, 300))
			assert.Equal(t, s.asked[0], s.asked[1])
		})
	}
	s := &scripted{replies: []Reply{{}}}
	assert.False(t, (&VLLM{endpoint: s}).givesRows(t.Context(), fakeengine.NewVocabulary(), "salt", 300))
}

// TestTrial: test questions have ordinary tokens of the vocabulary, names of their own, and the salt of this start.
func TestTrial(t *testing.T) {
	for size, most := range map[int]int32{1: 1, 100: 100, 256: 256, 300: 256} {
		t.Run(fmt.Sprint(size, " tokens"), func(t *testing.T) {
			a := newTrialAsk(fakeengine.VocabularyOf(make([][]byte, size), int32(size), nil), "salt", 300, 2)
			assert.Len(t, a.Context, 300)
			assert.Less(t, slices.Max(a.Context), most)
			assert.Equal(t, "salt", a.Salt)
			assert.Equal(t, 2, a.K)
		})
	}
	v := fakeengine.NewVocabulary()
	names := map[string]bool{}
	for _, a := range []Ask{
		newTrialAsk(v, "a", 4, 0), newTrialAsk(v, "b", 4, 0), newTrialAsk(v, "a", 4, 20), newTrialAsk(v, "a", 300, 0),
	} {
		names[a.Name] = true
	}
	assert.Len(t, names, 4)

	small := fakeengine.VocabularyOf(slices.Repeat([][]byte{{'x'}}, 30), 30, nil)
	e := &fakeengine.Engine{Dialect: "vllm", Vocabulary: small, MaxTop: 300}
	to := fakeengine.NewWire(map[string]http.Handler{"engine": e})
	_, err := engineOf(t, "vllm", to).Describe(t.Context(), small, "salt")
	assert.NoError(t, err, "no more probabilities are requested than there are tokens")
}

// TestReadRows: valid and invalid rows of prompt_logprobs.
func TestReadRows(t *testing.T) {
	p := func(x float64) *float64 { return &x }
	type row = map[string]rankedLogProb
	own := func(id int32) row { return row{fmt.Sprint(id): {p(-3), 9}, "2": {p(-0.5), 1}} }
	for name, c := range map[string]struct {
		rows  []row
		count int
		ok    bool
	}{
		"all":           {[]row{nil, own(5), own(6), own(7)}, 3, true},
		"the last ones": {[]row{nil, own(6), own(7)}, 2, true},
		"none":          {[]row{nil}, 0, true},
		"nothing":       {nil, 0, false},
		"no null":       {[]row{own(4), own(5)}, 0, false},
		"too many":      {[]row{nil, own(4), own(5), own(6), own(7)}, 0, false},
		"others":        {[]row{nil, own(5), own(6)}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parsePromptLogProbs(c.rows, Ask{Context: []int32{4, 5, 6, 7}})
			assert.Equal(t, c.ok, err == nil)
			assert.Len(t, got, c.count)
			assert.True(t, c.ok || errors.Is(err, ErrReply))
			for _, r := range got {
				assert.Equal(t, Row{Top: []terms.Candidate{{ID: 2, LogProb: -0.5}}, Stands: -3}, r)
			}
		})
	}
	for name, c := range map[string]struct {
		row    row
		stands float32 // 0: the row is invalid
	}{
		"the best stands":  {row{"7": {p(-1), 1}, "3": {p(-2), 2}}, -1},
		"a good one":       {row{"7": {p(-2), 2}, "3": {p(-1), 1}}, -2},
		"a bad one":        {row{"7": {p(-9), 7}, "3": {p(-1), 1}, "4": {p(-2), 2}}, -9},
		"two that are one": {row{"7": {p(-1), 1}, "3": {p(-1), 1}}, -1},
		"not there":        {row{"3": {p(-1), 1}, "4": {p(-2), 2}}, 0},
		"better than best": {row{"7": {p(-0.5), 7}, "3": {p(-1), 1}}, 0},
		"no best":          {row{"7": {p(-0.5), 3}}, 0},
		"no rank":          {row{"7": {p(-0.5), 0}}, 0},
		"no number":        {row{"7": {p(-1), 1}, "x": {p(-3), 3}}, 0},
		"below 0":          {row{"7": {p(-1), 1}, "-7": {p(-3), 3}}, 0},
		"no probability":   {row{"7": {p(-1), 1}, "3": {nil, 3}}, 0},
		"above 1":          {row{"7": {p(7311616), 1}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parsePromptLogProbs([]row{nil, c.row}, Ask{Context: []int32{5, 7}, Rows: 2})
			if c.stands == 0 {
				assert.ErrorIs(t, err, ErrReply)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.stands, got[0].Stands)
			require.Len(t, got[0].Top, 2)
			assert.EqualValues(t, -1, got[0].Top[0].LogProb)
		})
	}
}

// TestReplayedRefusalsVLLM: refusals of a real server are distinguished.
func TestReplayedRefusalsVLLM(t *testing.T) {
	for name, want := range map[string]netproto.Code{
		"generate-too-long": netproto.TooLarge, "generate-far-too-long": netproto.TooLarge,
		"completions-too-long": netproto.TooLarge, "completions-far-too-long": netproto.TooLarge,
		"generate-busy": netproto.Busy, "completions-busy": netproto.Busy, "generate-k21": netproto.Failed,
		"completions-k21": netproto.Failed, "generate-other-model": netproto.Failed,
		"generate-wrong-key": netproto.Failed, "completions-wrong-key": netproto.Failed,
		"generate-unknown-id": netproto.Failed, "generate-disabled": netproto.Failed,
		"generate-empty-salt": netproto.Failed,
	} {
		t.Run(name, func(t *testing.T) {
			e, _, a := vllmReplay(t, name)
			_, err := e.Ask(t.Context(), a)
			assert.Equal(t, want, codeOf(err))
			assert.NotContains(t, err.Error(), "vocabulary", "text of the engine is not logged")
		})
	}
}

// TestReplayedRestVLLM: the other paths.
func TestReplayedRestVLLM(t *testing.T) {
	e, r, a := vllmReplay(t, "warm")
	require.NoError(t, e.Warm(t.Context(), a))
	asRecorded(t, r, "priority")
	e, _, _ = vllmReplay(t, "health")
	require.NoError(t, e.Alive(t.Context()))
	e, r, _ = vllmReplay(t, "tokenize")
	ids, err := e.Tokenize(t.Context(), "Where does a mavgri sleep?<|im_end|>")
	require.NoError(t, err)
	assert.Equal(t, []int32{344, 333, 257, 754, 402, 63, 767}, ids)
	asRecorded(t, r, "return_token_strs")
	e, r, _ = vllmReplay(t, "detokenize")
	require.NoError(t, r.Field(&ids, "tokens"))
	text, err := e.Detokenize(t.Context(), ids)
	require.NoError(t, err)
	assert.Equal(t, "Hi €\x00\uFFFDch has<|endoftext|><|im_start|><|im_end|>", text)
}
