package schema

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
)

// exactly checks that Least is the distance to the end: 0 at the end, at most one less after any byte, and one less
// after some byte, with which Shortest begins.
func exactly(t *testing.T, g *grammar.Grammar, s *grammar.State) {
	t.Helper()
	least, text := g.Least(s), g.Shortest(s)
	require.Equal(t, s.Done(), least == 0)
	require.Len(t, text, least)
	for b := range 256 {
		if next := g.Next(s, byte(b)); next != nil {
			require.GreaterOrEqual(t, g.Least(next), least-1, "%q", b)
		}
	}
	whole := g.Next(s, text...)
	require.NotNil(t, whole, "%q", text)
	require.True(t, whole.Done(), "%q", text)
}

// TestShortest: at each place in random texts of random schemas, the shortest completion is valid and no shorter one
// exists.
func TestShortest(t *testing.T) {
	racing.Spare(t)
	m := &maker{Rand: rand.New(rand.NewPCG(7, 8))}
	for range 300 {
		_, raw := m.whole(3)
		g := compiled(t, raw, false)
		for range 3 {
			s := g.Start()
			for range 60 {
				exactly(t, g, s)
				var can []byte
				for b := range 256 {
					if g.Next(s, byte(b)) != nil {
						can = append(can, byte(b))
					}
				}
				if len(can) == 0 {
					break
				}
				s = g.Next(s, can[m.IntN(len(can))])
			}
		}
	}
}
