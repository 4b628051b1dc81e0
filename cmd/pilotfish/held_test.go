package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// heldCommands are exit codes with their command lines. Words in capitals stand for files and flags of the test. Many
// of the commands fail after they have opened some of what they need.
const heldCommands = `
0 run -m MODEL -n 2 --policy always CLOUD x
1 run -m MODEL --require-cloud STRANGE x
1 run -m OTHER --require-cloud CLOUD x
1 run -m MODEL --router NARROW CLOUD x
1 run -m MODEL --logit-bias 999999=1 x
1 run -m MODEL --tokens 999999
1 run -m MODEL --json-schema {"multipleOf":"x"} x
1 chat -m MODEL --logit-bias 999999=1
1 chat -m MODEL --load TALK
1 chat -m MODEL STRANGE
0 chat -m MODEL -n 2 CLOUD
1 chat -m MODEL --router NARROW CLOUD
1 serve -m BAD --listen LOCAL
1 serve -m MODEL --listen LOCAL --kv-folder FILE
1 serve -m BAD --listen LOCAL --kv-folder KV
1 serve -m MODEL --listen LOCAL STRANGE
1 serve -m MODEL --listen LOCAL --router NARROW CLOUD
1 cloud -m BAD --listen LOCAL
1 cloud -m MODEL --listen LOCAL --slots 1
0 cloud -m MODEL --listen LOCAL --check-config
1 cloud --upstream NOBODY --tokenizer BAD --listen LOCAL
1 cloud check NOBODY --tokenizer MODEL
0 run -m MODEL --large MODEL -n 2 x
1 chat -m MODEL --large MODEL -n 2
0 pull o/n
0 list
1 inspect BAD
0 inspect MODEL
1 logits -m MODEL --tokens 999999
1 tokenize -m BAD a
`

// TestEverythingIsGivenBack: a command closes its files, mappings and connections and ends its goroutines, also if it
// fails.
func TestEverythingIsGivenBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	clitest.OwnFolders(t)
	dir, model := t.TempDir(), clitest.TinyModel(t, "q8_0")
	address, pin, _ := clitest.StartCloud(t, "-m", model, "--log", "off")
	clitest.HubOf(t, map[string][]byte{"a-q8_0.gguf": []byte("GGUF")})
	t.Setenv("PILOTFISH_MODELS", filepath.Join(dir, "models"))
	at := "--cloud " + address + " --pin "
	words := []string{
		"MODEL", model, "OTHER", clitest.OtherTokens(t), "NARROW", clitest.NarrowRouter(t, 3, "x"),
		"CLOUD", at + pin, "STRANGE", at + clitest.OnePin(1),
		"LOCAL", "127.0.0.1:0", "NOBODY", "http://" + clitest.ClosedPort,
	}
	for word, text := range map[string]string{"BAD": "GGUF", "TALK": "{", "FILE": ""} {
		path := filepath.Join(dir, word)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		words = append(words, word, path)
	}
	for _, word := range []string{"KV"} {
		words = append(words, word, filepath.Join(dir, word))
	}
	for line := range strings.Lines(strings.TrimSpace(heldCommands)) {
		fields := strings.Fields(strings.NewReplacer(words...).Replace(line))
		t.Run(strings.TrimSpace(line), func(t *testing.T) {
			held.Same(t, func() {
				code, _, stderr := callWith(t, "hi\n/cloud "+address+" "+pin+"\nagain\n", fields[1:]...)
				assert.Equal(t, int(fields[0][0]-'0'), code, stderr)
			})
		})
	}
}
