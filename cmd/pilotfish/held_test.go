package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestEverythingIsGivenBack: a command closes its files, mappings and connections and ends its goroutines, also one
// that fails after it has opened some of them.
func TestEverythingIsGivenBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	clitest.OwnFolders(t)
	dir, m := t.TempDir(), clitest.TinyModel(t, "q8_0")
	name := func(file string) string { return filepath.Join(dir, file) }
	for file, text := range map[string]string{
		"bad.gguf": "GGUF", "talk.json": "{", "one.jsonl": `{"question":"a","answer":"b"}` + "\n", "bad.jsonl": "{",
		"file": "",
	} {
		require.NoError(t, os.WriteFile(name(file), []byte(text), 0o600))
	}
	narrow, other := clitest.NarrowRouter(t, 3, "x"), clitest.OtherTokens(t)
	address, pin, _ := clitest.StartCloud(t, "-m", m, "--log", "off")
	cloud := "--cloud " + address + " --pin "
	clitest.HubOf(t, map[string][]byte{"a-q8_0.gguf": []byte("GGUF")})
	t.Setenv("PILOTFISH_MODELS", name("models"))
	files := map[string]string{
		"MODEL": m, "BAD": name("bad.gguf"), "TALK": name("talk.json"), "FILE": name("file"), "KV": name("kv"),
		"ONE": name("one.jsonl"), "OUT": name("out.jsonl"), "BADLOG": name("bad.jsonl"), "TRACES": name("traces"),
		"T2": name("t2"), "R": name("router.gguf"), "MISSING": name("missing"),
		"PAGE": name("page.html"), "LOGS": name("logs"),
	}
	pair := "-m " + m + " --large " + m
	for line, want := range map[string]int{
		"run -m MODEL -n 2 --policy always " + cloud + pin + " x":                                                     cli.ExitDone,
		"run -m MODEL -n 2 --qlog LOGS " + cloud + pin + " x":                                                         cli.ExitDone,
		"run -m MODEL -n 2 --qlog FILE " + cloud + pin + " x":                                                         cli.ExitUsage,
		"run -m MODEL --require-cloud " + cloud + clitest.OnePin(1) + " x":                                            cli.ExitFailed,
		"run -m " + other + " --require-cloud " + cloud + pin + " x":                                                  cli.ExitFailed,
		"run -m MODEL --router " + narrow + " " + cloud + pin + " x":                                                  cli.ExitFailed,
		"run -m MODEL --logit-bias 999999=1 x":                                                                        cli.ExitUsage,
		"run -m MODEL --tokens 999999":                                                                                cli.ExitFailed,
		`run -m MODEL --json-schema {"multipleOf":"x"} x`:                                                             cli.ExitFailed,
		"chat -m MODEL --logit-bias 999999=1":                                                                         cli.ExitUsage,
		"chat -m MODEL --load TALK":                                                                                   cli.ExitFailed,
		"chat -m MODEL " + cloud + clitest.OnePin(1):                                                                  cli.ExitFailed,
		"chat -m MODEL -n 2 " + cloud + pin:                                                                           cli.ExitDone,
		"serve -m BAD --listen 127.0.0.1:0":                                                                           cli.ExitFailed,
		"serve -m MODEL --listen 127.0.0.1:0 --limit max-prompt=999999":                                               cli.ExitUsage,
		"serve -m MODEL --listen 127.0.0.1:0 --kv-folder FILE":                                                        cli.ExitFailed,
		"serve -m BAD --listen 127.0.0.1:0 --kv-folder KV":                                                            cli.ExitFailed,
		"serve -m MODEL --listen 127.0.0.1:0 " + cloud + clitest.OnePin(1):                                            cli.ExitFailed,
		"serve -m MODEL --listen 127.0.0.1:0 --router " + narrow + " " + cloud + pin:                                  cli.ExitFailed,
		"chat -m MODEL --router " + narrow + " " + cloud + pin:                                                        cli.ExitFailed,
		"cloud -m BAD --listen 127.0.0.1:0":                                                                           cli.ExitFailed,
		"cloud -m MODEL --listen 127.0.0.1:0 --slots 1":                                                               cli.ExitFailed,
		"cloud -m MODEL --listen 127.0.0.1:0 --qlog FILE":                                                             cli.ExitUsage,
		"cloud -m MODEL --listen 127.0.0.1:0 --check-config":                                                          cli.ExitDone,
		"cloud --upstream http://" + clitest.ClosedPort + " --engine wait=1ms --tokenizer MODEL --listen 127.0.0.1:0": cli.ExitFailed,
		"cloud check http://" + clitest.ClosedPort + " --tokenizer MODEL":                                             cli.ExitFailed,
		"eval ONE " + pair + " --questions 1 -n 2 -o OUT":                                                             cli.ExitDone,
		"eval ONE " + pair + " --router " + narrow:                                                                    cli.ExitFailed,
		"eval ONE -m MODEL --large " + other:                                                                          cli.ExitFailed,
		"eval ONE -m MODEL --large BAD":                                                                               cli.ExitFailed,
		"eval ONE -m MODEL " + cloud + clitest.OnePin(1):                                                              cli.ExitFailed,
		"router collect --data ONE " + pair + " -n 2 -o TRACES":                                                       cli.ExitDone,
		"router collect --data ONE " + pair + " -n 2 -o FILE":                                                         cli.ExitFailed,
		"router collect --data ONE -m MODEL --large BAD -o T2":                                                        cli.ExitFailed,
		"router calibrate --data ONE " + pair + " --router " + narrow + " -o R":                                       cli.ExitFailed,
		"router show " + narrow + " FILE":                                                                             cli.ExitFailed,
		"router train FILE -o R":                                                                                      cli.ExitFailed,
		"bench engine -m MODEL -p 2 -n 1 --repeat 1 -t 1":                                                             cli.ExitDone,
		"bench engine -m BAD":                                                                                         cli.ExitFailed,
		"bench routing --workload ONE " + pair + " --modes local,serial -n 2":                                         cli.ExitDone,
		"bench routing --workload ONE " + pair + " --router " + narrow:                                                cli.ExitFailed,
		"bench routing --workload ONE -m MODEL --large " + other:                                                      cli.ExitFailed,
		"bench gateway -m MODEL " + cloud + clitest.OnePin(1):                                                         cli.ExitFailed,
		"bench compare ONE MISSING":                                                                                   cli.ExitFailed,
		"bench report BADLOG -o PAGE":                                                                                 cli.ExitFailed,
		"pull o/n":                                                                                                    cli.ExitDone,
		"list":                                                                                                        cli.ExitDone,
		"inspect BAD":                                                                                                 cli.ExitFailed,
		"inspect MODEL":                                                                                               cli.ExitDone,
		"logits -m MODEL --tokens 999999":                                                                             cli.ExitFailed,
		"tokenize -m BAD a":                                                                                           cli.ExitFailed,
	} {
		args := strings.Fields(line)
		for i, arg := range args {
			if path, ok := files[arg]; ok {
				args[i] = path
			}
		}
		t.Run(line, func(t *testing.T) {
			held.Same(t, func() {
				code, _, stderr := callWith(t, "hi\n/cloud "+address+" "+pin+"\nagain\n", args...)
				assert.Equal(t, want, code, stderr)
				t.Log(code, stderr)
			})
		})
	}
}
