package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// strides is a clock in which a forward call of the model takes fifty times as long as a draft.
type strides struct {
	draft.Model
	now *time.Time
}

func (s strides) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	*s.now = s.now.Add(50 * time.Millisecond)
	return s.Model.Extend(ctx, nodes)
}

// Now implements [draft.Clock].
func (s strides) Now() time.Time {
	*s.now = s.now.Add(time.Millisecond)
	return *s.now
}

func (s strides) Go(func())                               { panic("there is no cloud to ask") }
func (s strides) Wait(_ time.Time, done func() bool) bool { return done() }

// eagerly makes r draft as if drafts were nearly free.
func eagerly(r Route, small *Engine) Route {
	s := strides{now: new(time.Time)}
	r.Drafter, r.Draft.Clock = small, s
	r.Wrap = func(m draft.Model) draft.Model { return strides{m, s.now} }
	return r
}

// whole returns an answer, without what drafts may change: the times and the origins.
func whole(t *testing.T, s *Session, ids []int32, r Route) (all []Token, sum Summary) {
	t.Helper()
	for tok, err := range s.Routed(t.Context(), ids, r) {
		require.NoError(t, err)
		tok.At = 0
		all = append(all, tok)
	}
	return all, s.Summary()
}

// drafterRoutes are settings of all kinds that change which tokens follow.
func drafterRoutes(t *testing.T) map[string]terms.Settings {
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"name", "n"}, "additionalProperties": false,
		"properties": map[string]any{"name": map[string]any{"type": "string"}, "n": map[string]any{"type": "integer"}},
	})
	require.NoError(t, err)
	return map[string]terms.Settings{
		"greedy":     {},
		"drawn":      {Temperature: 0.8},
		"hot":        {Temperature: 1.5, TopP: 0.95},
		"top-k":      {Temperature: 0.8, TopK: 5},
		"min-p":      {Temperature: 0.9, MinP: 0.1},
		"penalties":  {RepeatPenalty: 1.3, FrequencyPenalty: 0.5},
		"bias":       {LogitBias: map[int32]float32{260: 4, 300: -8}},
		"schema":     {Schema: schema, Complete: true},
		"drawn JSON": {JSON: true, Temperature: 0.7, Complete: true},
		"stop":       {Stop: []string{"is", ". "}},
		"log-probs":  {LogProbs: true, Top: 3},
		"no lookup":  {Lookup: -1},
		"no end":     {IgnoreEnd: true},
		"local":      {Local: true},
		"short":      {MaxTokens: 3},
	}
}

// TestDrafterText: with drafts of the demo's small model the answers of the large one are those that it gives alone,
// token for token, with the same log-probabilities and confidences, for settings of all kinds; in one session one after
// the other, so that the small model's text changes too.
func TestDrafterText(t *testing.T) {
	racing.Spare(t)
	small, large := tiny(t, demo.Small()), tiny(t, demo.Large())
	alone, drafted := session(t, large), session(t, large)
	defer drafted.Close()
	accepted, drafts, plain := 0, 0, 0
	for name, settings := range drafterRoutes(t) {
		for n, q := range demo.Questions(demo.HeldOut)[:6] {
			ids, err := large.Chat(tokenizer.Message{Role: "user", Content: q.Text})
			require.NoError(t, err)
			settings.Seed = uint64(n)
			if settings.MaxTokens == 0 {
				settings.MaxTokens = 48
			}
			want, sum := whole(t, alone, ids, Route{Settings: settings})
			got, with := whole(t, drafted, ids, eagerly(Route{Settings: settings}, small))
			require.NoError(t, with.Err)
			edge := 0
			for i := range got {
				if got[i].Origin == string(draft.Edge) {
					edge++
				} else {
					require.Equal(t, string(draft.FromCloud), got[i].Origin)
				}
				got[i].Origin = string(draft.Edge)
			}
			require.Equal(t, want, got, "%s: %s", name, q.Text)
			require.Equal(t, sum.Text, with.Text)
			require.Equal(t, sum.Stop, with.Stop)
			require.Equal(t, sum.Shortened, with.Shortened)
			require.LessOrEqual(t, edge, with.DraftsAccepted, "a stop string can end the text before")
			require.Zero(t, with.Receipt, "nothing leaves the device")
			accepted, drafts, plain = accepted+with.DraftsAccepted, drafts+with.Drafts, plain+sum.Passes-with.Passes
		}
	}
	t.Logf("%d of %d drafts accepted, %d passes saved", accepted, drafts, plain)
	assert.Greater(t, accepted, 100)
	assert.NotZero(t, drafted.small.known, "what is measured serves the next text")
	assert.Greater(t, drafts, accepted)
	assert.Greater(t, plain, 100)
}

// TestDrafterOwn: a model that drafts for itself is always right, also under a schema.
func TestDrafterOwn(t *testing.T) {
	e := tiny(t, demo.Large())
	ids, err := e.Chat(tokenizer.Message{Role: "user", Content: demo.Questions(demo.HeldOut)[0].Text})
	require.NoError(t, err)
	for name, settings := range map[string]terms.Settings{
		"greedy": {IgnoreEnd: true}, "drawn": {IgnoreEnd: true, Temperature: 1},
		"penalties": {IgnoreEnd: true, FrequencyPenalty: 1},
		"schema":    {Schema: []byte(`{"type":"array","minItems":9,"items":{"enum":["figs","peas"]}}`), Temperature: 1},
	} {
		settings.MaxTokens, settings.Lookup = 60, -1
		_, sum := whole(t, session(t, e), ids, eagerly(Route{Settings: settings}, e))
		assert.Positive(t, sum.DraftsAccepted, name)
		assert.Equal(t, sum.Drafts, sum.DraftsAccepted, name)
		assert.Equal(t, sum.Routing.Tokens, sum.Passes+sum.DraftsAccepted+1, "%s: each token but the last", name)
	}
}

