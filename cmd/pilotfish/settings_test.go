package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
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

// TestSettingsTogether: settings without effect are left out, and the setting with higher precedence decides.
func TestSettingsTogether(t *testing.T) {
	const pin = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	for _, c := range []struct{ file, env, line, want string }{
		{"pin: " + pin, "", "", ""},
		{"pin: " + pin + "\ncloud: a:1", "", "", "cloud=a:1 pin=" + pin},
		{"pin: " + pin, "", "--cloud a:1", "pin=" + pin},
		{"pin: " + pin + "\ncloud: a:1\npolicy: margin", "", "--local", ""},
		{"pin: " + pin + "\ncloud: a:1\npolicy: margin", "", "--large l", ""},
		{"backend: soft:check\nkv: f16", "", "--exact=false", "backend=soft:check kv=f16"},
		{"kv: f16\nthreads: 2", "", "--exact", "threads=2"},
		{"pin: " + pin + "\ncloud: a:1\npolicy: margin", "", "--stats",
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
		t.Run(strings.Join([]string{c.file, c.env, c.line}, " "), func(t *testing.T) {
			configuredBy(t, c.file)
			a := &cli.App{Program: newProgram(), Stderr: io.Discard, Env: func(key string) string {
				name, value, _ := strings.Cut(c.env, "=")
				return map[string]string{"PILOTFISH_" + name: value}[key]
			}}
			root := cli.NewRootCommand(a)
			command, rest, err := root.Find(append([]string{"run", "-m", "m"}, strings.Fields(c.line)...))
			require.NoError(t, err)
			require.NoError(t, command.ParseFlags(rest))
			before := map[string]bool{}
			command.Flags().Visit(func(f *pflag.Flag) { before[f.Name] = true })
			require.NoError(t, command.PreRunE(command, nil))
			var got []string
			command.Flags().Visit(func(f *pflag.Flag) {
				if !before[f.Name] {
					got = append(got, f.Name+"="+f.Value.String())
					assert.NotEmpty(t, a.Settled[f.Name])
				}
			})
			assert.ElementsMatch(t, strings.Fields(c.want), got)
		})
	}
}

// TestSettingsAreFlags: each setting is a flag of run with its variable in the help, and settings that others depend on
// come first.
func TestSettingsAreFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"run", "chat"} {
		c, _, err := cli.NewRootCommand(&cli.App{Program: newProgram()}).Find([]string{name})
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
	for _, c := range cli.NewRootCommand(&cli.App{Program: newProgram()}).Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !cli.Configured(c.Name()) && c.Name() != "config" && strings.Contains(f.Usage, "[PILOTFISH_") {
				other++
			}
		})
	}
	assert.Zero(t, other, "no other command documents them")
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

// TestOneDefault: run, chat and the chat page have the same temperature, limit and system message by default.
func TestOneDefault(t *testing.T) {
	page, err := os.ReadFile("../../serve/page/page.html")
	require.NoError(t, err)
	for _, c := range []struct{ flag, input, want string }{
		{"temp", "temperature", "0"}, {"max-tokens", "most", fmt.Sprint(cli.DefaultMaxTokens)},
		{"system", "system", ""},
	} {
		t.Run(c.flag, func(t *testing.T) {
			for _, name := range []string{"run", "chat"} {
				command, _, err := cli.NewRootCommand(&cli.App{Program: newProgram()}).Find([]string{name})
				require.NoError(t, err)
				assert.Equal(t, c.want, command.Flags().Lookup(c.flag).DefValue, name)
			}
			input := regexp.MustCompile(`<(?:input|textarea) id="` + c.input + `"[^>]*>`).FindString(string(page))
			require.NotEmpty(t, input)
			assert.Equal(t, c.want != "", strings.Contains(input, fmt.Sprintf(`value=%q`, c.want)), input)
		})
	}
}
