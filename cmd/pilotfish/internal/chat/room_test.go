package chat

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
)

// TestChatRoomForAnswer: the turns that are kept leave room for the question and for an answer: for a quarter of the
// context, or for the most tokens of an answer if that is less. No more turns are dropped than that needs.
func TestChatRoomForAnswer(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	const context = 160
	m, err := pilotfish.Open(small, pilotfish.Options{Context: context})
	require.NoError(t, err)
	defer m.Close()
	for most, answer := range map[int]int{0: context / 4, 3: 3, 100: context / 4} {
		f := &chatFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
		f.answer.MaxTokens = most
		c := newConversation(&cli.App{Stdout: io.Discard, Stderr: io.Discard, Env: os.Getenv}, f, m, pilotfish.Route{})
		messages := []pilotfish.Message{{Role: "system", Content: "be brief"}}
		for i := range 12 {
			messages = append(messages, pilotfish.Message{Role: "user", Content: fmt.Sprint("again ", i)},
				pilotfish.Message{Role: "assistant", Content: "yes"})
		}
		c.begin(messages)
		question := pilotfish.Message{Role: "user", Content: clitest.Question(12)}
		require.NoError(t, c.makeRoom(question.Content))
		kept := c.chat.Messages()
		require.Less(t, len(kept), len(messages))
		with, err := c.tokens(append(kept, question)...)
		require.NoError(t, err)
		assert.LessOrEqual(t, with+answer, context, most)
		dropped, err := c.tokens(c.dropped[len(c.dropped)-2:]...)
		require.NoError(t, err)
		assert.Greater(t, with+answer+dropped, context, "the last turn that was dropped did not fit")
		c.close()
	}
}

// TestChatTotals: each number of an answer is in the total of its name.
func TestChatTotals(t *testing.T) {
	var errs bytes.Buffer
	c := &conversation{a: &cli.App{Stderr: &errs}}
	s := pilotfish.Stats{Tokens: 1000, CloudTokens: 20, Timeouts: 3}
	s.Asks, s.BytesUp, s.BytesDown, s.Receipt.Bytes = 400, 5000, 6000, 7000
	c.count(s)
	c.count(s)
	assert.Equal(t, chatTotal{answers: 2, tokens: 2000, cloud: 40, timeouts: 6, asks: 800, up: 10000, down: 12000,
		sent: 14000}, c.total)
}

// TestChatRetryLocal: a question that was to stay on this device stays there when it is asked again, whatever /local
// says by then; and /local on keeps one that was not.
func TestChatRetryLocal(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	m, err := pilotfish.Open(small, pilotfish.Options{})
	require.NoError(t, err)
	defer m.Close()
	for _, c := range []struct{ asked, now, want bool }{
		{false, false, false}, {true, false, true}, {false, true, true}, {true, true, true},
	} {
		f := &chatFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
		a := &cli.App{Stdout: io.Discard, Stderr: io.Discard, Env: os.Getenv}
		talk := newConversation(a, f, m, pilotfish.Route{})
		require.NoError(t, talk.ask(t.Context(), clitest.Question(0), c.asked))
		talk.local = c.now
		require.NoError(t, talk.retry(t.Context(), ""))
		messages := talk.chat.Messages()
		require.Len(t, messages, 2)
		assert.Equal(t, c.want, messages[0].Local, c)
		talk.close()
	}
}
