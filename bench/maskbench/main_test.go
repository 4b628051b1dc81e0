package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
)

// model has a vocabulary of bytes and pieces of words.
const model = "../demo/small.gguf"

// files writes schemas with their values to a folder.
func files(t *testing.T, all map[string]string) (folder string) {
	folder = t.TempDir()
	for name, text := range all {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return folder
}

// TestRun: schemas and values are counted by what the grammar does with them. Only the first fault of a schema counts
// as its reason.
func TestRun(t *testing.T) {
	folder := files(t, map[string]string{
		"passes.json": `{"schema":{"type":"integer","x":1},
			"tests":[{"valid":true,"data":12},{"valid":true,"data":7},{"valid":false,"data":"x"}]}`,
		"refuses.json": `{"schema":{"type":"string"},
			"tests":[{"valid":true,"data":"a"},{"valid":true,"data":[5]},{"valid":false,"data":"b"}]}`,
		"lets.json":  `{"schema":{"type":"string"},"tests":[{"valid":false,"data":"b"},{"valid":false,"data":"c"}]}`,
		"bad-1.json": `{"schema":{"type":"object","properties":{"a1":{"type":"nonsense"}}}}`,
		"bad-2.json": `{"schema":{"type":"object","properties":{"b":{"type":"other"}}}}`,
	})
	var out bytes.Buffer
	require.NoError(t, runBenchmark(&out, model, folder, 0, 1, true))
	text := out.String()
	for _, want := range []string{
		"schemas           5\npass              1 (20.0%)\nrefused           2\nwith ignored keys 1\n",
		"valid values      4, 3 accepted\ninvalid values    4, 3 let through\nmasks  ",
		"refuses.json: a valid value is refused: test 1\n", "lets.json: an invalid value is let through: test 0\n",
		"refused: type: … is no type: null", "   >>> [5]\n", "\ncompiling         5; ms: mean ",
		"\nlargest grammar   0.",
	} {
		assert.Contains(t, text, want)
	}
	_, reasons, _ := strings.Cut(text, "why schemas do not pass:\n")
	assert.Regexp(t, `^      2  refused: type: .*\n      1  a valid value is refused\n`+
		`      1  an invalid value is let through\n$`, reasons)
	assert.Equal(t, 4, strings.Count(text, ".json: "), "each schema that does not pass, once")

	out.Reset()
	require.NoError(t, runBenchmark(&out, model, folder, 3, 1, false))
	assert.Contains(t, out.String(), "schemas           3\n")
	assert.NotContains(t, out.String(), ".json")
	drawn := map[string]bool{}
	for seed := range uint64(9) {
		out.Reset()
		require.NoError(t, runBenchmark(&out, model, folder, 1, seed, true))
		drawn[regexp.MustCompile(`.*\.json`).FindString(out.String())] = true
	}
	assert.Greater(t, len(drawn), 1, "drawn at random")
}

// TestRunRefuses: errors name the folder, the model, or the file.
func TestRunRefuses(t *testing.T) {
	var out bytes.Buffer
	empty := t.TempDir()
	assert.ErrorContains(t, runBenchmark(&out, model, empty, 0, 1, false), empty+": no files *.json")
	good := files(t, map[string]string{"a.json": "{}"})
	assert.ErrorContains(t, runBenchmark(&out, "none.gguf", good, 0, 1, false), "none.gguf")
	for _, text := range []string{"[", `{"schema":{},"tests":[{"valid":true}]}`} {
		folder := files(t, map[string]string{"a.json": text})
		assert.ErrorContains(t, runBenchmark(&out, model, folder, 0, 1, false), "a.json: ")
	}
}

// TestCommand: flags reach the run, and the exit code tells a wrong usage from a failure.
func TestCommand(t *testing.T) {
	all := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all[name+".json"] = `{"schema":{"type":"string"},"tests":[{"valid":false,"data":"x"}]}`
	}
	folder := files(t, all)
	told := regexp.MustCompile(`\w\.json`)
	drawn := map[string]bool{}
	for _, c := range []struct {
		name    string
		args    []string
		code    int
		out     string
		err     string
		schemas int // that are named
	}{
		{"a summary", []string{"-m", model, folder}, 0, "schemas           6\n", "", 0},
		{"verbose", []string{"-m", model, "-v", folder}, 0, "schemas           6\n", "", 6},
		{"a sample", []string{"-m", model, "-v", "-sample", "2", folder}, 0, "schemas           2\n", "", 2},
		{"another seed", []string{"-m", model, "-v", "-sample", "2", "-seed", "2", folder}, 0, "schemas           2\n",
			"", 2},
		{"a third seed", []string{"-m", model, "-v", "-sample", "2", "-seed", "3", folder}, 0, "schemas           2\n",
			"", 2},
		{"a folder without files", []string{"-m", model, t.TempDir()}, 1, "", "no files *.json", 0},
		{"no folder", []string{"-m", model}, 2, "", "usage: maskbench -m MODEL.gguf", 0},
		{"two folders", []string{"-m", model, folder, folder}, 2, "", "usage: ", 0},
		{"no model", []string{folder}, 2, "", "usage: ", 0},
		{"an unknown flag", []string{"-x"}, 2, "", "-x", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, c.code, runCommand(c.args, &stdout, &stderr))
			assert.Contains(t, stdout.String(), c.out)
			assert.Contains(t, stderr.String(), c.err)
			assert.Equal(t, c.code == 0, stderr.Len() == 0)
			names := told.FindAllString(stdout.String(), -1)
			assert.Len(t, names, c.schemas)
			drawn[strings.Join(names, " ")] = true
		})
	}
	assert.Greater(t, len(drawn), 3, "the seed decides")
}

// TestGeneral: the reason of an error has no path, names and numbers, which are of one schema.
func TestGeneral(t *testing.T) {
	of := func(path string) error {
		return fmt.Errorf("x: %w", &grammar.Error{Path: path, Err: errors.New(`"a" has 12 of "b"`)})
	}
	assert.Equal(t, "type: … has … of …", generalReason(of("/properties/a1/type")))
	assert.Equal(t, "N: … has … of …", generalReason(of("/anyOf/17")))
	assert.Equal(t, `no 1 "a"`, generalReason(errors.New(`no 1 "a"`)))
}

// TestTimes: the distribution is computed by hand.
func TestTimes(t *testing.T) {
	var all []time.Duration
	for i := range 101 {
		all = append(all, time.Duration(100-i)*time.Millisecond)
	}
	var out bytes.Buffer
	printTimes(&out, "masks", all)
	printTimes(&out, "none", nil)
	assert.Equal(t, "masks             101; ms: mean 50.0000, p50 50.0000, p90 90.0000, p99 99.000, p99.9 99.000, "+
		"max 100.0\n", out.String())
}
