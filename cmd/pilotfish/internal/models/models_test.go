package models

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/files"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

// TestModelNames: pull takes a quantisation, and every command takes the pulled name.
func TestModelNames(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	dir := clitest.ModelFolderWith(t, nil)
	clitest.HubOf(t, map[string][]byte{"m-Q8_0.gguf": demo.Small(), "m-f16-00001-of-00002.gguf": []byte("a"),
		"m-f16-00002-of-00002.gguf": []byte("b")})
	code, stdout, stderr := clitest.Call(t, "pull", "o/n:q8_0")
	require.Equal(t, cli.ExitDone, code, stderr)
	path := filepath.Join(dir, "o", "n", "m-Q8_0.gguf")
	assert.Equal(t, path+"\n", stdout)
	code, stdout, stderr = clitest.Call(t, "pull", "--json", "o/n:F16")
	require.Equal(t, cli.ExitDone, code, stderr)
	var pulled pulledModel
	require.NoError(t, json.Unmarshal([]byte(stdout), &pulled))
	require.Len(t, pulled.Files, 2, "all parts")
	assert.True(t, pulled.Files[0].Fetched && pulled.Files[1].Fetched)
	assert.Equal(t, pulled.Path, pulled.Files[0].Path)
	code, _, stderr = clitest.Call(t, "pull", "o/n:Q2_K")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "pull o/n:Q2_K: it has no file of the quantisation Q2_K; there are:\n  o/n:m-Q8_0.gguf")

	for _, args := range [][]string{
		{"run", "-n", "1", "-m", "o/n:q8_0", "hello"}, {"run", "-n", "1", "-m", "O/N:Q8_0", "hello"},
		{"run", "o/n:q8_0", "-n", "1", "hello"}, {"run", "-n", "1", path, "two", "words"},
		{"run", "-n", "1", path, "--tokens", "1"}, {"tokenize", "-m", "o/n:Q8_0", "hello"},
		{"logits", "-m", "o/n:Q8_0", "--tokens", "1"}, {"inspect", "o/n:Q8_0"},
		{"bench", "engine", "-m", "o/n:Q8_0", "-p", "2", "-n", "1", "-r", "1"},
		{"chat", "-m", "o/n:m-Q8_0.gguf"},
		{"bench", "routing", "-m", "o/n:Q8_0", "--large", "o/n:Q8_0", "--workload", clitest.DemoData(t, 1), "--modes",
			"local",
			"-n", "1"},
	} {
		code, _, stderr := clitest.Call(t, args...)
		assert.Equal(t, cli.ExitDone, code, "%v: %s", args, stderr)
	}
	_, want, _ := clitest.Call(t, "run", "-n", "3", "-m", path, "two", "words")
	t.Setenv("PILOTFISH_MODEL", "not-this-one.gguf")
	_, got, stderr := clitest.Call(t, "run", "-n", "3", path, "two", "words")
	assert.Equal(t, want, got, stderr)
	t.Setenv("PILOTFISH_MODEL", path)
	code, _, stderr = clitest.Call(t, "run", "-n", "3", "describe m.gguf")
	assert.Equal(t, cli.ExitDone, code, "a sentence is a prompt: %s", stderr)
	t.Setenv("PILOTFISH_MODEL", "")
	m, err := pilotfish.Open("o/n:Q8_0", pilotfish.Options{})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	_, err = pilotfish.Open("x/y", pilotfish.Options{})
	assert.ErrorContains(t, err, `"pilotfish pull x/y"`)

	for name, want := range map[string]string{
		"o/n": "--model: o/n can be any of these: name one of them: o/n:Q8_0, o/n:F16",
		"o/n:Q4_0": `--model: there is no file o/n:Q4_0, and no such model in ` + dir +
			`: fetch it with "pilotfish pull o/n:Q4_0", or name one that is here: o/n:Q8_0, o/n:F16`,
		"x.gguf": "x.gguf: no such file",
	} {
		code, stdout, stderr := clitest.Call(t, "run", "-m", name, "hello")
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr, want)
		assert.Empty(t, stdout)
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("o", 0o700))
	require.NoError(t, os.WriteFile("o/n", demo.Large(), 0o600))
	_, _, stderr = clitest.Chat(t, "", "-m", "o/n")
	assert.Empty(t, stderr, "an existing file takes precedence")
}

