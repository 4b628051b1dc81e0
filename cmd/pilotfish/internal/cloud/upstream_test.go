package cloud

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
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

// TestCloudBuiltIn: a gateway with a model of its own says what it has room for. The common beginning of the texts of
// two devices is computed once, unless a flag or a private token keeps them apart; the answers are the same.
func TestCloudBuiltIn(t *testing.T) {
	clitest.OwnFolders(t)
	m, file := clitest.TinyModel(t, "q8_0"), filepath.Join(t.TempDir(), "tokens")
	e, err := engine.Open(m, engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	do := func(word string, args ...string) (ids []int32, said string) {
		require.NoError(t, os.WriteFile(file, []byte("lab:"+clitest.SecretA+" "+word+"\n"), 0o600))
		c := clitest.StartedCloud(t, append([]string{"-m", m, "--listen", "127.0.0.1:0", "--admin", "off",
			"--ctx", "64",
			"--slots", "200", "--kv", "f32", "--token-file", file}, args...)...)
		assert.Contains(t, c.Said, "\nmemory for 200 tokens of all devices together, that is for 3 devices with a "+
			"full "+
			"context of 64 tokens: up to 400 KiB\na question waits for others by steps of at most ")
		pin, err := netproto.ParseDigest(c.Pin)
		require.NoError(t, err)
		for i := range int32(2) { // each stays connected until both have asked
			r, err := e.Dial(t.Context(), c.Address, engine.DialOptions{Pin: pin, Secret: clitest.SecretA})
			require.NoError(t, err)
			defer r.Close()
			cloud, end, err := r.Session(t.Context())
			require.NoError(t, err)
			defer end()
			a, err := cloud.Ask(t.Context(), engine.CloudQuestion{Context: []int32{1, 2, 3, 4, 5, 6, 7, 8, i}})
			require.NoError(t, err)
			ids = append(ids, a.Token)
		}
		c.Stop()
		assert.Equal(t, cli.ExitDone, c.Code, "it was stopped without a signal")
		return ids, c.Errs.String()
	}
	want, said := do("")
	assert.Regexp(t, `msg=computed tokens=10 .* shared=8\n`, said)
	for _, c := range [][]string{{"", "--share-prefixes=false"}, {"private"}} {
		ids, said := do(c[0], c[1:]...)
		assert.Equal(t, want, ids)
		assert.Regexp(t, `msg=computed tokens=18 .* shared=0\n`, said, c)
	}
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
	for _, wrong := range [][]string{{"--temp", "0.5"}, {"--temp", "0.5", "--top-k", "257"}} {
		code, _, stderr := clitest.Call(t, slices.Concat([]string{"run"}, args, wrong)...)
		assert.Equal(t, cli.ExitUsage, code)
		assert.Contains(t, stderr, "reports its 256 most probable tokens only: add --top-k with 1 to 256")
	}
	_, _, s, _ = clitest.RoutedTokens(t, append(args, "--temp", "0.5", "--top-k", "256", "--seed", "3")...)
	assert.Equal(t, 12, s.Cloud)
	cloud.Stop()
}
