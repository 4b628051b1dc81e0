package cloud

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
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

// TestCloudUpstream: a gateway for engines answers with their tokens, sends their key, and logs their features, and at
// the end their counts.
func TestCloudUpstream(t *testing.T) {
	clitest.OwnFolders(t)
	edge := clitest.TinyModel(t, "q8_0")
	e := &fakeengine.Engine{Dialect: "llama", Key: "the key of the engine"}
	url := clitest.EngineOf(t, edge, e)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("the key of the engine\n"), 0o600))
	cloud := clitest.StartedCloud(t, "--listen", "127.0.0.1:0", "--upstream", url, "--upstream",
		"http://"+clitest.ClosedPort, "--tokenizer", edge, "--engine", "key-file="+key)
	assert.Contains(t, cloud.Said, "engine "+clitest.ClosedPort+" is not there yet: ")
	assert.Contains(t, cloud.Said, "llama b0-fake serves fake, with contexts of 511 tokens, 256 probabilities, "+
		"audits: none")
	assert.Contains(t, cloud.Said, "an engine is in service", "in the log of the gateway")
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

	code, _, stderr := clitest.Call(t, append([]string{"run", "--temp", "0.5"}, args...)...)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "add --top-k with 1 to 256", "reported once, not at each token")
	for _, most := range []string{"20", "256"} {
		_, _, s, _ = clitest.RoutedTokens(t, append(args, "--temp", "0.5", "--top-k", most, "--seed", "3")...)
		assert.Equal(t, 12, s.CloudTokens, most)
	}
	code, _, stderr = clitest.Call(t, append([]string{"run", "--temp", "0.5", "--top-k", "257"}, args...)...)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--temp 0.5: the large model of this gateway reports its 256 most probable tokens only")
	cloud.Stop()
}

// TestCloudCheck: each check prints a line or an object; an unusable engine gives exit status 1.
func TestCloudCheck(t *testing.T) {
	racing.Spare(t)
	model := clitest.TinyModel(t, "q8_0")
	e := &fakeengine.Engine{Dialect: "sglang"}
	url := clitest.EngineOf(t, model, e)
	code, stdout, stderr := clitest.Call(t, "cloud", "check", url, "--tokenizer", model)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "audit                pass  ")
	code, stdout, _ = clitest.Call(t, "cloud", "check", url, "--tokenizer", model, "--json")
	require.Equal(t, cli.ExitDone, code)
	all := clitest.Lines[engine.UpstreamResult](t, stdout)
	require.Len(t, all, 8)
	assert.Equal(t, "start", all[0].Check)

	code, stdout, stderr = clitest.Call(t, "cloud", "check", url, "--tokenizer", model, "--engine", "model=x")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stdout, "start                fail")
	assert.Contains(t, stderr, "cannot be used behind the gateway")
	code, _, stderr = clitest.Call(t, "cloud", "check", url)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--tokenizer")
	code, _, _ = clitest.Call(t, "cloud", "check")
	assert.Equal(t, cli.ExitUsage, code)
}

// TestCheckFlags: the key and the model name are used for the checked engine.
func TestCheckFlags(t *testing.T) {
	racing.Spare(t)
	model := clitest.TinyModel(t, "q8_0")
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("sesame"), 0o600))
	e := &fakeengine.Engine{Dialect: "vllm", Key: "sesame", Name: "large"}
	url := clitest.EngineOf(t, model, e)
	args := func(more ...string) []string {
		return append([]string{"cloud", "check", url, "--tokenizer", model, "--engine", "key-file=" + key}, more...)
	}
	code, stdout, _ := clitest.Call(t, args("--engine", "model=large")...)
	assert.Equal(t, cli.ExitDone, code, stdout)
	_, stdout, _ = clitest.Call(t, args("--engine", "model=small")...)
	assert.Contains(t, stdout, `it serves no model "small", but "large"`)
}

// TestBenchRoutingUpstream: the modes over the link use the engine; other modes refuse the flag.
func TestBenchRoutingUpstream(t *testing.T) {
	racing.Spare(t)
	model := clitest.TinyModel(t, "q8_0")
	questions := filepath.Join(t.TempDir(), "q.jsonl")
	require.NoError(t, os.WriteFile(questions, []byte(`{"question":"what?"}`), 0o600))
	e := &fakeengine.Engine{Dialect: "llama"}
	url := clitest.EngineOf(t, model, e)
	args := []string{"bench", "routing", "--workload", questions, "-m", model, "--large", model, "--questions", "1",
		"--rtt", "1ms", "--cloud-ms", "0", "--policy", "always", "--deadline", "off", "--upstream", url}
	code, _, stderr := clitest.Call(t, append(args, "--modes", "serial", "--tokenizer", model)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Greater(t, len(e.Calls("/completion")), 5)
	for modes, want := range map[string]string{
		"local --tokenizer " + model: "--upstream has no effect with --modes local",
		"serial":                     "needs --tokenizer FILE",
	} {
		code, _, stderr = clitest.Call(t, append(args, strings.Fields("--modes "+modes)...)...)
		assert.Equal(t, cli.ExitUsage, code)
		assert.Contains(t, stderr, want)
	}
	i := slices.Index(args, "--upstream")
	code, _, stderr = clitest.Call(t, append(slices.Clone(args[:i]), "--tokenizer", model)...)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--tokenizer is for engines: it needs --upstream URL")
	for _, flag := range []string{"--engine model=x", "--engine key-file=/nowhere"} {
		code, stdout, stderr := clitest.Call(t,
			append(args, strings.Fields("--modes serial --tokenizer "+model+" "+flag)...)...)
		assert.Equal(t, cli.ExitFailed, code, fmt.Sprint(flag, stdout, stderr))
	}
}
