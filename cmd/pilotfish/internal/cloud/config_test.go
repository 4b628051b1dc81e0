package cloud

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// sampleValues returns two values for each flag of `pilotfish cloud`, neither of them the default.
func sampleValues(t *testing.T, f *pflag.Flag) [2]string {
	t.Helper()
	switch f.Value.Type() {
	case "bool":
		return [2]string{"true", "false"}
	case "duration":
		return [2]string{"57s", "58s"}
	case "int":
		return [2]string{"77", "78"}
	case "float64":
		return [2]string{"7.5", "8.5"}
	case "string", "stringArray", "stringSlice":
		return [2]string{"one", "two"}
	}
	require.Fail(t, "no values for a flag of type "+f.Value.Type())
	return [2]string{}
}

// loaded returns the flags after reading the command line, the environment and the file.
func loaded(t *testing.T, args ...string) (*cloudCommandFlags, error) {
	t.Helper()
	c, f := newCloudCommand(&cli.App{})
	require.NoError(t, c.ParseFlags(args))
	return f, f.loadSettings(c.Flags())
}

// TestConfigReachesEveryFlag: each flag can be set in the file, the environment and the command line. The command line
// overrides the environment, and that overrides the file.
func TestConfigReachesEveryFlag(t *testing.T) {
	_, all := newCloudCommand(&cli.App{})
	n := 0
	all.operate.set.VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"help", "config", "check-config", "limit", "engine"}, f.Name) {
			return
		}
		n++
		t.Run(f.Name, func(t *testing.T) {
			v := sampleValues(t, f)
			variable := "PILOTFISH_CLOUD_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			file := clitest.ConfigFileOf(t, fmt.Sprintf("# a comment\n%s: %s\n", f.Name, v[0]))
			have := func(args ...string) string {
				flags, err := loaded(t, args...)
				require.NoError(t, err)
				assert.True(t, flags.operate.set.Changed(f.Name))
				return strings.Join(flagValues(flags.operate.set.Lookup(f.Name)), ",")
			}
			assert.Equal(t, v[0], have("--config", file), "file")
			t.Setenv(variable, v[1])
			assert.Equal(t, v[1], have("--config", file), "the environment overrides the file")
			assert.Equal(t, v[1], have(), "environment")
			assert.Equal(t, v[0], have("--config", file, "--"+f.Name+"="+v[0]), "the command line overrides everything")
			t.Setenv(variable, "")
			assert.Equal(t, v[0], have("--config", file), "an empty variable is ignored")
		})
	})
	assert.GreaterOrEqual(t, n, 20)
	file := clitest.ConfigFileOf(t, "limit: {devices: 5}\nupstream: [\"1:a\", \"2:b\"]\nmodel: m.gguf\n")
	t.Setenv("PILOTFISH_CLOUD_CONFIG", file)
	f, err := loaded(t)
	require.NoError(t, err)
	assert.Equal(t, 5, f.limits.o.MaxConns, "the environment may name the file")
	assert.Equal(t, []string{"1:a", "2:b"}, f.upstream.O.URLs)
	assert.Equal(t, "m.gguf", f.model.Path)
	f, err = loaded(t, "--limit", "devices=6", "--config",
		clitest.ConfigFileOf(t, "limit: {devices: 5, memory: 7}\n"))
	require.NoError(t, err)
	assert.Equal(t, 6, f.limits.o.MaxConns, "each option by itself")
	assert.Equal(t, 7, f.limits.o.MaxTokens)
	t.Setenv("PILOTFISH_CLOUD_UPSTREAM", "3:c,4:d")
	t.Setenv("PILOTFISH_CLOUD_QUESTION", "7")
	t.Setenv("PILOTFISH_CLOUD_CHECK_CONFIG", "true")
	f, err = loaded(t)
	require.NoError(t, err)
	assert.Equal(t, []string{"3:c", "4:d"}, f.upstream.O.URLs)
	assert.Equal(t, []string{"PILOTFISH_CLOUD_CHECK_CONFIG", "PILOTFISH_CLOUD_QUESTION"}, f.operate.strange)
}

