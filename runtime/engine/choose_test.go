package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// cutAtStop returns the text before the first stop string, found letter by letter.
func cutAtStop(text string, stops []string) (before string, found bool) {
	before = text
	for i := 0; i <= len(text) && !found; i++ {
		for _, stop := range stops {
			if begin, ends := strings.CutSuffix(text[:i], stop); ends && (!found || len(begin) < len(before)) {
				before, found = begin, true
			}
		}
	}
	return before, found
}

// TestStopper: the text up to the first stop string is shown, for any division into tokens, and a token is held back
// only if it may be part of a stop string.
func TestStopper(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	stopped, held := 0, 0
	for range 3000 {
		word := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = "ab"[r.IntN(2)]
			}
			return string(b)
		}
		s := stopper{stops: []string{word(1 + r.IntN(5)), word(2 + r.IntN(4))}[:1+r.IntN(2)]}
		var parts []string
		for range r.IntN(12) {
			parts = append(parts, word(r.IntN(4)))
		}
		whole := strings.Join(parts, "")
		want, stops := cutAtStop(whole, s.stops)
		got, over := "", false
		for i, p := range parts {
			shown, stop := s.pushToken(Token{Pos: i, Text: p})
			for _, x := range shown {
				got += x.Text
			}
			seen := strings.Join(parts[:i+1], "")
			if over = stop; over {
				break
			}
			require.Equal(t, seen, got+s.text)
			for j := range s.pending {
				rest := s.text[len(s.text)-max(0, lengthOf(s.pending[j:])):]
				begins := j > 0 || slices.ContainsFunc(s.stops, func(stop string) bool {
					for k := range max(1, len(s.pending[0].Text)) {
						if k < len(rest) && strings.HasPrefix(stop, rest[k:]) {
							return true
						}
					}
					return false
				})
				require.True(t, begins, "%q is held back in vain by %q", rest, s.stops)
				held++
			}
		}
		require.Equal(t, stops, over, "%q in %q", s.stops, parts)
		if !over {
			got += s.text
		} else {
			stopped++
		}
		require.Equal(t, want, got, "%q in %q", s.stops, parts)
	}
	assert.Positive(t, stopped)
	assert.Positive(t, held)
}

func lengthOf(tokens []Token) (n int) {
	for _, t := range tokens {
		n += len(t.Text)
	}
	return n
}

