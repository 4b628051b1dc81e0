package chat

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
)

// TestChatLarge: with --large the answers of a conversation are those of the large model alone, and there is no
// gateway beside it.
func TestChatLarge(t *testing.T) {
	clitest.OwnFolders(t)
	small, large, _ := clitest.DemoPairFiles(t)
	lines := clitest.Question(0) + "\n" + clitest.Question(1) + "\n/temp 0.8 4\n" + clitest.Question(2) + "\n"
	_, want, _ := clitest.Chat(t, lines, "-m", large)
	_, other, _ := clitest.Chat(t, lines, "-m", small)
	assert.NotEqual(t, want, other)
	code, got, stderr := clitest.Chat(t, lines+"/stats\n", "-m", small, "--large", large)
	assert.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, want, got)
	assert.Contains(t, stderr, "left this device for it: 0 tokens")
	_, _, stderr = clitest.Chat(t, "/cloud 127.0.0.1:1\n", "-m", small, "--large", large)
	assert.Contains(t, stderr, "the large model runs here (--large)")
	code, _, stderr = clitest.Chat(t, "", "-m", small, "--large", large, "--cloud", clitest.ClosedPort)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "leave one of them out")
}
