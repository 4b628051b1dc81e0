package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// configuredBy writes a configuration file to the default path.
func configuredBy(t *testing.T, text string) (path string) {
	t.Helper()
	clitest.OwnFolders(t)
	dir, err := os.UserConfigDir()
	require.NoError(t, err)
	path = filepath.Join(dir, "pilotfish", "config.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestSettings: the command line overrides the environment, that overrides the file, and that the default; for each
// command with settings.
func TestSettings(t *testing.T) {
	small, large, _ := clitest.DemoPairFiles(t)
	path := configuredBy(t, "model: "+small+"\nmax-tokens: 3\n")
	tokens := func(args ...string) int {
		_, stdout, stderr := clitest.Call(t, append([]string{"run", "--json", "--ignore-eos"}, append(args,
			"hello")...)...)
		require.Contains(t, stdout, "summary", stderr)
		return strings.Count(stdout, "\n") - 1
	}
	assert.Equal(t, 3, tokens())
	t.Setenv("PILOTFISH_MAX_TOKENS", "5")
	assert.Equal(t, 5, tokens())
	assert.Equal(t, 2, tokens("-n", "2"))
	t.Setenv("PILOTFISH_MAX_TOKENS", "")
	assert.Equal(t, 3, tokens(), "an empty variable is ignored")
	_, _, stderr := clitest.Chat(t, clitest.Question(0)+"\n", "--max-tokens", "1")
	assert.Contains(t, stderr, "(cut off after 1 tokens")
	_, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n")
	assert.Contains(t, stderr, "(cut off after 3 tokens")
	t.Setenv("PILOTFISH_MODEL", "/nowhere/else.gguf")
	code, _, stderr := clitest.Call(t, "run", "hello")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "/nowhere/else.gguf")
	assert.Equal(t, 3, tokens("-m", large))
	t.Setenv("PILOTFISH_MODEL", "")

	other := filepath.Join(t.TempDir(), "other.yaml")
	require.NoError(t, os.WriteFile(other, []byte("max-tokens: 4\nmodel: "+small), 0o600))
	assert.Equal(t, 4, tokens("--config", other))
	t.Setenv("PILOTFISH_CONFIG", other)
	assert.Equal(t, 4, tokens())
	assert.Equal(t, 3, tokens("--config", path))
	_, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n", "--config", path)
	assert.Contains(t, stderr, "(cut off after 3 tokens")
	t.Setenv("PILOTFISH_CONFIG", "/nowhere.yaml")
	code, _, stderr = clitest.Call(t, "run", "hello")
	assert.Equal(t, cli.ExitUsage, code, "a given file must exist")
	assert.Contains(t, stderr, "read the configuration: open /nowhere.yaml")
	require.NoError(t, os.Remove(path))
	t.Setenv("PILOTFISH_CONFIG", "")
	assert.Equal(t, 6, tokens("-n", "6", "-m", small), "the default file may be missing")
}

// TestSettingsRefused: an error in a file or a variable names its place.
func TestSettingsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"modl: x":                           `config.yaml:1: "modl" is no setting: the names are model, threads, ctx, `,
		"\n# c\ntemp: warm":                 `config.yaml:3: --temp "warm" is not a number`,
		"temp: [1]":                         "config.yaml:1: temp has one value, this is a list",
		"temp:":                             "config.yaml:1: temp: write a value, or leave the line out",
		"temp: 1\nkv: f16\ntemp: 2":         "config.yaml:3: temp is in line 1 already",
		"json: true":                        `"json" is no setting`,
		"tokens: 1,2":                       `"tokens" is no setting`,
		"token: secret":                     `"token" is no setting`,
		"a: b: c":                           "config.yaml:1: this is not YAML",
		"temp: 1\na: b: c":                  "config.yaml:2: this is not YAML",
		"- model":                           "config.yaml:1: write NAME: VALUE here",
		"temp: 1\n---\nkv: f16":             "a second document",
		strings.Repeat("# long\n", 200_000): "has more than 1048576 bytes: is it the right file?",
	} {
		path := configuredBy(t, text)
		for _, command := range []string{"run", "chat", "serve", "config"} {
			code, stdout, stderr := clitest.Call(t, command)
			assert.Equal(t, cli.ExitUsage, code, "%s: %s", text[:min(len(text), 50)], stderr)
			assert.Contains(t, stderr, want)
			assert.Contains(t, stderr, path)
			assert.Empty(t, stdout)
		}
	}
	configuredBy(t, "")
	t.Setenv("PILOTFISH_TEMP", "warm")
	code, _, stderr := clitest.Call(t, "config")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "the environment variable PILOTFISH_TEMP: ")
	path := configuredBy(t, "temp: -1\nmodel: m")
	t.Setenv("PILOTFISH_TEMP", "")
	_, _, stderr = clitest.Call(t, "run", "hello")
	assert.Contains(t, stderr, "--temp -1 is out of range: give 0 to 100 (--temp is from "+path+":1)\n")
	_, _, stderr = clitest.Call(t, "run", "--temp", "-2", "hello")
	assert.NotContains(t, stderr, "is from")
	code, _, stderr = clitest.Call(t, "config", "--config=")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--config is empty")
}