// tiny opens the small model of the demo.
func tiny(t testing.TB, data []byte) *Engine {
	f, err := gguf.Parse(data)
	require.NoError(t, err)
	e, err := New(f, "demo", Options{Threads: 1, Context: 512})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// said returns the tokens and the text of an answer, and how it ended.
func said(t testing.TB, s *Session, prompt []int32, r Route) (all []Token, text, stop string) {
	all = tokens(t, s, prompt, r)
	return all, s.Summary().Text, s.Summary().Stop
}

// TestStop: an answer ends before a stop string, and is complete without one.
func TestStop(t *testing.T) {
	e := tiny(t, demo.Small())
	s, err := e.NewSession()
	require.NoError(t, err)
	prompt := []int32{70, 71, 72}
	r := Route{Settings: terms.Settings{MaxTokens: 30, IgnoreEnd: true}}
	all, whole, _ := said(t, s, prompt, r)
	require.Greater(t, len(whole), 12)
	for _, stop := range []string{whole[4:9], whole[len(whole)-3:], whole[:2], "\x00", whole[len(whole)-2:] + "\x00"} {
		r.Stop = []string{"\x01", stop}
		tokens, text, why := said(t, s, prompt, r)
		want, _, found := strings.Cut(whole, stop)
		assert.Equal(t, want, text)
		shown := ""
		for _, x := range tokens {
			shown += x.Text
		}
		assert.Equal(t, text, shown, "the tokens add up to the text")
		if found {
			assert.Equal(t, StopString, why)
			assert.Equal(t, stop, s.Summary().Stopped)
		} else {
			assert.Equal(t, StopLength, why)
			assert.Empty(t, s.Summary().Stopped)
			assert.Len(t, tokens, len(all), "tokens that were held back are shown at the end")
		}
	}
	r.Stop = nil
	for _, c := range whole { // a stop string may begin in every token: each is held back until the next one
		r.Stop = append(r.Stop, string(c)+"\x00")
	}
	for n := range len(all) - 1 {
		shown := ""
		for tok, err := range s.Routed(t.Context(), prompt, r) { // panics if it yields after the end of the loop
			require.NoError(t, err)
			if shown += tok.Text; tok.Pos == len(prompt)+n {
				break
			}
		}
		assert.Equal(t, shown, s.Summary().Text)
	}
	for _, r := range []terms.Settings{
		{Stop: []string{"a", ""}}, {Top: -1}, {Top: 21}, {MaxTokens: -1}, {JSON: true, Schema: []byte(`{}`)},
		{JSON: true, IgnoreEnd: true}, {MinP: 2}, {Schema: []byte(`{"type":"x"}`)},
	} {
		for _, err = range s.Generate(t.Context(), prompt, r) {
		}
		assert.Error(t, err, "%+v", r)
	}
	var e1 *SchemaError
	assert.ErrorAs(t, err, &e1)
	assert.Equal(t, "#/type", e1.Path)
}

// ruled chooses the tokens of an answer one by one, each from a new head.
func ruled(t *testing.T, e *Engine, prompt []int32, n int, o terms.Sampling, rules terms.Settings) (ids []int32) {
	sampler, err := sample.New(o)
	require.NoError(t, err)
	text, counts := slices.Clone(prompt), map[int32]int{}
	for range n {
		out := headAfter(t, e, text, backend.Want{K: 1, Logits: true})
		recent := text[max(0, len(text)-sample.RepeatWindow):]
		id := sampler.PickBy(len(text), out, &rules, sample.Place{Recent: recent, Counts: counts})
		counts[id]++
		text, ids = append(text, id), append(ids, id)
	}
	return ids
}

// TestRules: with penalties, bias and min-p, each token of an answer is the one chosen separately at its place, with
// and without guesses from the text.
func TestRules(t *testing.T) {
	racing.Spare(t)
	e := tiny(t, demo.Small())
	prompt := []int32{70, 71, 72, 70, 71}
	for range 3 {
		prompt = append(prompt, prompt...)
	}
	drawn := terms.Sampling{Temperature: 1.2, Seed: 3, TopK: 50}
	texts := map[string]bool{}
	for name, c := range map[string]struct {
		o terms.Sampling
		r terms.Settings
	}{
		"no rule":                {terms.Sampling{}, terms.Settings{}},
		"repeat penalty":         {terms.Sampling{}, terms.Settings{RepeatPenalty: 1.7}},
		"presence penalty":       {terms.Sampling{}, terms.Settings{PresencePenalty: 2}},
		"frequency penalty":      {terms.Sampling{}, terms.Settings{FrequencyPenalty: 1.5}},
		"bias":                   {terms.Sampling{}, terms.Settings{LogitBias: map[int32]float32{70: 30, 71: -100}}},
		"drawn":                  {drawn, terms.Settings{}},
		"min-p":                  {drawn, terms.Settings{MinP: 0.2}},
		"min-p and penalties":    {drawn, terms.Settings{MinP: 0.05, RepeatPenalty: 1.2, FrequencyPenalty: 1}},
		"min-p among all logits": {terms.Sampling{Temperature: 1.2, Seed: 4}, terms.Settings{MinP: 0.1}},
	} {
		t.Run(name, func(t *testing.T) {
			want := ruled(t, e, prompt, 30, c.o, c.r)
			for _, lookup := range []int{-1, 0} {
				s := session(t, e)
				c.r.MaxTokens, c.r.IgnoreEnd, c.r.Lookup = 30, true, lookup
				all, text, _ := said(t, s, prompt, Route{Settings: c.r.With(c.o)})
				var got []int32
				for _, x := range all {
					got = append(got, x.ID)
				}
				require.Equal(t, want, got, "lookup %d", lookup)
				texts[text] = true
			}
		})
	}
	assert.Len(t, texts, 9, "each rule changes some text")
}

// TestLogProbs: each token has its log-probability and those of the best ones, before temperature and rules.
func TestLogProbs(t *testing.T) {
	e := tiny(t, demo.Small())
	s := session(t, e)
	prompt := []int32{70, 71, 72}
	plain := terms.Settings{MaxTokens: 12, IgnoreEnd: true}
	all, _, _ := said(t, s, prompt, Route{Settings: plain})
	assert.Zero(t, all[0].LogProb)
	assert.Nil(t, all[0].Top)
	plain.LogProbs = true
	all, _, _ = said(t, s, prompt, Route{Settings: plain})
	assert.Negative(t, all[0].LogProb, "without the best ones")
	assert.Empty(t, all[0].Top)
	for _, r := range []terms.Settings{
		{}, {Temperature: 1.5, Seed: 1}, {Temperature: 1.5, Seed: 1, LogitBias: map[int32]float32{90: 9}},
	} {
		r.MaxTokens, r.IgnoreEnd, r.Top = 12, true, 5
		text := slices.Clone(prompt)
		all, _, _ := said(t, s, prompt, Route{Settings: r})
		for _, x := range all {
			out := headAfter(t, e, text, backend.Want{K: 5, Logits: true})
			require.Equal(t, out.Logits[x.ID]-out.LogSumExp, x.LogProb)
			require.Len(t, x.Top, 5)
			for i, c := range x.Top {
				require.Equal(t, terms.Candidate{ID: out.Top[i].ID, LogProb: out.Top[i].Logit - out.LogSumExp}, c)
			}
			text = append(text, x.ID)
		}
	}
}

// schemas are typical schemas.
var schemas = []string{
	`{"type":"object","properties":{"name":{"type":"string","maxLength":20},` +
		`"age":{"type":"integer","minimum":0,"maximum":150}},
	  "required":["name","age"],"additionalProperties":false}`,
	`{"type":"array","items":{"enum":["red","green","blue"]},"minItems":2,"maxItems":4}`,
	`{"$defs":{"t":{"type":"object","properties":{"v":{"type":"boolean"},` +
		`"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/t"}]}},
	  "required":["v","next"],"additionalProperties":false}},"$ref":"#/$defs/t"}`,
	`{"type":"string","format":"date-time"}`,
	`{"anyOf":[{"type":"number","minimum":0,"maximum":1},{"type":"null"}]}`,
}

// valid fails unless another implementation accepts a text as a value of a schema.
func valid(t testing.TB, schema []byte, text string) {
	t.Helper()
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	require.NoError(t, err)
	require.NoError(t, c.AddResource("s", doc))
	s, err := c.Compile("s")
	require.NoError(t, err)
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	require.NoError(t, s.Validate(v), text)
}

// TestSchema: answers are values of the schema, greedy or sampled, if there is room for one; guesses from the text
// change no token.
func TestSchema(t *testing.T) {
	racing.Spare(t)
	e := tiny(t, demo.Small())
	s := session(t, e)
	shortened, cut := 0, 0
	for _, schema := range schemas {
		for seed := range uint64(24) {
			sampling := terms.Sampling{Temperature: float64(min(seed%8, 1)), Seed: seed}
			r := terms.Settings{Schema: []byte(schema), Complete: true}.With(sampling)
			r.MaxTokens = []int{150, 40, 30, 22, 14, 8, 4, 1}[seed%8]
			if seed == 7 {
				r.TopP, r.PresencePenalty, r.MinP = 0.9, 1, 0.01
			}
			prompt := append([]int32{70, 71, 72}, bytesOf(int(seed))...)
			all, text, stop := said(t, s, prompt, Route{Settings: r})
			sum := s.Summary()
			r.Lookup = -1
			again, _, _ := said(t, s, prompt, Route{Settings: r})
			require.Equal(t, all, again)
			if left := r.MaxTokens - shortest(t, e, r); left <= 0 {
				require.Equal(t, StopLength, stop)
				if require.Equal(t, left == 0, sum.Shortened); left == 0 {
					valid(t, r.Schema, text)
				} else {
					cut++
				}
				continue
			}
			require.Equal(t, sum.Tokens+1 == r.MaxTokens, sum.Shortened)
			require.Equal(t, map[bool]string{true: StopLength, false: StopEnd}[sum.Shortened], stop, "%s in %d tokens",
				text, r.MaxTokens)
			valid(t, r.Schema, text)
			if sum.Shortened {
				shortened++
				require.Equal(t, float64(sum.Passes)/float64(max(sum.Tokens, 1)), sum.PassesPerToken(),
					"with the end token")
			}
			r.Complete = false
			free, freely, why := said(t, s, prompt, Route{Settings: r})
			require.False(t, s.Summary().Shortened)
			if why == StopEnd { // the room did not matter
				require.Equal(t, all, free)
			} else {
				require.Equal(t, StopLength, why)
				require.Equal(t, r.MaxTokens, s.Summary().Tokens)
				require.True(t, sum.Shortened,
					"%s: without the limit the model would not have ended this in time: %s", schema, freely)
			}
		}
	}
	assert.Positive(t, cut)
	assert.Positive(t, shortened)
	_, text, _ := said(t, s, []int32{70},
		Route{Settings: terms.Settings{JSON: true, Complete: true, MaxTokens: 300, Temperature: 1}})
	assert.True(t, strings.HasPrefix(text, "{"))
	assert.True(t, json.Valid([]byte(text)), text)
}

// shortest returns the number of tokens of the shortest value of a request's schema.
func shortest(t testing.TB, e *Engine, r terms.Settings) int {
	m, _, err := e.grammars.matcherFor(t.Context(), e, r)
	require.NoError(t, err)
	return len(m.Shortest(m.Start()))
}

// TestSchemaFitsExactly: with room for the shortest value it is complete, with an end token if there is room for one
// more token; with less room the answer is cut.
func TestSchemaFitsExactly(t *testing.T) {
	e := tiny(t, demo.Small())
	s := session(t, e)
	for _, schema := range schemas {
		r := terms.Settings{Schema: []byte(schema), Complete: true}
		n := shortest(t, e, r)
		for _, limit := range []int{n - 1, n, n + 1} {
			if r.MaxTokens = limit; limit == 0 {
				continue
			}
			_, text, stop := said(t, s, []int32{70, 71, 72}, Route{Settings: r})
			assert.Equal(t, StopLength, stop, "%s in %d tokens", schema, limit)
			if assert.Equal(t, limit >= n, s.Summary().Shortened,
				"%s in %d tokens", schema, limit); limit >= n {
				valid(t, r.Schema, text)
			}
		}
	}
}

// TestSchemaFillsContext: a value also ends in time at the end of the context.
func TestSchemaFillsContext(t *testing.T) {
	racing.Spare(t)
	f, err := gguf.Parse(demo.Small())
	require.NoError(t, err)
	e, err := New(f, "demo", Options{Threads: 1, Context: 64})
	require.NoError(t, err)
	defer e.Close()
	s, err := e.NewSession()
	require.NoError(t, err)
	shortened := 0
	for seed := range uint64(20) {
		r := terms.Settings{Schema: []byte(`{"type":"array","items":{"type":"string"},"minItems":1}`), Complete: true}
		r.Temperature, r.Seed = 1.5, seed
		_, text, stop := said(t, s, []int32{70, 71, 72}, Route{Settings: r})
		valid(t, r.Schema, text)
		if !s.Summary().Shortened {
			require.Equal(t, StopEnd, stop)
			continue
		}
		assert.Equal(t, StopContext, stop)
		assert.Equal(t, 60, s.Summary().Tokens)
		shortened++
	}
	assert.Positive(t, shortened)
}

// known is a cloud with a large model in this process that counts questions.
type known struct {
	draft.Cloud
	mu    sync.Mutex // questions may be concurrent
	asked int
	best  int // max number of best tokens wanted; ahead: max number of tokens ahead
	ahead int
}

func (k *known) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	k.mu.Lock()
	k.asked++
	k.best, k.ahead = max(k.best, q.K), max(k.ahead, q.Ahead)
	k.mu.Unlock()
	return k.Cloud.Ask(ctx, q)
}