// TestDrafterOfShortContext: a drafter with a shorter context than the text drafts on from the end of the text.
func TestDrafterOfShortContext(t *testing.T) {
	e := small(t, Options{}, nil)
	for _, context := range []int{24, 40, 0} {
		drafter := small(t, Options{Context: context}, nil)
		s := session(t, e)
		r := Route{Settings: terms.Settings{MaxTokens: 30, IgnoreEnd: true, Lookup: -1}}
		want, _ := whole(t, s, echo(30), r)
		at := 0
		r.Observe = func(ev Event) {
			if p := ev.Pass; p != nil && p.Drafts > 0 {
				at = s.Summary().Tokens
			}
		}
		got, sum := whole(t, s, echo(30), eagerly(r, drafter))
		for i := range want {
			assert.Equal(t, want[i].ID, got[i].ID)
		}
		assert.NoError(t, sum.Err, "%d", context)
		assert.Greater(t, at, 10, "%d: beyond its context", context)
		assert.LessOrEqual(t, s.small.s.KVTokens(), drafter.Context())
	}
}

// TestDrafterMemory: the memory of a drafter is closed with the session, and another drafter takes its place.
func TestDrafterMemory(t *testing.T) {
	e := small(t, Options{}, nil)
	one, two := small(t, Options{}, nil), small(t, Options{}, nil)
	s := session(t, e)
	r := Route{Settings: terms.Settings{MaxTokens: 20, IgnoreEnd: true}}
	whole(t, s, echo(20), eagerly(r, one))
	first := s.small.s
	whole(t, s, echo(20), eagerly(r, one))
	assert.Same(t, first, s.small.s)
	whole(t, s, echo(20), eagerly(r, two))
	assert.NotSame(t, first, s.small.s)
	assert.True(t, first.closed.Load())
	second := s.small.s
	require.NoError(t, s.Close())
	assert.True(t, second.closed.Load())
	assert.Nil(t, second.cache)
}

// TestDrafterRefused: a model with other tokens, an own sampler, and a cloud.
func TestDrafterRefused(t *testing.T) {
	e := tiny(t, demo.Large())
	other := small(t, Options{}, nil)
	assert.ErrorContains(t, e.Fit(other), "its tokens are not those of")
	assert.NoError(t, e.Fit(tiny(t, demo.Small())))
	s := session(t, e)
	refused := func(r Route) (err error) {
		for _, err = range s.Routed(t.Context(), []int32{1}, r) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	assert.ErrorContains(t, refused(Route{Drafter: other}), "its tokens are not those of")
	pick := func(int, []int32, *backend.Output) int32 { return 1 }
	assert.ErrorContains(t, refused(Route{Drafter: e, Pick: pick}), "sampler")
	service, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer service.Close()
	assert.ErrorContains(t, refused(Route{Drafter: e, Cloud: service.Local(1)}), "both a drafter and a cloud")
}

// TestDrafterFits: a drafter is refused if the files and the full contexts of both models need more memory than is
// free.
func TestDrafterFits(t *testing.T) {
	file := demo.Small()
	open := func(context int) *Engine {
		f, err := gguf.Parse(file)
		require.NoError(t, err)
		e, err := New(f, "demo", Options{Threads: 1, Context: context})
		require.NoError(t, err)
		t.Cleanup(func() { e.Close() })
		return e
	}
	e, drafter := open(256), open(64)
	need := uint64(2*len(file)) + uint64(e.kvBytes(256+64))
	assert.NoError(t, e.fitsInto(need, drafter))
	err := e.fitsInto(need-1, drafter)
	assert.ErrorContains(t, err, "demo and demo need "+humanize.IBytes(need)+" of memory together")
	assert.ErrorContains(t, e.fitsInto(1<<20, drafter), "and 1.0 MiB are free")
}

// TestDrafterClosed: an answer goes on when its drafter is closed meanwhile.
func TestDrafterClosed(t *testing.T) {
	e := small(t, Options{}, nil)
	drafter, err := New(smallest(t, nil), "drafter", Options{Threads: 1})
	require.NoError(t, err)
	s := session(t, e)
	r := Route{Settings: terms.Settings{MaxTokens: 40, IgnoreEnd: true, Lookup: -1}}
	want, _ := whole(t, s, echo(10), r)
	n := 0
	for tok, err := range s.Routed(t.Context(), echo(10), eagerly(r, drafter)) {
		require.NoError(t, err)
		require.Equal(t, want[n].ID, tok.ID)
		if n++; n == 20 {
			require.NoError(t, drafter.Close())
		}
	}
	assert.Equal(t, 40, n)
	assert.ErrorIs(t, s.Summary().Err, ErrClosed, fmt.Sprint(s.Summary().Drafts))
}
