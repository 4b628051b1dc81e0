package examples

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
)

// thinker opens a model that has marks for thoughts.
func thinker(t *testing.T) *pilotfish.Model {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	spec := synth.Tiny(recipe, 1)
	spec.Thinks = true
	var file bytes.Buffer
	require.NoError(t, spec.Write(&file, nil))
	m, err := pilotfish.Load(file.Bytes(), "thinks.gguf", pilotfish.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// script makes a model generate a text.
type script []int32

func (s script) Pick(h pilotfish.Head) int32 { return s[min(len(h.Answer), len(s)-1)] }

// says returns the option with which a model generates a text and ends.
func says(t *testing.T, m *pilotfish.Model, text string) pilotfish.Option {
	t.Helper()
	ids, err := m.Tokenize(text+"<|im_end|>", true)
	require.NoError(t, err)
	return pilotfish.SampleBy(script(ids))
}

// TestThoughts: the tokens of a thought can be told from those of the answer, no stop string ends a thought, and
// nothing of it stays in the conversation.
func TestThoughts(t *testing.T) {
	m := thinker(t)
	thinks, err := m.Thinks(nil)
	require.NoError(t, err)
	assert.True(t, thinks)
	chat := m.NewChat(pilotfish.ChatOptions{})
	kinds := map[string]string{}
	count := 0
	for tok, err := range chat.Send(t.Context(), "Who?", says(t, m, "<think>\nhm, who.\n</think>\n\nI am. who"),
		pilotfish.Settings{Stop: []string{"who"}}) {
		require.NoError(t, err)
		if kinds[tok.Kind] += tok.Text; tok.Kind != pilotfish.KindAnswer {
			count++
		}
	}
	assert.Equal(t, map[string]string{pilotfish.KindMark: "<think>\n</think>\n\n",
		pilotfish.KindThought: "hm, who.\n", pilotfish.KindAnswer: "I am. "}, kinds)
	s := chat.Stats()
	assert.Equal(t, "stop", s.Stop)
	assert.Equal(t, "I am. ", s.Answer())
	assert.Equal(t, "<think>\nhm, who.\n</think>\n\nI am. ", s.Text)
	assert.Equal(t, count, s.Thought, "tokens of the thought")
	assert.Equal(t, []pilotfish.Message{{Role: "user", Content: "Who?"}, {Role: "assistant", Content: "I am. "}},
		chat.Messages())

	text, err := pilotfish.Text(chat.Send(t.Context(), "And?", says(t, m, "<think>a</think>b")))
	require.NoError(t, err)
	assert.Equal(t, "b", text)
	want, err := m.ChatTokens([]pilotfish.Message{{Role: "user", Content: "Who?"},
		{Role: "assistant", Content: "I am. "}, {Role: "user", Content: "And?"}}, nil)
	require.NoError(t, err)
	s = chat.Stats()
	assert.Equal(t, len(want), s.PromptTokens)
	first, err := m.ChatTokens([]pilotfish.Message{{Role: "user", Content: "Who?"}}, nil)
	require.NoError(t, err)
	assert.Equal(t, len(first), s.ReusedTokens, "up to where the first thought was")

	text, err = pilotfish.Text(chat.Send(t.Context(), "Cut?", says(t, m, "<think>\nhm"), pilotfish.MaxTokens(3)))
	require.NoError(t, err)
	assert.Empty(t, text)
	assert.Equal(t, "length", chat.Stats().Stop)
	assert.Empty(t, chat.Messages()[5].Content)

	var saved bytes.Buffer
	require.NoError(t, chat.SaveKV(t.Context(), &saved))
	same := m.NewChat(pilotfish.ChatOptions{Messages: chat.Messages()})
	require.NoError(t, same.LoadKV(t.Context(), bytes.NewReader(saved.Bytes())))
	other := m.NewChat(pilotfish.ChatOptions{Messages: chat.Messages()[2:]})
	assert.ErrorIs(t, other.LoadKV(t.Context(), &saved), pilotfish.ErrOtherSaved)
}

// TestSameTokens: the tokens of an answer stay the same in the conversation, however the model has cut its text.
func TestSameTokens(t *testing.T) {
	m := thinker(t)
	var cut script
	for _, letter := range "is the sea " {
		ids, err := m.Tokenize(string(letter), false)
		require.NoError(t, err)
		cut = append(cut, ids...)
	}
	ids, err := m.Tokenize("is the sea ", false)
	require.NoError(t, err)
	require.Less(t, len(ids), len(cut))
	chat := m.NewChat(pilotfish.ChatOptions{})
	_, err = pilotfish.Text(chat.Send(t.Context(), "Who?", pilotfish.SampleBy(cut), pilotfish.MaxTokens(len(cut))))
	require.NoError(t, err)
	before := chat.Stats().PromptTokens
	_, err = pilotfish.Text(chat.Send(t.Context(), "And?", pilotfish.MaxTokens(1)))
	require.NoError(t, err)
	assert.Equal(t, before+len(cut)-1, chat.Stats().ReusedTokens, "all that was evaluated: the last token was not")
}

// TestNoThoughts: without thinking the template begins the answer after an empty thought, and marks in the answer are
// text.
func TestNoThoughts(t *testing.T) {
	m := thinker(t)
	chat := m.NewChat(pilotfish.ChatOptions{Template: []pilotfish.TemplateValue{pilotfish.Thinking(false)}})
	for i, question := range []string{"Who?", "And?"} {
		var kinds string
		for tok, err := range chat.Send(t.Context(), question, says(t, m, "I am. <think>no</think>")) {
			require.NoError(t, err)
			kinds += string(tok.Kind)
		}
		assert.Empty(t, kinds)
		assert.Zero(t, chat.Stats().Thought)
		assert.Equal(t, "I am. <think>no</think>", chat.Messages()[2*i+1].Content)
	}
	ids, err := m.ChatTokens([]pilotfish.Message{{Role: "user", Content: "x"}}, nil, pilotfish.Thinking(false))
	require.NoError(t, err)
	text, err := m.Detokenize(ids)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(text, "assistant\n<think>\n\n</think>\n\n"), text)
	thinks, err := m.Thinks(ids)
	require.NoError(t, err)
	assert.False(t, thinks)
}