// TestModelInOtherCache: a model that other tools have fetched is used, and it is said where it is.
func TestModelInOtherCache(t *testing.T) {
	clitest.OwnFolders(t)
	clitest.ModelFolderWith(t, nil)
	cache, commit := t.TempDir(), strings.Repeat("0a", 20)
	t.Setenv("HF_HUB_CACHE", cache)
	repo := filepath.Join(cache, "models--o--n")
	path := filepath.Join(repo, "snapshots", commit, "m-q8_0.gguf")
	for name, text := range map[string]string{filepath.Join(repo, "refs", "main"): commit, path: string(demo.Small())} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	code, stdout, stderr := clitest.Call(t, "tokenize", "-m", "o/n:Q8_0", "A")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, "65\t\"A\"\n", stdout)
	assert.Equal(t, "o/n:Q8_0: found in the cache of Hugging Face's tools, "+path+"\n", stderr)
}

func TestListCommand(t *testing.T) {
	dir := clitest.ModelFolderWith(t,
		map[string][]byte{"o/n/m-q8_0.gguf": make([]byte, 2_500_000), "o/n/m-q4_0.gguf.part": []byte("x"),
			"o/x/y.gguf": []byte("y")})
	code, stdout, stderr := clitest.Call(t, "list")
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 4)
	assert.Regexp(t, `^NAME +QUANT +SIZE +MODIFIED +PATH$`, lines[0])
	assert.Regexp(t, `^o/n:Q4_0 +Q4_0 +1 B, incomplete +20\d\d-\d\d-\d\d \d\d:\d\d +`+dir+`/o/n/m-q4_0.gguf$`, lines[1])
	assert.Regexp(t, `^o/n:Q8_0 +Q8_0 +2.5 MB +20`, lines[2])
	assert.Regexp(t, `^o/x:y.gguf +- +1 B +20`, lines[3])

	t.Setenv("PILOTFISH_MODELS", t.TempDir())
	code, stdout, stderr = clitest.Call(t, "list")
	assert.Equal(t, cli.ExitDone, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, `"pilotfish pull OWNER/NAME" fetches one`)
	code, stdout, _ = clitest.Call(t, "list", "--json", "--dir", dir)
	require.Equal(t, cli.ExitDone, code)
	all := clitest.LinesOf[listedModel](t, stdout)
	require.Len(t, all, 3)
	all[0].Modified = all[1].Modified
	assert.Equal(t, listedModel{"o/n:Q4_0", "Q4_0", 1, all[1].Modified, filepath.Join(dir, "o", "n", "m-q4_0.gguf"), 1},
		all[0])
	assert.NotContains(t, strings.Split(stdout, "\n")[2], "quant")
	assert.Regexp(t, `"modified":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"`, stdout)
	assert.False(t, all[1].Modified.IsZero())
	var out strings.Builder
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))
	require.NoError(t, listJSON(&cli.App{Stdout: &out}, []hub.Model{{Modified: at}}))
	assert.Contains(t, out.String(), `"modified":"2026-03-04T04:06:07Z"`)
}

func TestRemoveCommand(t *testing.T) {
	models := map[string][]byte{"o/n/m-q8_0.gguf": []byte("x"), "o/n/m-f16-00001-of-00002.gguf": []byte("x"),
		"o/n/m-f16-00002-of-00002.gguf.part": []byte("x"), "o/two/a.gguf": []byte("x"), "o/two/b.gguf": []byte("x")}
	dir := clitest.ModelFolderWith(t, models)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"rm", cli.ExitUsage, "pilotfish: rm needs the models to remove"},
		{"rm o/n:q8_0", cli.ExitUsage, "there is no terminal to ask on: give --force"},
		{"rm --force o/n:q8_0 x/y", cli.ExitFailed, `there is no model x/y in ` + dir + `: "pilotfish list"`},
		{"rm -f o/two", cli.ExitFailed, "o/two can be any of these: name one of them: o/two:a.gguf, o/two:b.gguf"},
		{"rm -f o/n:../x.gguf", cli.ExitFailed, "leads out"},
		{"rm -f /etc/passwd", cli.ExitFailed, "does not name a repository"},
	} {
		code, stdout, stderr := clitest.Call(t, strings.Fields(c.args)...)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, stderr, c.want)
		assert.Empty(t, stdout)
	}
	for name := range models {
		assert.FileExists(t, filepath.Join(dir, name), "nothing is removed if a name is wrong")
	}
	unlock, err := files.Lock(filepath.Join(dir, "o/n/m-f16-00002-of-00002.gguf.lock"))
	require.NoError(t, err)
	code, _, stderr := clitest.Call(t, "rm", "-f", "o/n:f16")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "another pull is fetching this file")
	unlock()
	t.Setenv("PILOTFISH_MODELS", t.TempDir())
	code, _, stderr = clitest.Call(t, "rm", "--dir", dir, "--force", "o/n:f16", "o/n:q8_0")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stderr, "removed o/n:m-f16-00001-of-00002.gguf (2 B)\n")
	assert.NoDirExists(t, filepath.Join(dir, "o", "n"))
	assert.FileExists(t, filepath.Join(dir, "o", "two", "a.gguf"))
}
