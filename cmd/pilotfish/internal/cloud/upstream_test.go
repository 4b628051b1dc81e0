package cloud

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
)

// best returns the most probable token of a fake engine after a context.
func best(e *fakeengine.Engine, context []int32) (id int32) {
	all := fakeengine.Table(e.Vocabulary, 1)(context)
	for i, p := range all {
		if p > all[id] {
			id = int32(i)
		}
	}
	return id
}

// TestCloudUpstream: a gateway for engines answers with their tokens.
func TestCloudUpstream(t *testing.T) {
	clitest.OwnFolders(t)
	edge := clitest.TinyModel(t, "q8_0")
	e := &fakeengine.Engine{Dialect: "llama", Key: "the key of the engine"}
	url := clitest.EngineOf(t, edge, e)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("the key of the engine\n"), 0o600))
	cloud := clitest.StartedCloud(t, "--listen", "127.0.0.1:0", "--upstream", url,
		"--tokenizer", edge, "--engine", "key-file="+key)
	args := []string{"-m", edge, "--cloud", cloud.Address, "--pin", cloud.Pin, "--policy", "always", "--deadline",
		"off", "--tokens", "5,6,7", "-n", "12"}
	ids, origins, s, _ := clitest.RoutedTokens(t, args...)
	want := []int32{5, 6, 7}
	for range 12 {
		want = append(want, best(e, want))
	}
	assert.Equal(t, want[3:], ids)
	assert.NotContains(t, origins, "edge")
	assert.Equal(t, "none", s.Audit)
	assert.NotEmpty(t, e.Calls("/completion"))
	cloud.Stop()
}
