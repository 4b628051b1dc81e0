package examples

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

// demoModel opens one of the demo's models until the test ends.
func demoModel(t *testing.T, file []byte) *pilotfish.Model {
	t.Helper()
	m, err := pilotfish.Load(file, "demo.gguf", pilotfish.Options{Context: 512})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// TestText: the text of an answer, and what there is of it before an error.
func TestText(t *testing.T) {
	errCut := errors.New("cut")
	answer := func(err error) iter.Seq2[pilotfish.Token, error] {
		return func(yield func(pilotfish.Token, error) bool) {
			_ = yield(pilotfish.Token{Text: "a "}, nil) && yield(pilotfish.Token{}, nil) &&
				yield(pilotfish.Token{Text: "text"}, nil) && err != nil && yield(pilotfish.Token{Text: "no"}, err)
		}
	}
	got, err := pilotfish.Text(answer(nil))
	assert.NoError(t, err)
	assert.Equal(t, "a text", got)
	got, err = pilotfish.Text(answer(errCut))
	assert.ErrorIs(t, err, errCut)
	assert.Equal(t, "a text", got)
}

// picker takes the best token, and router asks for none; both tell how many tokens they are shown.
type picker struct{ shown func(n int) }

func (p picker) Pick(h pilotfish.Head) int32 {
	p.shown(len(h.Best))
	return h.Best[0].ID
}

func (p picker) Decide(h pilotfish.Head) pilotfish.Decision {
	p.shown(len(h.Best))
	return pilotfish.Decision{Confidence: 1}
}

// TestBest: samplers, routers and watchers are shown as many tokens as are asked for, and two otherwise.
func TestBest(t *testing.T) {
	m := demoModel(t, demo.Small())
	service, err := demoModel(t, demo.Large()).Serve(pilotfish.ServeOptions{Tokens: 1024})
	require.NoError(t, err)
	defer service.Close()
	for _, best := range []int{0, 2, 17} {
		for who, option := range map[string]func(p picker) []pilotfish.Option{
			"sampler": func(p picker) []pilotfish.Option {
				return []pilotfish.Option{pilotfish.Settings{Best: best, MaxTokens: 3, Sampler: p}}
			},
			"router": func(p picker) []pilotfish.Option {
				return []pilotfish.Option{pilotfish.Settings{Best: best, MaxTokens: 3},
					pilotfish.Route{Cloud: service, Router: p, Serial: true}}
			},
			"watcher": func(p picker) []pilotfish.Option {
				return []pilotfish.Option{pilotfish.Settings{Best: best, MaxTokens: 3},
					pilotfish.WatchHeads(func(h pilotfish.Head) { p.shown(len(h.Best)) })}
			},
		} {
			least, calls := 1000, 0
			p := picker{func(n int) { least, calls = min(least, n), calls+1 }}
			_, err := pilotfish.Text(m.NewSession().Generate(context.Background(), "In the barn", option(p)...))
			require.NoError(t, err)
			assert.Positive(t, calls, who)
			assert.GreaterOrEqual(t, least, max(best, 2), who)
		}
	}
}
