package pilotfish

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

// TestChatAside: while a chat generates an answer, other goroutines may look at it, and one that asks gets an error at
// once.
func TestChatAside(t *testing.T) {
	m, err := Load(demo.Small(), "demo.gguf", Options{Context: 512})
	require.NoError(t, err)
	defer m.Close()
	chat := m.NewChat(ChatOptions{System: "Be brief."})
	over := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				messages := chat.Messages()
				assert.Equal(t, 1, len(messages)%2, "a question comes with its answer")
				assert.LessOrEqual(t, chat.Stats().Tokens, 12)
			}
		})
	}
	for range 3 {
		for _, err := range chat.Send(t.Context(), "What is a pilot fish?", MaxTokens(12)) {
			require.NoError(t, err)
			_, err = Text(chat.Send(t.Context(), "And who?"))
			require.ErrorIs(t, err, ErrBusy)
		}
	}
	close(over)
	others.Wait()
	assert.Len(t, chat.Messages(), 7)
}
