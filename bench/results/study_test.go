package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// program takes the place of pilotfish: it notes its calls, writes what it is asked to write, and prints a measurement
// if its output is JSON. The call that the file fail names fails.
const program = `package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	self, _ := os.Executable()
	dir, call := filepath.Dir(self), strings.Join(os.Args[1:], " ")
	f, _ := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	fmt.Fprintln(f, call)
	f.Close()
	if fail, _ := os.ReadFile(filepath.Join(dir, "fail")); len(fail) > 0 && strings.HasPrefix(call, string(fail)) {
		os.Exit(1)
	}
	for i, a := range os.Args {
		if a == "-o" || a == "--record" || a == "synth" {
			os.WriteFile(os.Args[i+1], nil, 0o600)
		}
	}
	switch {
	case strings.HasPrefix(call, "eval fetch"):
		fmt.Println(filepath.Join(dir, "fetched"))
	case slices.Contains(os.Args, "--json"):
		for _, mode := range []string{"m", "n"} {
			version := map[string]string{"m": "unknown", "n": "v7"}[mode]
			fmt.Println("{\"mode\":\"" + mode + "\",\"run\":{\"measurement\":\"x\",\"version\":\"" + version + "\"}}")
		}
	}
}
`

// measuring is a checkout with that program, and a folder for a study.
type measuring struct {
	t         *testing.T
	root, dir string
}

func newMeasuring(t *testing.T) measuring {
	m := measuring{t, t.TempDir(), filepath.Join(t.TempDir(), "study")}
	for _, name := range append(measuredPackages(), kept, "cmd/pilotfish", "models") {
		require.NoError(t, os.MkdirAll(filepath.Join(m.root, name), 0o755))
	}
	require.NoError(t, os.MkdirAll(m.dir, 0o755))
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "cmd/pilotfish/main.go": program,
		"runtime/draft/a.go": "package draft"} {
		require.NoError(t, os.WriteFile(filepath.Join(m.root, name), []byte(text), 0o600))
	}
	if _, err := exec.LookPath("git"); err == nil {
		for _, args := range []string{"init -q", "add go.mod", "-c user.name=x -c user.email=x commit -q -m x"} {
			require.NoError(t, command(t.Context(), m.root, io.Discard, "git", strings.Fields(args)...))
		}
	}
	return m
}

// calls returns the calls since the last time, with the folders left out.
func (m measuring) calls() (all []string) {
	path := filepath.Join(m.dir, "calls")
	b, err := os.ReadFile(path)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(m.t, err)
		require.NoError(m.t, os.Remove(path))
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(b), m.dir+"/", "OUT/"), m.root+"/", "ROOT/")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// put writes a file of the study.
func (m measuring) put(name, text string) {
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600))
}

// TestStudy: experiments are measured once, with the hashes of the sources, and compared with the kept ones. A failed
// one leaves no file.
func TestStudy(t *testing.T) {
	m := newMeasuring(t)
	t.Setenv("PAIR", "")
	run := func(names ...string) error { return study(t.Context(), m.root, m.dir, names) }
	m.put("fail", "bench engine")
	assert.ErrorContains(t, run("engine"), "engine: pilotfish bench engine -m ")
	assert.Equal(t, []string{"bench synth OUT/random.gguf", "bench engine -m OUT/random.gguf -p 128 -n 32 -r 3 --json"},
		m.calls())
	assert.NoFileExists(t, filepath.Join(m.dir, "engine.jsonl"))
	m.put("fail", "")
	require.NoError(t, run("engine", "stories"))
	assert.Equal(t, []string{"bench engine -m OUT/random.gguf -p 128 -n 32 -r 3 --json"}, m.calls(),
		"the model is there, and the stories models are not")
	require.NoError(t, run("engine"))
	assert.Equal(t, []string{""}, m.calls(), "a stopped study continues")

	require.NoError(t, adopt(m.root, m.dir))
	records, err := measured(m.root, "engine")
	require.NoError(t, err)
	require.Len(t, records, 2)
	for i, mode := range []string{"m", "n"} {
		assert.Contains(t, string(records[i].Fields), `{"mode":"`+mode+`","run":{`)
	}
	hashes, err := sources(m.root)
	require.NoError(t, err)
	assert.Equal(t, hashes, records[1].Run.Sources)
	assert.Equal(t, []string{checkedOut(t.Context(), m.root), "v7"},
		[]string{records[0].Run.Version, records[1].Run.Version}, "a version is kept")
	require.NoError(t, run("engine"))
	assert.Equal(t, []string{"bench compare ROOT/docs/results/engine.jsonl.gz OUT/engine.jsonl"}, m.calls())
	t.Setenv("PAIR", "/pair")
	require.NoError(t, run())
	all := strings.Join(m.calls(), "\n")
	assert.Contains(t, all, "-m /pair/stories-weak-qwen2-f32.gguf --large /pair/stories260k-qwen2-f32.gguf ")
	for _, e := range experiments() {
		assert.FileExists(t, filepath.Join(m.dir, e.name+".jsonl"))
	}
	m.put("engine.jsonl", "no measurement")
	assert.ErrorContains(t, adopt(m.root, m.dir), "engine.jsonl:1: ")
	m.put("../x", "")
	assert.Error(t, study(t.Context(), m.root, filepath.Join(m.dir, "../x"), nil), "no folder")
	require.NoError(t, os.WriteFile(filepath.Join(m.root, "cmd/pilotfish/main.go"), []byte("x"), 0o600))
	assert.ErrorContains(t, run("link"), "go build -o ")
}

