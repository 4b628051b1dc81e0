package demo

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWorld: the shipped questions contain all facts of the world, and isHeldOut returns their splits.
func TestWorld(t *testing.T) {
	w := theWorld()
	assert.GreaterOrEqual(t, len(w.facts), 600, "of 800")
	assert.Len(t, w.places, 24)
	assert.Len(t, w.foods, 24)
	require.Len(t, w.forms, 3)
	for _, f := range w.forms {
		assert.Regexp(t, `\{name\}`, f.question)
		assert.NotRegexp(t, `[Pp]laces:|[Ff]oods:`, f.question)
		assert.Regexp(t, `\{place\}.*\{food\}.*\{name\}`, f.answer)
	}
	known := map[string]fact{}
	for _, f := range w.facts {
		known[f.name] = f
	}
	for split, all := range parsed() {
		for _, q := range all {
			require.Equal(t, fact{q.Name, q.Place, q.Food}, known[q.Name], "one fact for each name")
			require.Equal(t, split == HeldOut, isHeldOut(q.Text), q.Text)
		}
	}
}

// TestDraw: drawn questions look like the shipped ones, and none is in another set.
func TestDraw(t *testing.T) {
	const n = 2000
	all := Draw(n, 1)
	require.Len(t, all, n)
	assert.Equal(t, all, Draw(n, 1))
	assert.NotEqual(t, all[:50], Draw(50, 2))
	assert.Equal(t, all[:50], Draw(50, 1), "a smaller draw is a prefix of a larger one")
	seen := map[string]bool{}
	for _, split := range parsed() {
		for _, q := range split {
			seen[q.Text] = true
		}
	}
	shape := regexp.MustCompile(`^[A-Z][^{}]*[?.] Places: (\w+, ){3}\w+\. Foods: (\w+, ){3}\w+\.$`)
	first := 0
	for _, q := range all {
		require.False(t, seen[q.Text], q.Text)
		seen[q.Text] = true
		require.Regexp(t, shape, q.Text)
		require.Contains(t, q.Text, q.Name)
		require.False(t, isHeldOut(q.Text))
		require.Equal(t, Train, q.Split)
		require.True(t, q.Correct(q.Answer), q.Answer)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(q.Places))), offered)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(q.Foods))), offered)
		if q.Places[0] == q.Place {
			first++
		}
	}
	assert.InDelta(t, n/offered, first, 120, "the place of the right word is uniform")
}