func asksAlways(t testing.TB) *router.Router {
	r, err := router.New(router.Options{Policy: router.Always})
	require.NoError(t, err)
	return r
}

// TestSchemaRouted: with a large model, answers are also values of the schema. Pipelined decoding gives the result of
// serial decoding, whether answers are allowed or not, with all rules.
func TestSchemaRouted(t *testing.T) {
	small, large := tiny(t, demo.Small()), tiny(t, demo.Large())
	service, err := large.Serve(ServeOptions{Slots: 4096})
	require.NoError(t, err)
	defer service.Close()
	s, err := small.NewSession()
	require.NoError(t, err)
	kept, cloudTokens := 0, 0
	for i, schema := range schemas {
		for _, c := range []struct {
			temperature float64
			penalty     float64
			ahead       int
			verify      bool
		}{{}, {temperature: 1}, {temperature: 1, ahead: 8}, {penalty: 1.3}, {verify: true}} {
			texts := [2][]Token{}
			for mode := range texts {
				k := &known{Cloud: service.Local(uint64(100*i + 2))}
				r := Route{
					Settings: terms.Settings{
						MaxTokens: 20 + 10*i, Schema: []byte(schema), Complete: true, RepeatPenalty: c.penalty,
						Temperature: c.temperature, Seed: 5, Top: 3,
					},
					Router: asksAlways(t), Cloud: k,
					Draft: DraftOptions{
						Mode: []draft.Mode{Serial, Pipelined}[mode], Deadline: -1, Ahead: c.ahead, Verify: c.verify,
					},
				}
				all, text, stop := said(t, s, []int32{70, 71, 72}, r)
				for j := range all {
					if p := all[j].LogProb; !math.IsNaN(float64(p)) {
						require.LessOrEqual(t, p, float32(1e-3))
					} else {
						all[j].LogProb, all[j].Top = 0, nil // NaN differs from itself
					}
				}
				texts[mode] = all
				if shortest(t, small, r.Settings) < r.MaxTokens {
					require.Equal(t, !s.Summary().Shortened, stop == StopEnd)
					valid(t, r.Schema, text)
				}
				kept += s.Summary().Routing.Kept
				cloudTokens += s.Summary().Routing.Cloud
				assert.Equal(t, cloudBest, k.best)
				assert.Zero(t, k.ahead, "tokens ahead have no candidates")
			}
			require.Equal(t, texts[0], texts[1], "%s: %+v", schema, c)
		}
	}
	assert.Positive(t, kept)
	assert.Positive(t, cloudTokens)
	r := Route{
		Settings: terms.Settings{RepeatPenalty: 2},
		Router:   asksAlways(t), Cloud: service.Local(1), Draft: DraftOptions{Verify: true},
	}
	for _, err = range s.Routed(t.Context(), []int32{70}, r) {
	}
	assert.ErrorContains(t, err, "verification")
}

