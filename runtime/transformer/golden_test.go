package transformer_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// golden holds the expected answers of a tiny random model.
type golden struct {
	Model string
	Error struct {
		RelMax float64 `json:"rel_l2_max"`
	} `json:"error_of_llama_vs_ref"`
	Prompts []struct {
		Tokens    []int32
		Ref       []float64 `json:"ref_logits"`
		RefStd    float64   `json:"ref_std"`
		GreedyRef []int32   `json:"greedy_ref"`
		Margin    []float64 `json:"greedy_margin_ref"`
	}
}

// TestGolden compares every golden file with the float64 evaluation of its weights: the exact path within 1e-4, the
// fast one within the bound that the file states. The prompt is evaluated at once, in pieces, and token by token.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sharedtest.Shared(t, "golden"), "a-*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	if testing.Short() {
		files = files[:3]
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var g golden
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(b, &g))
			path := filepath.Join(filepath.Dir(file), g.Model)
			t.Run("exact", func(t *testing.T) {
				checkGolden(t, g, path, host.Options{Exact: true, Threads: 2}, gguf.F32, 1e-4, 0)
			})
			t.Run("fast", func(t *testing.T) {
				bar := 1.5 * g.Error.RelMax
				checkGolden(t, g, path, host.Options{Threads: 2}, gguf.F16, bar, 6*g.Error.RelMax)
				if floats(path) {
					checkGolden(t, g, path, host.Options{Threads: 1}, gguf.F32, 1e-4, 0) // nothing is rounded to 8 bits
				}
			})
		})
	}
}

// floats reports whether the weights of a golden file are multiplied with float32 activations.
func floats(path string) bool {
	for _, kind := range []string{"-f32", "-f16", "-bf16"} {
		if strings.HasSuffix(path, kind+".gguf") {
			return true
		}
	}
	return false
}

// checkGolden runs all prompts. slack is the margin, in standard deviations of the logits, below which a greedy token
// may differ from the reference. With exact, which is slow, the reference's tokens are evaluated in one pass, otherwise
// step by step.
func checkGolden(t *testing.T, g golden, path string, o host.Options, kv gguf.Type, bar, slack float64) {
	m := open(t, path, o)
	for i, p := range g.Prompts {
		pieces := []int{len(p.Tokens), 3, 1}
		switch {
		case testing.Short():
			pieces = pieces[1:2]
		case o.Exact && i != 1:
			pieces = pieces[:1]
		}
		for _, piece := range pieces {
			c, err := m.NewCache(len(p.Tokens)+len(p.GreedyRef), kv)
			require.NoError(t, err)
			out := feed(t, m, c, p.Tokens, piece)
			require.Less(t, relativeError(out.Logits, p.Ref), bar, "prompt of %d in pieces of %d", len(p.Tokens), piece)
			if o.Exact {
				require.Equal(t, p.GreedyRef[0], out.Top[0].ID)
				require.Equal(t, p.GreedyRef[1:], follow(t, m, c, p.GreedyRef[:len(p.GreedyRef)-1]))
				continue
			}
			for i, want := range p.GreedyRef {
				got := out.Top[0].ID
				if got != want {
					require.LessOrEqual(t, p.Margin[i], slack*p.RefStd, "greedy step %d", i)
					break
				}
				out = feed(t, m, c, []int32{got}, 1)
			}
		}
	}
}

// follow appends ids to the cache in one pass and returns the best token after each.
func follow(t *testing.T, m *transformer.Model, c *transformer.Cache, ids []int32) []int32 {
	t.Helper()
	rows, err := c.Extend(ids)
	require.NoError(t, err)
	want := backend.Want{K: 1}
	for i := range ids {
		want.Rows = append(want.Rows, i)
	}
	out := make([]backend.Output, len(ids))
	require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
	best := make([]int32, len(ids))
	for i, o := range out {
		best[i] = o.Top[0].ID
	}
	return best
}

// relativeError returns ‖x-ref‖ / ‖ref-mean(ref)‖.
func relativeError(x []float32, ref []float64) float64 {
	mean, diff, norm := 0.0, 0.0, 0.0
	for _, r := range ref {
		mean += r / float64(len(ref))
	}
	for i, r := range ref {
		diff += (float64(x[i]) - r) * (float64(x[i]) - r)
		norm += (r - mean) * (r - mean)
	}
	return math.Sqrt(diff / norm)
}

// open loads a model on a CPU device; both are closed with the test.
func open(t *testing.T, path string, o host.Options) *transformer.Model {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return load(t, f, o)
}

// feed appends ids to the cache, piece tokens at a time, and returns the output after the last.
func feed(t *testing.T, m *transformer.Model, c *transformer.Cache, ids []int32, piece int) backend.Output {
	t.Helper()
	out := make([]backend.Output, 1)
	for len(ids) > 0 {
		n := min(piece, len(ids))
		rows, err := c.Extend(ids[:n])
		require.NoError(t, err)
		want := backend.Want{Rows: []int{n - 1}, K: 4, Logits: true, Hidden: true}
		require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
		ids = ids[n:]
	}
	return out[0]
}

// TestTrainedModels compares the three small trained models with the greedy ids of the original float32 program.
func TestTrainedModels(t *testing.T) {
	names := []string{"stories260k", "stories-weak", "babyllama361"}
	if testing.Short() {
		names = names[:1]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			var cases []struct {
				Prompt []int32 `json:"prompt_ids"`
				Greedy []int32 `json:"greedy_ids"`
				Gap    float64 `json:"min_top1_top2_gap"`
			}
			b, err := os.ReadFile(sharedtest.Shared(t, "data", "models", name+".golden.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(b, &cases))
			for _, o := range []host.Options{{Exact: true, Threads: 1}, {Threads: 2}} {
				m := open(t, sharedtest.Shared(t, "data", "models", name+"-qwen2-f32.gguf"), o)
				if testing.Short() {
					cases = cases[:1]
				}
				for _, k := range cases {
					c, err := m.NewCache(len(k.Prompt)+len(k.Greedy), gguf.F32)
					require.NoError(t, err)
					out := feed(t, m, c, k.Prompt, len(k.Prompt))
					if o.Exact {
						require.Equal(t, k.Greedy[0], out.Top[0].ID, "smallest gap %v", k.Gap)
						found := follow(t, m, c, k.Greedy[:len(k.Greedy)-1])
						require.Equal(t, k.Greedy[1:], found, "smallest gap %v", k.Gap)
						continue
					}
					for i, want := range k.Greedy {
						require.Equal(t, want, out.Top[0].ID, "step %d, smallest gap %v", i, k.Gap)
						out = feed(t, m, c, []int32{want}, 1)
					}
				}
			}
		})
	}
}
