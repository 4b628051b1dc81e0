package serve

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestServeLarge: with --large the answers, and the name of the model, are those of the large model alone, and nothing
// leaves the device.
func TestServeLarge(t *testing.T) {
	clitest.OwnFolders(t)
	small, large := clitest.DemoFile("small.gguf"), clitest.DemoFile("large.gguf")
	both, alone := clitest.StartServe(t, "-m", small, "--large", large), clitest.StartServe(t, "-m", large)
	for n := range 4 {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":60,"seed":3,"temperature":%v}`,
			clitest.Question(n), n%2)
		got, want := both.Answer(t, askChat, body), alone.Answer(t, askChat, body)
		assert.Equal(t, want.Choices[0].Message.Content, got.Choices[0].Message.Content)
		assert.NotEmpty(t, got.Choices[0].Message.Content)
		assert.Equal(t, clitest.Receipt{}, got.Own.Receipt)
	}
	_, models := alone.Ask(t, "/v1/models", "")
	_, same := both.Ask(t, "/v1/models", "")
	assert.Contains(t, models, "large")
	assert.Contains(t, same, "large")
	code, _, stderr := clitest.Call(t, "serve", "-m", small, "--large", large, "--cloud", clitest.ClosedPort)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "leave one of them out")
}
