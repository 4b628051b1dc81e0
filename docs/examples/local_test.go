package examples

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

// telling is a cloud that counts the tokens that it receives.
type telling struct{ tokens int }

func (c *telling) Ask(_ context.Context, q pilotfish.Question) (pilotfish.Answer, error) {
	c.tokens += len(q.Context)
	return pilotfish.Answer{Token: 65}, nil
}

// TestLocal: a cloud receives nothing of a local answer, nor of a conversation with a local question or message; the
// receipt counts what it received. A local answer cannot be verified.
func TestLocal(t *testing.T) {
	m := demoModel(t, demo.Small())
	always, err := pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "always"})
	require.NoError(t, err)
	cloud := &telling{}
	via := pilotfish.Via(cloud, always)
	via.Serial = true
	local := pilotfish.Settings{MaxTokens: 3, Local: true}

	chat := m.NewChat(pilotfish.ChatOptions{Options: []pilotfish.Option{pilotfish.MaxTokens(3), via}})
	send := func(c *pilotfish.Chat, more ...pilotfish.Option) pilotfish.Receipt {
		t.Helper()
		before := cloud.tokens
		_, err := pilotfish.Text(c.Send(t.Context(), "who", more...))
		require.NoError(t, err)
		got := c.Stats().Receipt
		assert.Equal(t, cloud.tokens-before, got.Tokens)
		return got
	}
	assert.Positive(t, send(chat).Tokens)
	assert.Equal(t, pilotfish.Receipt{}, send(chat, local))
	assert.Equal(t, pilotfish.Receipt{}, send(chat), "the last question has it")
	all := chat.Messages()
	require.Len(t, all, 6)
	for i, m := range all {
		assert.Equal(t, i >= 2, m.Local, "question and answer: %d", i)
	}
	assert.Zero(t, send(m.NewChat(pilotfish.ChatOptions{Messages: all, Options: []pilotfish.Option{via}})).Tokens)
	open := m.NewChat(pilotfish.ChatOptions{Messages: all[:2], Options: []pilotfish.Option{via}})
	assert.Positive(t, send(open).Tokens)

	s := m.NewSession()
	_, err = pilotfish.Text(s.Generate(t.Context(), "who", via, local, pilotfish.Settings{MaxTokens: 2}))
	require.NoError(t, err)
	assert.Zero(t, s.Stats().Receipt)
	via.Verify = true
	_, err = pilotfish.Text(s.Generate(t.Context(), "who", via, local))
	assert.ErrorContains(t, err, "cannot verify")
	assert.ErrorContains(t, m.Check(via, local), "cannot verify")
}
