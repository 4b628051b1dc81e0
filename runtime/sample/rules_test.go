package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// ruled is a random case of rules.
type ruled struct {
	o      terms.Sampling
	r      terms.Settings
	at     Place
	logits []float32
	pos    int
}

func newRuled(r *rand.Rand) (c ruled) {
	c.o, c.logits, c.pos = anyOptions(r), randomLogits(r, 50, 2), r.IntN(5000)
	c.r = terms.Settings{MinP: float64(r.IntN(3)) * 0.1, RepeatPenalty: float64(r.IntN(4)) * 0.6}
	c.r.PresencePenalty, c.r.FrequencyPenalty = float64(r.IntN(3))-1, float64(r.IntN(3))-0.5
	c.r.LogitBias, c.at.Counts = map[int32]float32{}, map[int32]int{}
	for range r.IntN(8) {
		c.r.LogitBias[r.Int32N(60)] = float32(r.IntN(200) - 100)
		c.at.Recent = append(c.at.Recent, r.Int32N(50))
		c.at.Counts[r.Int32N(50)]++
	}
	if r.IntN(2) == 0 {
		c.at.Mask = make([]uint64, 1)
		for c.at.Mask[0]&(1<<50-1) == 0 { // beyond the vocabulary there may be any bits
			c.at.Mask[0] = r.Uint64() & r.Uint64()
		}
	}
	return c
}

// changed returns the logits after the rules, by definition; -Inf for tokens that are not allowed.
func (c *ruled) changed() []float32 {
	out := slices.Clone(c.logits)
	for i := range out {
		id, l := int32(i), float64(out[i])
		if c.at.Mask != nil && c.at.Mask[0]>>i&1 == 0 {
			out[i] = float32(math.Inf(-1))
			continue
		}
		l += float64(c.r.LogitBias[id])
		if p := c.r.RepeatPenalty; p != 0 && slices.Contains(c.at.Recent, id) {
			l = map[bool]float64{true: l / p, false: l * p}[l > 0]
		}
		if c.at.Counts[id] > 0 {
			l -= c.r.PresencePenalty
		}
		out[i] = float32(l - float64(c.at.Counts[id])*c.r.FrequencyPenalty)
	}
	return out
}

// TestPickByIsTheDefinition: of the allowed tokens, with logits changed by the rules, PickBy takes the best one, or the
// one with the largest logit/T + noise among those that temperature, top-k, top-p and min-p keep. It changes no head.
func TestPickByIsTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	cut := 0
	for range 3000 {
		c := newRuled(r)
		s, err := New(c.o)
		require.NoError(t, err)
		require.NoError(t, c.r.Validate())
		logits := c.changed()
		p, largest := shares(logits, c.o), 0.0
		for _, v := range p {
			largest = max(largest, v)
		}
		best, value := int32(-1), math.Inf(-1)
		for i, l := range logits {
			v := float64(l)
			if !c.o.Greedy() {
				if v = v/c.o.Temperature + Noise(c.o.Seed, c.pos, int32(i)); p[i] == 0 {
					continue
				}
				if p[i] < c.r.MinP*largest*(1-1e-9) {
					cut++
					continue
				}
			}
			if v > value {
				best, value = int32(i), v
			}
		}
		out, all := output(c.logits, 5), &backend.Output{Top: output(c.logits, 50).Top}
		require.Equal(t, best, s.PickBy(c.pos, out, &c.r, c.at), "%+v", c)
		require.Equal(t, best, s.PickBy(c.pos, all, &c.r, c.at), "the candidates suffice: %+v", c)
		require.Equal(t, output(c.logits, 5), out, "unchanged")
		require.Equal(t, output(c.logits, 50).Top, all.Top, "unchanged")
	}
	assert.Positive(t, cut)
}

// BenchmarkPickBy chooses from a vocabulary of Qwen's size by rules.
func BenchmarkPickBy(b *testing.B) {
	out := output(randomLogits(rand.New(rand.NewPCG(7, 8)), 151936, 2.5), 16)
	mask := make([]uint64, 151936/64)
	for i := range mask {
		mask[i] = math.MaxUint64
	}
	for name, o := range map[string]terms.Sampling{
		"greedy": {}, "all": {Temperature: 1},
		"top-p": {Temperature: 0.7, TopP: 0.9}, "top-k": {Temperature: 0.7, TopK: 40},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := New(o)
			require.NoError(b, err)
			at := Place{Mask: mask, Counts: map[int32]int{5: 1, 7: 2}, Recent: []int32{5, 7, 7}}
			for pos := 0; b.Loop(); pos++ {
				s.PickBy(pos, out, &terms.Settings{PresencePenalty: 1, RepeatPenalty: 1.1}, at)
			}
		})
	}
}

// TestPickByAtLimits: a choice among no tokens, of tokens beyond the mask, and of more tokens than are sorted at a
// time.
func TestPickByAtLimits(t *testing.T) {
	s, err := New(terms.Sampling{Temperature: 1})
	require.NoError(t, err)
	assert.EqualValues(t, -1,
		s.PickBy(1, output(make([]float32, 50), 5), &terms.Settings{}, Place{Mask: make([]uint64, 1)}))
	beyond := &backend.Output{Top: []backend.Candidate{{ID: 150, Logit: 9}, {ID: 64, Logit: 8}, {ID: 3, Logit: 1}}}
	assert.EqualValues(t, 3, s.PickBy(1, beyond, &terms.Settings{}, Place{Mask: []uint64{math.MaxUint64}}),
		"tokens beyond the mask are not allowed")
	many := make([]float32, 5000)
	for i := range many {
		many[i] = float32(i % 4999)
	}
	s, err = New(terms.Sampling{Temperature: 1e-3, TopK: 600})
	require.NoError(t, err)
	assert.EqualValues(t, 4998, s.PickBy(1, &backend.Output{Logits: many}, &terms.Settings{}, Place{}))
}