// TestSettingsTogether: settings without effect are left out, and the setting with higher precedence decides.
func TestSettingsTogether(t *testing.T) {
	const pin = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	for _, c := range []struct{ file, env, line, want string }{
		{"pin: " + pin, "", "", ""},
		{"pin: " + pin + "\ncloud: a:1", "", "", "cloud=a:1 pin=" + pin},
		{"pin: " + pin, "", "--cloud a:1", "pin=" + pin},
		{"pin: " + pin + "\ncloud: a:1\npolicy: margin", "", "--local", ""},
		{"pin: " + pin + "\ncloud: a:1\npolicy: margin", "", "--large l", ""},
		{"backend: soft:fast\nkv: f16", "", "--exact=false", "backend=soft:fast kv=f16"},
		{"kv: f16\nthreads: 2", "", "--exact", "threads=2"},
		{"pin: " + pin + "\ncloud: a:1\npolicy: margin", "", "--mode serial",
			"cloud=a:1 pin=" + pin + " policy=margin"},
		{"cloud: a:1\nbudget: 0.1", "", "--threshold 0.5", "cloud=a:1"},
		{"cloud: a:1\nbudget: 0.1", "THRESHOLD=0.5", "", "cloud=a:1 threshold=0.5"},
		{"cloud: a:1\nbudget: 0.1", "CLOUD=b:1", "", "budget=0.1 cloud=b:1"},
		{"cloud: a:1\nthreshold: 0.1", "", "--policy entropy", "cloud=a:1 threshold=0.1"},
		{"cloud: a:1\nthreshold: 0.1", "", "--policy never", "cloud=a:1"},
		{"cloud: a:1\nrouter: r.gguf", "", "--policy margin", "cloud=a:1"},
		{"cloud: a:1\nrouter: r.gguf", "", "--policy learned", "cloud=a:1 router=r.gguf"},
		{"cloud: a:1\ntoken-file: t", "", "", "cloud=a:1 token-file=t"},
		{"cloud: a:1\ntoken-file: t", "TOKEN=0123456789abcdef", "", "cloud=a:1"},
		{"top-k: 3", "", "", ""},
		{"top-k: 3\ntemp: 1", "", "", "temp=1 top-k=3"},
		{"top-k: 3\ntemp: 1", "", "--temp 0", ""},
		{"top-k: 3\ntemp: 0", "", "--temp 2", "top-k=3"},
		{"system: brief", "", "--raw", ""},
		{"system: brief", "", "", "system=brief"},
		{"ctx: 99\nthreads: 2\nkv: f32\nbackend: cpu\nhuge-pages: on\ndeadline: off", "", "",
			"ctx=99 huge-pages=on kv=f32 threads=2 backend=cpu"},
	} {
		configuredBy(t, c.file)
		a := &cli.App{Commands: commands, Env: func(key string) string {
			name, value, _ := strings.Cut(c.env, "=")
			return map[string]string{"PILOTFISH_" + name: value}[key]
		}}
		root := cli.NewRootCommand(a)
		command, rest, err := root.Find(append([]string{"run", "-m", "m"}, strings.Fields(c.line)...))
		require.NoError(t, err)
		require.NoError(t, command.ParseFlags(rest))
		before := map[string]bool{}
		command.Flags().Visit(func(f *pflag.Flag) { before[f.Name] = true })
		require.NoError(t, command.PreRunE(command, nil), c.file)
		var got []string
		command.Flags().Visit(func(f *pflag.Flag) {
			if !before[f.Name] {
				got = append(got, f.Name+"="+f.Value.String())
				assert.NotEmpty(t, a.Settled[f.Name])
			}
		})
		assert.ElementsMatch(t, strings.Fields(c.want), got, "%s, %s, %s", c.file, c.env, c.line)
	}
}

