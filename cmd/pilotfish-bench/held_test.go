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
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// heldCommands are exit codes with their command lines. Words in capitals stand for files and flags of the test. Many
// of the commands fail after they have opened some of what they need.
const heldCommands = `
0 eval ONE -m MODEL --large MODEL --questions 1 -n 2 -o OUT
1 eval ONE -m MODEL --large MODEL --questions 1 -n 3 -o OUT
1 eval ONE -m MODEL --large MODEL --router NARROW
1 eval ONE -m MODEL --large OTHER
1 eval ONE -m MODEL --large BAD
1 eval ONE -m MODEL STRANGE
0 eval ONE -m MODEL CLOUD --questions 1 -n 2
0 routing --questions 1 --modes serial,pipelined-2 --rtt 0 --edge-tps 0 --cloud-ms 0
0 router collect --data ONE -m MODEL --large MODEL -n 2 -o TRACES
1 router collect --data ONE -m MODEL --large MODEL -n 3 -o TRACES
1 router collect --data ONE -m MODEL --large MODEL -n 2 -o BAD
1 router collect --data ONE -m MODEL --large BAD -o MISSING
1 router calibrate --data ONE -m MODEL --large MODEL --router NARROW -o MISSING
1 router show NARROW FILE
1 router train FILE -o MISSING
0 engine -m MODEL -p 2 -n 1 --repeat 1 -t 1
1 engine -m BAD
0 routing --workload ONE -m MODEL --large MODEL --modes local,serial -n 2
1 routing --workload ONE -m MODEL --large MODEL --router NARROW
1 routing --workload ONE -m MODEL --large OTHER
0 gateway --devices 1 --seconds 0.1
0 capacity -m MODEL -p 40 -n 2 --devices 1 --answers 1
0 link --tokens 8 --questions 5
1 compare ONE MISSING
1 report TALK -o MISSING
`

// TestEverythingIsGivenBack: a command closes its files, mappings and connections and ends its goroutines, also if it
// fails.
func TestEverythingIsGivenBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	clitest.OwnFolders(t)
	dir, model := t.TempDir(), clitest.TinyModel(t, "q8_0")
	address, pin := clitest.StartGateway(t, model, engine.Options{})
	at := "--cloud " + address + " --pin "
	words := []string{
		"MODEL", model, "OTHER", clitest.OtherTokens(t), "NARROW", clitest.NarrowRouter(t, 3, "x"),
		"CLOUD", at + pin, "STRANGE", at + clitest.OnePin(1),
	}
	for word, text := range map[string]string{
		"BAD": "GGUF", "TALK": "{", "ONE": `{"question":"a","answer":"b"}` + "\n", "FILE": "",
	} {
		path := filepath.Join(dir, word)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		words = append(words, word, path)
	}
	for _, word := range []string{"OUT", "TRACES", "MISSING"} {
		words = append(words, word, filepath.Join(dir, word))
	}
	for line := range strings.Lines(strings.TrimSpace(heldCommands)) {
		fields := strings.Fields(strings.NewReplacer(words...).Replace(line))
		t.Run(strings.TrimSpace(line), func(t *testing.T) {
			held.Same(t, func() {
				code, _, stderr := clitest.Call(t, fields[1:]...)
				assert.Equal(t, int(fields[0][0]-'0'), code, stderr)
			})
		})
	}
}
