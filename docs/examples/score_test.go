package examples

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

// TestScore: the tokens of a text have the same log-probabilities as when they are generated; a session that has read a
// text can continue it.
func TestScore(t *testing.T) {
	m := demoModel(t, demo.Small())
	prompt, err := m.TextTokens("Question: who")
	require.NoError(t, err)
	s := m.NewSession()
	var made []pilotfish.Token
	for token, err := range s.GenerateTokens(t.Context(), prompt, pilotfish.Settings{MaxTokens: 40, Top: 3}) {
		require.NoError(t, err)
		made = append(made, token)
	}
	text, whole := append([]int32{}, prompt...), ""
	for _, token := range made {
		text = append(text, token.ID)
	}
	pos := 0
	for token, err := range s.Score(t.Context(), text, 3) {
		require.NoError(t, err)
		require.Equal(t, []int32{int32(pos), text[pos]}, []int32{int32(token.Pos), token.ID})
		whole += token.Text
		switch {
		case pos == 0:
			assert.True(t, math.IsNaN(float64(token.LogProb)))
			assert.Nil(t, token.Top)
		case pos >= len(prompt):
			assert.Equal(t, made[pos-len(prompt)].Top, token.Top, pos)
			assert.Equal(t, made[pos-len(prompt)].LogProb, token.LogProb, pos)
		}
		pos++
	}
	assert.Equal(t, len(text), pos)
	want, err := m.Detokenize(text)
	require.NoError(t, err)
	assert.Equal(t, want, whole)
	for range s.Score(t.Context(), text, 0) {
		break // also in the middle
	}
	again, err := pilotfish.Text(s.GenerateTokens(t.Context(), prompt, pilotfish.MaxTokens(3)))
	require.NoError(t, err)
	assert.Equal(t, made[0].Text+made[1].Text+made[2].Text, again)

	for name, c := range map[string]struct {
		text []int32
		top  int
	}{"no tokens": {nil, 0}, "token 1 of the text is 9999": {[]int32{1, 9999}, 0}, "21 best": {text, 21}} {
		var last error
		for _, err := range s.Score(t.Context(), c.text, c.top) {
			last = err
		}
		assert.ErrorContains(t, last, name)
	}
}

// TestInfillTokens: a model without infill marks returns an error.
func TestInfillTokens(t *testing.T) {
	_, err := demoModel(t, demo.Small()).InfillTokens(pilotfish.Infill{Prefix: "x"})
	assert.ErrorContains(t, err, "no marks")
}
