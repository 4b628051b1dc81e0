package calibrate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

func opened(t testing.TB, b []byte) *engine.Engine {
	t.Helper()
	f, err := gguf.Parse(b)
	require.NoError(t, err)
	e, err := engine.New(f, "demo", engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// anyJudge is a judge beside the demo's large model.
func anyJudge(t testing.TB, large *engine.Engine) *router.Judge {
	j, err := synth.Judge(large.Width())
	require.NoError(t, err)
	return j
}

// demoPair is the demo's pair, with its router.
func demoPair(t testing.TB) (Pair, *router.Net) {
	t.Helper()
	edge, large := opened(t, demo.Small()), opened(t, demo.Large())
	service, err := large.Serve(engine.ServeOptions{Judge: anyJudge(t, large)})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := service.Local(0).Ask(context.Background(), engine.CloudQuestion{Context: []int32{1}})
		assert.NoError(t, err) // the service has then handled what came before
		assert.LessOrEqual(t, service.Stats().Sessions, 1, "sessions that nothing ended")
		service.Close()
	})
	f, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	net, err := router.ReadNet(f)
	require.NoError(t, err)
	return Pair{Edge: edge, Far: service, MaxTokens: 48}, net
}

// demoPrompts are chats of the training split.
func demoPrompts(t testing.TB, e *engine.Engine, n int) (all []Prompt) {
	t.Helper()
	questions := demo.Questions(demo.Train)
	if more := n - len(questions); more > 0 {
		questions = append(questions, demo.Draw(more, 1)...)
	}
	for _, q := range questions[:n] {
		ids, err := e.Chat(tokenizer.Message{Role: "user", Content: q.Text})
		require.NoError(t, err)
		all = append(all, Prompt{IDs: ids})
	}
	return all
}
