package examples

import (
	"bytes"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

// all returns the tokens of an answer, without their times.
func all(t *testing.T, answer iter.Seq2[pilotfish.Token, error]) (tokens []pilotfish.Token) {
	t.Helper()
	for tok, err := range answer {
		require.NoError(t, err)
		tok.At = 0
		tokens = append(tokens, tok)
	}
	return tokens
}

// TestChatSaved: a chat that loads a saved chat continues it with the same tokens and bits, without computing its turns
// again; a chat with other turns does not.
func TestChatSaved(t *testing.T) {
	settings := pilotfish.Settings{MaxTokens: 12, Temperature: 1.5, Seed: 3, Top: 4} // unlikely tokens
	m := demoModel(t, demo.Small())
	first := m.NewChat(pilotfish.ChatOptions{System: "Be a fish."})
	defer first.Close()
	var file bytes.Buffer
	assert.ErrorContains(t, first.SaveKV(t.Context(), &file), "nothing has been generated")
	_ = all(t, first.Send(t.Context(), "What do you eat?", settings))
	_ = all(t, first.Send(t.Context(), "And then?", settings))
	require.NoError(t, first.SaveKV(t.Context(), &file))
	messages := first.Messages()
	want := all(t, first.Send(t.Context(), "And after that?", settings))

	other := demoModel(t, demo.Small())
	second := other.NewChat(pilotfish.ChatOptions{Messages: messages})
	defer second.Close()
	require.NoError(t, second.LoadKV(t.Context(), bytes.NewReader(file.Bytes())))
	assert.Equal(t, want, all(t, second.Send(t.Context(), "And after that?", settings)))
	assert.Equal(t, first.Stats().ReusedTokens, second.Stats().ReusedTokens)
	assert.Equal(t, first.Messages(), second.Messages())

	messages[1].Content = "What do you drink?"
	third := other.NewChat(pilotfish.ChatOptions{Messages: messages})
	defer third.Close()
	err := third.LoadKV(t.Context(), bytes.NewReader(file.Bytes()))
	require.ErrorIs(t, err, pilotfish.ErrOtherSaved)
	assert.ErrorContains(t, err, "other messages")
	_ = all(t, third.Send(t.Context(), "And after that?", settings))
	assert.Equal(t, "What do you drink?", third.Messages()[1].Content)

	err = demoModel(t, demo.Large()).NewSession().CopyKV(t.Context(), m.NewSession(), 1)
	assert.ErrorContains(t, err, "two models")
	_, err = demoModel(t, demo.Large()).SavedText(bytes.NewReader(file.Bytes()))
	require.ErrorIs(t, err, pilotfish.ErrOtherSaved)
	err = third.LoadKV(t.Context(), bytes.NewReader(file.Bytes()[:200]))
	assert.ErrorIs(t, err, pilotfish.ErrNotSaved)
}

// TestChatCopied: chats compute a common prefix once.
func TestChatCopied(t *testing.T) {
	m := demoModel(t, demo.Small())
	system := pilotfish.ChatOptions{System: "You are a fish, who eats and sleeps in the sea, and tells what it likes.",
		Options: []pilotfish.Option{pilotfish.MaxTokens(4)}}
	first, second, alone := m.NewChat(system), m.NewChat(system), m.NewChat(system)
	_ = all(t, first.Send(t.Context(), "What do you eat?"))
	require.NoError(t, second.CopyKV(t.Context(), first))
	got := all(t, second.Send(t.Context(), "How do you sleep?"))
	assert.Greater(t, second.Stats().ReusedTokens, 20)
	assert.Equal(t, all(t, alone.Send(t.Context(), "How do you sleep?")), got)
	_ = all(t, first.Send(t.Context(), "Nothing else?"))
	assert.Greater(t, first.Stats().ReusedTokens, second.Stats().ReusedTokens, "it has its whole text")
}

// TestSessionSaved: the same for a session, which returns its text.
func TestSessionSaved(t *testing.T) {
	m := demoModel(t, demo.Small())
	s, text := m.NewSession(), []int32(nil)
	for _, tok := range all(t, s.Generate(t.Context(), "In the barn", pilotfish.MaxTokens(5))) {
		text = append(text, tok.ID)
	}
	prompt, err := m.TextTokens("In the barn")
	require.NoError(t, err)
	var file bytes.Buffer
	require.NoError(t, s.SaveKV(t.Context(), &file))
	known, err := m.SavedText(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	assert.Equal(t, append(prompt, text[:4]...), known, "the last token has not been evaluated")
	other := m.NewSession()
	got, err := other.LoadKV(t.Context(), &file)
	require.NoError(t, err)
	assert.Equal(t, known, got)
	require.NoError(t, other.Close())
	_, err = other.LoadKV(t.Context(), &file)
	assert.ErrorIs(t, err, pilotfish.ErrClosed)
	for range s.Generate(t.Context(), "In the barn", pilotfish.MaxTokens(5)) {
		assert.ErrorIs(t, s.SaveKV(t.Context(), &file), pilotfish.ErrBusy)
	}
}