// TestPickBySchema: a sampler of the caller sees the answer so far, which it may keep, and its token is used where it
// is allowed.
func TestPickBySchema(t *testing.T) {
	e := tiny(t, demo.Small())
	s, err := e.NewSession()
	require.NoError(t, err)
	var seen [][]int32
	r := Route{Settings: terms.Settings{MaxTokens: 40, Schema: []byte(`{"enum":["aaa","abc"]}`)}}
	r.Pick = func(_ int, answer []int32, _ *backend.Output) int32 {
		seen = append(seen, answer)
		return 'b' // the token of that byte in these models
	}
	all, text, stop := said(t, s, []int32{70}, r)
	assert.Equal(t, StopEnd, stop)
	assert.Contains(t, []string{`"aaa"`, `"abc"`}, text)
	var ids []int32
	for i, x := range all {
		assert.Contains(t, seen, append([]int32{}, ids...), i)
		ids = append(ids, x.ID)
	}
	r.PresencePenalty = 1
	for _, err = range s.Routed(t.Context(), []int32{70}, r) {
	}
	assert.ErrorContains(t, err, "sampler")
}

// TestIgnoredStays: the grammar of a schema, which is kept, does not change with the paths that callers got from it.
func TestIgnoredStays(t *testing.T) {
	e := tiny(t, demo.Small())
	s := session(t, e)
	r := Route{Settings: terms.Settings{MaxTokens: 3, Schema: []byte(`{"type":"integer","size":1}`)}}
	for range 2 {
		ignored, err := e.Check(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, []string{"#/size"}, ignored)
		ignored[0] = "checked"
		said(t, s, []int32{70}, r)
		require.Equal(t, []string{"#/size"}, s.Summary().Ignored)
		s.Summary().Ignored[0] = "generated"
	}
}

