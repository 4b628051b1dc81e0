package models

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPullOffer: on a terminal, run offers to fetch a missing model; rm asks before it removes.
func TestPullOffer(t *testing.T) {
	clitest.OwnFolders(t)
	dir := clitest.ModelFolderWith(t, nil)
	clitest.HubOf(t, map[string][]byte{"m-Q8_0.gguf": demo.Small()})
	k := clitest.AtTerminal(t, "run", "-n", "2", "-m", "o/n:Q8_0", "hello")
	k.Expect("There is no model o/n:Q8_0 in " + dir + ". Fetch it? [y/N] ")
	k.Press("n\n")
	assert.Equal(t, cli.ExitFailed, k.Ends())
	assert.Contains(t, string(k.All), `"pilotfish pull o/n:Q8_0"`)
	k = clitest.AtTerminal(t, "run", "-n", "2", "-m", "o/n:Q8_0", "hello")
	k.Expect("[y/N] ")
	k.Press("yes\n")
	assert.Equal(t, cli.ExitDone, k.Ends(), "%s", k.All)
	assert.Contains(t, string(k.All), "cut off after 2 tokens")
	path := filepath.Join(dir, "o", "n", "m-Q8_0.gguf")
	assert.FileExists(t, path)
	for answer, there := range map[string]bool{"\n": true, "n\n": true, "\x04": true} {
		k = clitest.AtTerminal(t, "rm", "o/n")
		k.Expect("Remove o/n:m-Q8_0.gguf (")
		k.Expect("[y/N] ")
		k.Press(answer)
		assert.Equal(t, cli.ExitDone, k.Ends())
		_, err := os.Stat(path)
		assert.Equal(t, there, err == nil, answer)
	}
	other := filepath.Join(dir, "o", "other", "x.gguf")
	require.NoError(t, os.MkdirAll(filepath.Dir(other), 0o700))
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	k = clitest.AtTerminal(t, "rm", "o/other", "o/n")
	for _, answer := range []string{"n\n", "Y\n"} {
		k.Expect("[y/N] ")
		k.Press(answer)
	}
	assert.Equal(t, cli.ExitDone, k.Ends())
	assert.NoFileExists(t, path)
	assert.FileExists(t, other)
	k = clitest.AtTerminal(t, "rm", "o/n")
	assert.Equal(t, cli.ExitFailed, k.Ends())
}
