package train

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// settings returns the settings of a set of the given size.
func settings(prompts, width int) trace.Settings {
	return trace.Settings{
		Tap: router.TapFinalNorm, Width: width, Small: trace.Model{Fingerprint: "small", Name: "tiny"},
		Large: trace.Model{Fingerprint: "large", Name: "big"}, Data: "d", Prompts: prompts, Reference: "given",
		MaxTokens: 1000, Labels: []string{"disagreement", "citer"},
	}
}

// store writes a set of texts with a number of positions each. Its hidden states are noise. One direction in them and
// the margin determine the labels of the first rule; the second rule labels every other position.
func store(t testing.TB, s trace.Settings, positions int, seed uint64) *trace.Set {
	dir := filepath.Join(held.TempDir(t), "traces")
	w, err := trace.Create(dir, s)
	require.NoError(t, err)
	defer w.Close()
	r := rand.New(rand.NewPCG(seed, 0))
	h := make([]float32, s.Width)
	for range s.Prompts {
		x := trace.Text{Prompt: trace.Prompt{Tokens: 3}}
		for pos := range positions {
			z := 2.0
			for j := range h {
				h[j] = float32(r.NormFloat64())
				if j < 4 {
					z += float64(h[j])
				}
			}
			p := trace.Position{Pos: int32(x.Tokens + pos), Margin: r.Float32(), Entropy: 3 * r.Float32()}
			z += float64(p.Margin)
			p.Labels[0] = trace.Escalate
			if r.Float64() < sigmoid(z) {
				p.Labels[0] = trace.Keep
			}
			if p.Labels[0] == trace.Keep && pos%3 == 0 {
				p.Labels[0] = trace.Spoil
			}
			p.Labels[1] = trace.Verdict(pos % 2 * int(p.Labels[0]))
			x.Positions = append(x.Positions, p)
			x.Hidden, err = trace.AppendHalves(x.Hidden, h)
			require.NoError(t, err)
		}
		require.NoError(t, w.Append(x))
	}
	set, err := trace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { set.Close() })
	return set
}

// TestTraces: the positions of all sets in sequence, each unchanged, with the labels of one rule.
func TestTraces(t *testing.T) {
	one := store(t, settings(60, 8), 5, 1)
	more := settings(70, 8)
	more.Reference = "routed"
	two := store(t, more, 4, 2)
	other := settings(9, 8)
	other.Data = "e"
	three := store(t, other, 2, 3)
	folders := []Folder{{"one", one}, {"two", two}, {"three", three}}
	for rule, name := range []string{"disagreement", "citer"} {
		src, err := NewTraces(folders, name)
		require.NoError(t, err)
		require.Equal(t, 60*5+70*4+9*2, src.Len())
		assert.Equal(t, 8, src.Width())
		at := 0
		got, want := make([]float32, 8), make([]float32, 8)
		for n, set := range []*trace.Set{one, two, three} {
			for i := range set.Len() {
				p := set.At(i)
				prompt := int(p.Prompt)
				if n == 2 {
					prompt += 70
				}
				require.Equal(t, prompt, src.Prompt(at), "the first two sets have the same prompts")
				require.Equal(t, n, src.Folder(at))
				require.Equal(t, Label(p.Labels[rule]), src.Label(at))
				margin, certainty := src.Head(at)
				require.Equal(t, p.Margin, margin)
				require.InDelta(t, math.Exp(-float64(p.Entropy)), certainty, 1e-6)
				src.Hidden(got, at)
				set.Hidden(want, i)
				require.Equal(t, want, got)
				at++
			}
		}
	}
	src, err := NewTraces([]Folder{{"two", two}, {"one", one}, {"three", three}}, "disagreement")
	require.NoError(t, err)
	assert.Equal(t, 70, src.Prompt(70*4+60*5), "those of other data come after all, whichever set has more")
	src, err = NewTraces(folders[:1], "disagreement")
	require.NoError(t, err)
	r := mustTrain(t, src, Options{Epochs: 5})
	assert.Equal(t, 54, r.Prompts)
	assert.Equal(t, 54*5, r.Positions)
}

// TestTracesRefused: sets that do not fit together are refused with the reason.
func TestTracesRefused(t *testing.T) {
	one := store(t, settings(2, 8), 2, 1)
	for want, change := range map[string]func(*trace.Settings){
		`two is of the small model "another", one of "tiny"`: func(s *trace.Settings) {
			s.Small = trace.Model{Fingerprint: "x", Name: "another"}
		},
		"two has hidden states of 9 numbers, one of 8":    func(s *trace.Settings) { s.Width = 9 },
		`two has hidden states of the tap point "elsewhe`: func(s *trace.Settings) { s.Tap = "elsewhere" },
		`two is of the large model "other", one of "big"`: func(s *trace.Settings) {
			s.Large = trace.Model{Fingerprint: "y", Name: "other"}
		},
		`two has no labels "disagreement": it has citer, abc`: func(s *trace.Settings) {
			s.Labels = []string{"citer", "abc"}
		},
	} {
		s := settings(2, 8)
		change(&s)
		two := store(t, s, 2, 2)
		_, err := NewTraces([]Folder{{"one", one}, {"two", two}}, "disagreement")
		assert.ErrorContains(t, err, want)
	}
	s := settings(2, 8)
	s.Tap = "elsewhere"
	_, err := NewTraces([]Folder{{"two", store(t, s, 2, 1)}}, "disagreement")
	assert.ErrorContains(t, err, "tap point")
	s = settings(2, 8)
	s.Large = trace.Model{Name: "behind a gateway"}
	gateway := Folder{"two", store(t, s, 2, 1)}
	for _, folders := range [][]Folder{{{"one", one}, gateway}, {gateway, {"one", one}}} {
		_, err = NewTraces(folders, "disagreement")
		assert.NoError(t, err, "a gateway does not name its large model")
	}
	s.Large = trace.Model{Fingerprint: "y", Name: "other"}
	other := Folder{"three", store(t, s, 2, 1)}
	_, err = NewTraces([]Folder{gateway, {"one", one}, other}, "disagreement")
	assert.ErrorContains(t, err, `three is of the large model "other", one of "big"`, "with a gateway first, too")
	_, err = NewTraces([]Folder{{"one", one}, gateway, other}, "disagreement")
	assert.ErrorContains(t, err, `three is of the large model "other", one of "big"`)
}
