package main

import (
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/stretchr/testify/assert"
)

// TestFaults: errors in a command line have clear messages, without those of the parsing libraries.
func TestFaults(t *testing.T) {
	for line, want := range map[string]string{
		"run -m x --temp warm hi":           `--temp "warm" is not a number`,
		"run -m x --temp 1e999 hi":          `--temp "1e999" is out of range`,
		"run -m x --seed -1 hi":             `--seed "-1" is not a whole number of 0 or more`,
		"chat -m x -c 1.5":                  `-c, --ctx "1.5" is not a whole number`,
		"chat -m x -c 99999999999999999999": `-c, --ctx "99999999999999999999" is out of range`,
		"run -m x --json=maybe hi":          `--json "maybe" is neither true nor false`,
		"cloud -m x --limit idle=30":        `--limit: idle "30" is not a time such as 500ms, 30s or 5m`,
		"chat -m x --deadline 3": `--deadline "3": give a time such as 800ms or 2s, or off to wait as ` +
			`long as it takes`,
		"run -m":             "-m needs a value",
		"run --temp":         "--temp needs a value",
		"chat -z":            "unknown flag: -z in -z",
		"chat --zzz":         "unknown flag: --zzz",
		"run --polcy x":      "unknown flag: --polcy; did you mean --policy?",
		"run --modle=x":      "unknown flag: --modle; did you mean --mode or --model?",
		"serve --temprature": "unknown flag: --temprature; did you mean --temp?",
		"help nosuch":        `there is no command "nosuch"`,
		"help verison":       `there is no command "verison"; did you mean version?`,
		"help bench nosuch":  `pilotfish bench has no command "nosuch"`,
		"help run nosuch":    `pilotfish run has no command "nosuch"`,
		"tokenize":           "-m is missing: give -m FILE (the model: a GGUF file, ",
		"logits --tokens 1":  "-m is missing: give -m FILE (",
		"list x":             `list takes no arguments besides flags: leave out "x"`,
		"serve x":            `serve takes no arguments besides flags: leave out "x"`,
		"bench x":            `bench has no command "x": choose one of capacity, compare, engine, gateway, `,
		"inspect":            "inspect needs a model: a GGUF file",
		"inspect a b": `inspect takes one argument, a model: a GGUF file, or the name of a ` +
			`downloaded model: leave out "b"`,
		"bench compare": "bench compare needs a file",
		"rm":            "rm needs the models to remove",
		"bench synth":   "bench synth needs the name of the file to write",
		"router x":      `router has no command "x"`,
	} {
		code, stdout, stderr := clitest.Call(t, strings.Fields(line)...)
		assert.Equal(t, cli.ExitUsage, code, line)
		assert.Empty(t, stdout, line)
		assert.Contains(t, stderr, "pilotfish: "+want, line)
		assert.NotContains(t, stderr, "strconv", line)
	}
	code, _, stderr := clitest.Call(t, "run", "-m", "/nowhere/m.gguf", "hi")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Regexp(t, `^pilotfish: --model: \S+ /nowhere/m.gguf: no such file or directory: give the path of a GGUF `+
		`file, or the name of a `+
		`downloaded model \("pilotfish list" shows them\)\n$`, stderr)
	path := configuredBy(t, "model: ''\n")
	code, _, stderr = clitest.Call(t, "chat")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr,
		"--model is empty: give a value, or leave it out (the model: a GGUF file, or the name of a downloaded model, "+
			"OWNER/NAME:QUANT [PILOTFISH_MODEL]) (--model is from "+path+":1)\n")
	t.Setenv("PILOTFISH_TEMP", "warm")
	_, _, stderr = clitest.Call(t, "config")
	assert.Contains(t, stderr, `the environment variable PILOTFISH_TEMP: --temp "warm" is not a number`)
}