// TestSchemaClosed: a closed grammar differs from the open one of the same schema.
func TestSchemaClosed(t *testing.T) {
	e := tiny(t, demo.Small())
	s, err := e.NewSession()
	require.NoError(t, err)
	const schema = `{"type":"object","properties":{},"required":[]}`
	r := terms.Settings{Schema: []byte(schema), MaxTokens: 40, Complete: true}
	for _, r.Closed = range []bool{false, true, false} {
		_, text, _ := said(t, s, []int32{70, 71, 72}, Route{Settings: r})
		assert.Equal(t, r.Closed, text == "{}", text)
	}
}

// TestStructuredKept: a grammar is made once for all answers with its schema, and a limited number is kept.
func TestStructuredKept(t *testing.T) {
	e := tiny(t, demo.Small())
	a, _, err := e.grammars.matcherFor(t.Context(), e, terms.Settings{Schema: []byte(schemas[0])})
	require.NoError(t, err)
	b, end, err := e.grammars.matcherFor(t.Context(), e, terms.Settings{Schema: []byte(schemas[0])})
	require.NoError(t, err)
	assert.Same(t, a, b, "made once")
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	assert.True(t, tok.IsEnd(end))
	k := &e.grammars
	require.Equal(t, 1, k.kept.Len())
	first := k.bytes
	require.Greater(t, first, 1000, "bytes of a grammar")
	twice := keptGrammar{new(grammar.Matcher), 5}
	again := k.cacheMatcher(sha256.Sum256([]byte(schemas[0])), twice)
	assert.Same(t, a, again, "made twice at once: the first one is kept")
	require.Equal(t, first, k.bytes)
	k.bytes = keptGrammars // as if there were other grammars
	_, _, err = k.matcherFor(t.Context(), e, terms.Settings{Schema: []byte(`{"const":1}`)})
	require.NoError(t, err)
	assert.Equal(t, 1, k.kept.Len(), "the first one was evicted")
	c, _, err := k.matcherFor(t.Context(), e, terms.Settings{Schema: []byte(schemas[0])})
	require.NoError(t, err)
	assert.NotSame(t, a, c)
	kept := keptGrammars - first // the others
	for _, one := range k.kept.Values() {
		kept += one.bytes
	}
	assert.Equal(t, kept, k.bytes, "what was evicted no longer counts")
	k.cacheMatcher(schemaHash{1}, keptGrammar{a, keptGrammars + 1})
	assert.Equal(t, 1, k.kept.Len(), "the last one stays, however large it is")
}