// TestSettingsAreFlags: each setting is a flag of run with its variable in the help, and settings that others depend on
// come first.
func TestSettingsAreFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"run", "chat"} {
		c, _, err := cli.NewRootCommand(&cli.App{Commands: commands}).Find([]string{name})
		require.NoError(t, err)
		for _, s := range cli.Settings() {
			flag := c.Flags().Lookup(s.Name)
			require.NotNil(t, flag, s.Name)
			assert.Contains(t, flag.Usage, "["+s.Variable()+"]")
			assert.True(t, s.Needs == "" || seen[s.Needs])
			seen[s.Name] = true
		}
	}
	other := 0
	for _, c := range cli.NewRootCommand(&cli.App{Commands: commands}).Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !cli.Configured(c.Name()) && c.Name() != "config" && strings.Contains(f.Usage, "[PILOTFISH_") {
				other++
			}
		})
	}
	assert.Zero(t, other, "no other command documents them")
}

func TestConfigCommand(t *testing.T) {
	path := configuredBy(t, "# mine\n\ntemp: 0.5\nkv: f32\n")
	t.Setenv("PILOTFISH_KV", "f16")
	code, stdout, stderr := clitest.Call(t, "config")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, "configuration file: "+path+"\n", stderr)
	assert.Regexp(t, `(?m)^temp +0.5 +`+path+`:3 +PILOTFISH_TEMP$`, stdout)
	assert.Regexp(t, `(?m)^kv +f16 +PILOTFISH_KV +PILOTFISH_KV$`, stdout)
	assert.Regexp(t, `(?m)^threads +0 +default +PILOTFISH_THREADS$`, stdout)
	assert.Regexp(t, `^SETTING +VALUE +FROM +VARIABLE\n`, stdout)
	assert.Regexp(t, `(?m)^max-tokens +256, chat: 1024 +default +PILOTFISH_MAX_TOKENS$`, stdout)
	assert.Equal(t, 1+len(cli.Settings()), strings.Count(stdout, "\n"))
	other := filepath.Join(t.TempDir(), "x.yaml")
	require.NoError(t, os.WriteFile(other, []byte("temp: 0.25"), 0o600))
	code, stdout, stderr = clitest.Call(t, "config", "--json", "--config", other)
	require.Equal(t, cli.ExitDone, code, stderr)
	type shown struct{ Setting, Variable, Value, From string }
	all := clitest.LinesOf[shown](t, stdout)
	require.Len(t, all, len(cli.Settings()))
	for _, s := range all {
		if s.Setting == "temp" {
			assert.Equal(t, shown{"temp", "PILOTFISH_TEMP", "0.25", other + ":1"}, s)
		}
	}
	require.NoError(t, os.Remove(path))
	_, _, stderr = clitest.Call(t, "config")
	assert.Equal(t, "configuration file: "+path+", which does not exist\n", stderr)
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		t.Setenv(name, "")
	}
	code, stdout, _ = clitest.Call(t, "config")
	assert.Equal(t, cli.ExitDone, code, "without a folder for a file there is none")
	assert.Regexp(t, `(?m)^kv +f16 +PILOTFISH_KV +PILOTFISH_KV$`, stdout)
}

// FuzzParseSettings: parsing any file does not panic, and sets only settings.
func FuzzParseSettings(f *testing.F) {
	f.Add([]byte("temp: 1\nmodel: x"))
	f.Add([]byte("temp: [1, 2]"))
	f.Add([]byte("a: &a [*a]"))
	a := cli.New(clitest.UnderTest, nil, nil, nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		all := map[string]cli.Given{}
		if a.ParseSettings("f", b, all) != nil {
			return
		}
		known := map[string]bool{}
		for _, s := range cli.Settings() {
			known[s.Name] = true
		}
		for name := range all {
			require.True(t, known[name], name)
		}
	})
}