// TestConfigRefused: an error in a file names the file, the line and the setting, and no message shows a secret.
func TestConfigRefused(t *testing.T) {
	for text, want := range map[string]string{
		"slots: 5\nslot: 6":                      `:2: "slot" is no setting`,
		"limit: {devices: many}":                 `:1: --limit: devices "many" is not a whole number`,
		"slots: [1, 2]":                          ":1: slots has one value",
		"slots:":                                 ":1: slots: write a value",
		"upstream: [a, [b]]":                     ":1: upstream: write a value",
		"upstream:\n  - a\n  - [b]":              ":3: upstream: write a value",
		"limit:\n  memory: 5\n  devices: many":   `:3: --limit: devices "many" is not a whole number`,
		"limit:\n  - memory=5\n  - memory=many":  `:3: --limit: memory "many" is not a whole number`,
		"slots: 5\na: b: c":                      ":2: this is not YAML",
		"open: perhaps":                          `:1: --open "perhaps" is neither true nor false`,
		"limit: [idle=30]":                       `:1: --limit: idle "30" is not a time such as `,
		"listen: :1\n\nlisten: :2":               ":3: listen is in line 1 already",
		"config: other":                          ":1: config belongs on the command line",
		"check-config: true":                     ":1: check-config belongs on the command line",
		"help: true":                             ":1: ",
		"- a":                                    ":1: write NAME: VALUE here",
		"? [a]\n: b":                             ":1: write NAME: VALUE here",
		"a: 1\n---\nb: 2":                        "a second document",
		"listen: \"open\nx: *" + clitest.SecretA: "this is not YAML",
		"listen: &a :1\nadmin: *a":               ":2: admin: write a value",
		strings.Repeat("# long\n", 200000):       "more than 1048576 bytes",
	} {
		file := clitest.ConfigFileOf(t, text)
		_, err := loaded(t, "--config", file)
		require.ErrorContains(t, err, want, text[:min(len(text), 80)])
		if strings.HasPrefix(want, ":") {
			assert.ErrorContains(t, err, file+want, "the file and the line")
		}
		assert.NotContains(t, err.Error(), clitest.SecretA)
		assert.NotContains(t, err.Error(), clitest.SecretB)
	}
	for _, empty := range []string{"", "# nothing\n", "~", "---\n"} {
		_, err := loaded(t, "--config", clitest.ConfigFileOf(t, empty))
		require.NoError(t, err, empty)
	}
	_, err := loaded(t, "--limit", "devices=5", "--config", clitest.ConfigFileOf(t, "limit: {devices: many}"))
	require.ErrorContains(t, err, ":1: ", "also if the command line overrides it")
	t.Setenv("PILOTFISH_CLOUD_SLOTS", "many")
	_, err = loaded(t)
	require.ErrorContains(t, err, "the environment variable PILOTFISH_CLOUD_SLOTS: --slots")
}

// TestCloudWarns: each problem that does not prevent the start is in the log.
func TestCloudWarns(t *testing.T) {
	var log strings.Builder
	f := new(cloudCommandFlags)
	f.logWarnings(slog.New(slog.NewTextHandler(&log, nil)), nil)
	assert.Empty(t, log.String())
	f.operate.strange = []string{"PILOTFISH_CLOUD_X"}
	f.logWarnings(slog.New(slog.NewTextHandler(&log, nil)), &notStoredError{errors.New("no room")})
	assert.Contains(t, log.String(), "ticket keys are not kept: no room")
	assert.Contains(t, log.String(), "PILOTFISH_CLOUD_X")
}

// FuzzConfig: parsing any file does not panic, and an accepted file is accepted again.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{"", "limit: {devices: 5}\n",
		"upstream: [a, b]\n", "a: &a [*a]\n",
		"? [a]\n: b\n", "<<: {listen: x}\n", "--- ~\n", "\xff\xfe", "listen: !!int x\n",
		"limit: &t\n  - memory=a\n    private: true\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, flags := newCloudCommand(&cli.App{})
		c := &cli.ConfigFile{Name: "file", Flags: flags.operate.set}
		err := c.Parse(b)
		if err != nil {
			require.ErrorContains(t, err, "file:")
			return
		}
		for _, v := range c.Values {
			require.NotNil(t, flags.operate.set.Lookup(v.Flag))
			require.Positive(t, v.Line)
		}
	})
}