// TestSchemaEnds: making a grammar ends with its context and returns the cause, as do checks and answers that need one.
func TestSchemaEnds(t *testing.T) {
	e := tiny(t, demo.Small())
	s, err := e.NewSession()
	require.NoError(t, err)
	gone := errors.New("no caller waits")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	large := []byte(`{"pattern":"` + strings.Repeat("(a|b)?", 3000) + `"}`)
	r := Route{Settings: terms.Settings{Schema: large}}
	_, err = e.Check(ctx, r)
	require.ErrorIs(t, err, gone)
	var wrong *SchemaError
	assert.NotErrorAs(t, err, &wrong, "not an error of the schema")
	for _, err := range s.Routed(ctx, []int32{70}, r) {
		require.ErrorIs(t, err, gone)
	}
	for _, text := range []string{`{}`, `{"type":"null"}`} {
		r.Schema = []byte(text)
		_, err = e.Check(ctx, r)
		assert.True(t, err == nil || errors.Is(err, gone), "it may take no time at all: %v", err)
	}
	ignored, err := e.Check(t.Context(), Route{Settings: terms.Settings{Schema: []byte(`{"type":"null","typ":1}`)}})
	require.NoError(t, err)
	assert.Equal(t, []string{"#/typ"}, ignored)
}

// TestHeadAndWrap: the head before each token is reported with its position and what is wanted of it, for a wrapped
// model, too.
func TestHeadAndWrap(t *testing.T) {
	s, err := tiny(t, demo.Small()).NewSession()
	require.NoError(t, err)
	wrapped, best := 0, map[int][]int32{} // by position
	r := Route{Settings: terms.Settings{MaxTokens: 40, IgnoreEnd: true}}
	r.Want = func(w backend.Want) backend.Want { w.K, w.Hidden = max(w.K, 11), true; return w }
	r.Head = func(pos int, head *backend.Output) {
		best[pos] = append(best[pos], head.Top[0].ID)
		assert.GreaterOrEqual(t, len(head.Top), 11, "as many as it wants")
		assert.NotEmpty(t, head.Hidden)
	}
	r.Wrap = func(m draft.Model) draft.Model {
		wrapped++
		return m
	}
	for _, tok := range tokens(t, s, echo(20), r) {
		assert.Contains(t, best[tok.Pos], tok.ID, "the head before the token at %d", tok.Pos)
	}
	assert.Equal(t, 1, wrapped)
	assert.Positive(t, s.Summary().Accepted, "several heads of one call")
}

