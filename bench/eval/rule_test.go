package eval

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestRule: of an answer only the token after the words of its conclusion is asked for.
func TestRule(t *testing.T) {
	words, err := opened(t, demo.Small()).Tokenizer()
	require.NoError(t, err)
	const prompt = 7
	text := "No answer, but: the answer is figs. "
	taken := &answerBuilder{prompt: prompt}
	taken.a.Tokens = words.Encode(text, false)
	r := rule{taken, words}
	var asked []string
	for i := range len(taken.a.Tokens) + 1 {
		_, escalate, path := r.Decide(41, prompt+i, nil)
		assert.EqualValues(t, 41, path)
		if escalate {
			asked = append(asked, words.Decode(taken.a.Tokens[:i]))
		}
	}
	assert.Equal(t, []string{"No answer, but: the answer is"}, asked)
	assert.Equal(t, backend.Want{K: 1, Hidden: true}, r.Want(backend.Want{Hidden: true}))
}

// TestRuleAnswers: answers without a conclusion are those of the small model. None of their tokens are guesses, which
// would be decided about before the answerBuilder has them.
func TestRuleAnswers(t *testing.T) {
	o := demoOptions(t, 3, Run{Policy: router.Never}, Run{Policy: Rule})
	route, err := (&questionDecoder{evaluation: &evaluation{Options: o}}).newRoute(Run{Policy: Rule}, nil)
	require.NoError(t, err)
	assert.Equal(t, -1, route.Lookup)
	require.NoError(t, o.Run(t.Context()))
	for _, q := range o.Set.Questions {
		alone, _ := o.Log.Answer(q.ID, "never")
		ruled, ok := o.Log.Answer(q.ID, "rule")
		require.True(t, ok)
		require.NoError(t, ruled.checkConsistency(Names(o.Runs)))
		ruled.Run = alone.Run
		assert.Equal(t, without(alone), without(ruled))
	}
}
