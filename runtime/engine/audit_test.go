package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// choices returns the choices of a model along a text, from a position on, by position.
func choices(t *testing.T, e *engine.Engine, text []int32, from int) map[int]int32 {
	t.Helper()
	s := session(t, e)
	all := map[int]int32{}
	require.NoError(t, s.Read(t.Context(), text, from, 0, func(seen engine.Seen) error {
		all[seen.Pos] = seen.Choice
		return nil
	}))
	return all
}

// audited holds the counts and positions of a text's live audit.
type audited struct {
	answered, needless, audited, missed int
	edge                                []int // positions that were compared
}

// offline computes the same from the final text and its origins, with the choices of both models along it.
func offline(t *testing.T, edge, large *engine.Engine, text []int32, origins []draft.Origin) (a audited) {
	t.Helper()
	from := len(text) - len(origins)
	small, big := choices(t, edge, text, from), choices(t, large, text, from)
	last := 0
	for i, o := range origins {
		if o == draft.FromCloud {
			last = from + i
		}
	}
	for i, o := range origins {
		pos := from + i
		switch {
		case o == draft.FromCloud:
			a.answered++
			require.Equal(t, big[pos], text[pos])
			if small[pos] == text[pos] {
				a.needless++
			}
		case pos < last:
			a.audited, a.edge = a.audited+1, append(a.edge, pos)
			if big[pos] != text[pos] {
				a.missed++
			}
		}
	}
	return a
}

// demoEngine returns an engine of a built-in model.
func demoEngine(t *testing.T, b []byte) *engine.Engine {
	f, err := gguf.Parse(b)
	require.NoError(t, err)
	e, err := engine.New(f, "demo", engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// auditLive returns the live counts of an answer, and checks them against those of its final text.
func auditLive(
	t *testing.T, edge, large *engine.Engine, cloud *engine.Service, prompt []int32, o router.Options, mode draft.Mode,
) (live audited) {
	r, err := router.New(o)
	require.NoError(t, err)
	s := session(t, edge)
	far, end, err := cloud.Session(t.Context())
	require.NoError(t, err)
	defer end()
	var origins []draft.Origin
	text := append([]int32(nil), prompt...)
	for _, err := range s.Routed(t.Context(), prompt, engine.Route{
		Settings: terms.Settings{MaxTokens: 40}, Router: r, Cloud: &delayed{Cloud: far},
		Draft: draft.Options{Mode: mode, Deadline: -1, Audit: true, Branches: 3},
		Observe: func(e engine.Event) {
			if k := e.Token; k != nil {
				text, origins = append(text, k.ID), append(origins, k.Origin)
			}
			if q := e.Escalation; q != nil && q.Audited > 0 {
				for pos := q.AuditedFrom; pos < q.AuditedTo; pos++ {
					if origins[pos-len(prompt)] == draft.Edge {
						live.edge = append(live.edge, pos)
					}
				}
			}
		},
	}) {
		require.NoError(t, err)
	}
	sum := s.Summary().Routing
	live.answered, live.needless, live.audited, live.missed = sum.Answered, sum.Needless, sum.Audited, sum.Missed
	want := offline(t, edge, large, text, origins)
	assert.Equal(t, want, live, "%+v, mode %v", o, mode)
	return live
}

// TestAuditAgrees: the live counts of missed and needless escalations equal those of a comparison of the final text
// with the choices of both models, with random models and with trained ones, serial and pipelined.
func TestAuditAgrees(t *testing.T) {
	racing.Spare(t)
	var total audited
	check := func(
		edge, large *engine.Engine, cloud *engine.Service, prompt []int32, o router.Options, mode draft.Mode,
	) {
		live := auditLive(t, edge, large, cloud, prompt, o, mode)
		total.needless, total.missed = total.needless+live.needless, total.missed+live.missed
		total.answered, total.audited = total.answered+live.answered, total.audited+live.audited
	}
	small, big, service := pair(t)
	trained, teacher := demoEngine(t, demo.Small()), demoEngine(t, demo.Large())
	taught, err := teacher.Serve(engine.ServeOptions{})
	require.NoError(t, err)
	defer taught.Close()
	for _, mode := range []draft.Mode{draft.Serial, draft.Pipelined} {
		for seed := range uint64(4) {
			o := router.Options{Policy: router.Random, Threshold: new(0.2), Seed: seed}
			check(small, big, service, []int32{3, 1, 4, int32(seed)}, o, mode)
			ids, err := trained.Chat(tokenizer.Message{Role: "user", Content: demo.Questions(demo.HeldOut)[seed].Text})
			require.NoError(t, err)
			check(trained, teacher, taught, ids, o, mode)
			check(trained, teacher, taught, ids, router.Options{Policy: router.Margin, Threshold: new(0.5)}, mode)
		}
	}
	t.Logf("%d of %d answers needless, %d of %d tokens missed", total.needless, total.answered, total.missed,
		total.audited)
	assert.Positive(t, total.needless)
	assert.Less(t, total.needless, total.answered)
	assert.Positive(t, total.missed)
	assert.Less(t, total.missed, total.audited)
}

// TestRouterOfAnotherWidth: a router for another width is an error before decoding starts, and the session stays
// usable.
func TestRouterOfAnotherWidth(t *testing.T) {
	edge, _, cloud := pair(t)
	net, err := router.NewNet([]router.Layer{{In: 3, Out: 1, Weight: make([]float32, 3), Bias: []float32{0}}}, false)
	require.NoError(t, err)
	s := session(t, edge)
	r, err := router.New(router.Options{Policy: router.Learned, Net: net})
	require.NoError(t, err)
	assert.ErrorContains(t, edge.Fits(r), "width 3")
	for _, err := range s.Routed(t.Context(), []int32{1, 2}, engine.Route{Router: r, Cloud: cloud.Local(1)}) {
		require.ErrorContains(t, err, "width 3, those of the model are")
	}
	assert.Zero(t, s.KVTokens())
	for _, err := range s.Generate(t.Context(), []int32{1, 2}, terms.Settings{MaxTokens: 2}) {
		require.NoError(t, err)
	}
}