// TestPickIsBestAllowed: a greedy choice with a schema is the best allowed token, even if the remaining room forbids
// most better ones, unless there are very many of these.
func TestPickIsBestAllowed(t *testing.T) {
	racing.Spare(t)
	e := tiny(t, demo.Small())
	s := session(t, e)
	sampler, err := sample.New(terms.Sampling{})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(7, 11))
	vocab, ruledOut, many := e.model.Config().Vocab, 0, 0
	all := append([]string{`{"type":"string","pattern":"^(k|[^k].{90})$"}`}, schemas...)
	for i := range 20 * len(all) {
		route := Route{Settings: terms.Settings{Schema: []byte(all[i%len(all)]), Complete: true}}
		o := draft.Options{MaxTokens: shortest(t, e, route.Settings) + 1 + r.IntN(12), Room: 512}
		_, err := s.configureSampling(t.Context(), &o, sampler, []int32{70}, route)
		require.NoError(t, err)
		for p := o.Place.(*answerPosition); p.n < o.MaxTokens; {
			head := backend.Output{Logits: make([]float32, vocab)}
			for id := range head.Logits {
				head.Logits[id] = float32(r.NormFloat64())
				head.Top = append(head.Top, backend.Candidate{ID: int32(id), Logit: head.Logits[id]})
			}
			slices.SortFunc(head.Top, func(a, b backend.Candidate) int { return cmp.Compare(b.Logit, a.Logit) })
			mask := p.matcher.Mask(nil, p.text)
			better, want := 0, p.end
			for _, c := range head.Top {
				if p.Allows(c.ID) {
					want = c.ID
					break
				}
				if mask[c.ID>>6]>>(c.ID&63)&1 != 0 {
					better++
				}
			}
			head.Top = head.Top[:headBest]
			got := p.Pick(p.n, &head)
			require.True(t, p.Allows(got))
			switch {
			case p.closing != nil:
			case better < 60:
				require.Equal(t, want, got)
				ruledOut += min(better, 1)
			default:
				many++
			}
			if got == p.end {
				break
			}
			p = p.Behind(got).(*answerPosition)
		}
	}
	assert.Positive(t, ruledOut)
	assert.Positive(t, many)
}