// TestCheckedOut: the revision of a checkout, and whether files differ from it. New files do not count.
func TestCheckedOut(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		sharedtest.Missing(t, err)
	}
	dir := t.TempDir()
	assert.Equal(t, "unknown", checkedOut(t.Context(), dir))
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	put("a", "1")
	for _, args := range []string{"init -q", "add a", "-c user.name=x -c user.email=x commit -q -m x"} {
		require.NoError(t, command(t.Context(), dir, io.Discard, "git", strings.Fields(args)...))
	}
	put("b", "1")
	assert.Regexp(t, `^[0-9a-f]{40,}$`, checkedOut(t.Context(), dir))
	put("a", "2")
	assert.Regexp(t, `^[0-9a-f]{40,}\+dirty$`, checkedOut(t.Context(), dir))
}

// TestRealPair: the steps of a task cut disjoint parts of its questions, train and certify a router with them, and are
// not repeated.
func TestRealPair(t *testing.T) {
	m := newMeasuring(t)
	var lines strings.Builder
	for i := range 960 {
		fmt.Fprintln(&lines, i+1)
	}
	m.put("fetched", lines.String())
	models := filepath.Join(m.root, "models")
	run := func(names ...string) error { return realPair(t.Context(), m.root, m.dir, models, names) }
	assert.ErrorContains(t, run("csqa"), "the folder of the models: ")
	for _, name := range []string{realSmall, realLarge} {
		require.NoError(t, os.WriteFile(filepath.Join(models, name), nil, 0o600))
	}
	assert.ErrorContains(t, run("x"), `unknown name "x"`)
	m.put("fail", "router train")
	assert.ErrorContains(t, run("csqa"), "csqa-first.gguf: pilotfish router train")
	calls := m.calls()
	require.Len(t, calls, 3, "fetch, collect, train")
	const train = "router train --label consequence --training hidden=16 OUT/csqa-own "
	assert.Equal(t, train+"-o OUT/csqa-first.gguf", calls[2])
	assert.True(t, strings.HasPrefix(calls[1], "router collect --label disagreement,consequence -m ROOT/models/"+
		realSmall+" --large ROOT/models/"+realLarge+" --task csqa "), calls[1])
	m.put("fail", "")
	require.NoError(t, run("csqa"))
	calls = m.calls()
	require.Len(t, calls, 1+2+1+2+1, "train, traces of routed answers, train, certificate, evaluation")
	assert.Equal(t, train+"OUT/csqa-routed -o OUT/csqa-second.gguf", calls[3])
	for name, want := range map[string][2]int{"own": {1, 320}, "routed": {321, 160}, "certificate": {481, 400}} {
		b, err := os.ReadFile(filepath.Join(m.dir, "csqa-"+name+".jsonl"))
		require.NoError(t, err)
		all := strings.Fields(string(b))
		require.Len(t, all, want[1], name)
		assert.Equal(t, fmt.Sprint(want[0]), all[0], name)
	}
	require.NoError(t, run("csqa"))
	assert.Equal(t, []string{""}, m.calls())
	m.put("csqa.gguf", "router")
	require.NoError(t, adopt(m.root, m.dir))
	b, err := os.ReadFile(filepath.Join(m.root, keptRouters, "csqa.gguf"))
	require.NoError(t, err)
	assert.Equal(t, "router", string(b))
	assert.ErrorContains(t, run("mbpp"), "mbpp-certificate.jsonl: mbpp-train has too few questions")
	require.NoError(t, os.Remove(filepath.Join(m.dir, "fetched")))
	assert.ErrorIs(t, run("gsm8k"), os.ErrNotExist)
	m.put("fail", "eval fetch")
	assert.ErrorContains(t, run("arc"), "eval fetch arc-train")
}
