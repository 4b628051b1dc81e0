package chat

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestChatChoose: rules for tokens and stop strings work in chat as in run.
func TestChatChoose(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	answer := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := clitest.Chat(t, clitest.Question(0)+"\n", append([]string{"-m", small, "-n", "24"},
			args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		return strings.TrimSuffix(stdout, "\n")
	}
	plain := answer()
	require.Contains(t, plain[1:], " ")
	before, _, _ := strings.Cut(plain[1:], " ")
	assert.Equal(t, plain[:1]+before, answer("--stop", " "+strings.Fields(plain[1+len(before):])[0]),
		"and no part of it is shown")
	assert.Contains(t, []string{"true", "false"}, answer("--json-schema", `{"type":"boolean"}`))
	file := filepath.Join(t.TempDir(), "s.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"const":"x"}`), 0o600))
	assert.Equal(t, `"x"`, answer("--json-schema", file))
	_, _, stderr := clitest.Chat(t, clitest.Question(0)+"\n", "-m", small, "-n", "4", "--json-schema",
		`{"type":"string"}`)
	assert.Contains(t, stderr, "(the value of --json-schema had to end after ")
	_, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n", "-m", small, "--json-schema", `{"const":"x","a":1,"b":2}`)
	assert.Contains(t, stderr, "--json-schema: these have no effect: #/a, #/b\n")
	assert.Equal(t, plain, answer("--temp", "2", "--min-p", "1"), "only the best token remains")

	for _, c := range []struct {
		flags string
		want  pilotfish.Settings
	}{
		{"--logit-bias 3=-5 --logit-bias 4=1.5",
			pilotfish.Settings{RepeatPenalty: 1, LogitBias: map[int32]float32{3: -5, 4: 1.5}}},
		{`--stop \n --stop b`, pilotfish.Settings{RepeatPenalty: 1, Stop: []string{"\n", "b"}}},
		{"--temp 0.5 --top-k 3 --top-p 0.25 --seed 9 --min-p 0.125 -n 7",
			pilotfish.Settings{RepeatPenalty: 1, Temperature: 0.5, TopK: 3, TopP: 0.25, Seed: 9, MinP: 0.125,
				MaxTokens: 7}},
	} {
		command := &cobra.Command{}
		var f chatFlags
		f.register(command)
		require.NoError(t, command.ParseFlags(strings.Fields(c.flags)))
		require.NoError(t, f.answer.Parse(f.set))
		if c.want.MaxTokens == 0 {
			c.want.MaxTokens = cli.DefaultChatTokens
		}
		if c.want.TopP == 0 {
			c.want.TopP = 1
		}
		assert.Equal(t, c.want, pilotfish.Settings(f.answer.Settings))
	}
}

// TestChatChooseRefused: invalid settings are refused before the first question.
func TestChatChooseRefused(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	for args, want := range map[string]string{
		"--temp 1 --min-p 2":            "--min-p 2 is out of range",
		"--repeat-penalty -1":           "--repeat-penalty -1 is out of range",
		"--presence-penalty 3":          "--presence-penalty 3 is out of range",
		"--stop=":                       "--stop is empty",
		`--stop \q`:                     "--stop ",
		"--logit-bias x":                "--logit-bias x is not a token id",
		"--temp 101":                    "--temp 101 is out of range: give 0 to 100",
		"--logprobs 1":                  "unknown flag: --logprobs",
		"--json-schema /nowhere/s.json": "--json-schema: open /nowhere/s.json",
		`--json-schema {"type":"x"}`:    `"x" is no type`,
		"--logit-bias 999999=1":         "there is no token 999999 to add a bias to: ids of this model are 0 to ",
		"--verify 0 --repeat-penalty 2": "penalt",
	} {
		code, stdout, stderr := clitest.Chat(t, clitest.Question(0)+"\n", append([]string{"-m", small},
			strings.Fields(args)...)...)
		assert.NotEqual(t, cli.ExitDone, code, args)
		assert.Contains(t, stderr, want, args)
		assert.Empty(t, stdout, args)
	}
}

// TestChatSaveNames: write errors name the requested file and the missing folder.
func TestChatSaveNames(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	dir := t.TempDir()
	missing := filepath.Join(dir, "none", "x")
	_, _, stderr := clitest.Chat(t, "/save "+missing+"\n", "-m", small)
	assert.Equal(t, "pilotfish: save the conversation: write "+missing+": there is no folder "+filepath.Dir(missing)+
		": create it, or choose another place\n", stderr)

	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "full"), 0o700))
	err := cli.ReplaceFile(folder, nil, 0o600)
	require.ErrorContains(t, err, "write "+folder+": ")
	assert.NotContains(t, err.Error(), ".folder-")
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	err = cli.ReplaceFile(filepath.Join(file, "x"), nil, 0o600)
	require.ErrorContains(t, err, "write "+filepath.Join(file, "x")+": ")
	assert.NotContains(t, err.Error(), ".x-")
	if os.Getuid() != 0 { // root may write everywhere
		require.NoError(t, os.Chmod(folder, 0o500))
		err = cli.ReplaceFile(filepath.Join(folder, "x"), nil, 0o600)
		require.ErrorContains(t, err, "write "+filepath.Join(folder, "x")+": no file can be created in the folder: ")
		assert.True(t, errors.Is(err, fs.ErrPermission))
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2, "no temporary file is left")
}

func TestChatNumberFlags(t *testing.T) {
	clitest.NumbersReach(t, func(args []string) (terms.Settings, error) {
		var f chatFlags
		command := &cobra.Command{}
		f.register(command)
		require.NoError(t, command.ParseFlags(append([]string{"-m", "m"}, args...)))
		if err := cli.CheckFlags(f.set); err != nil {
			return terms.Settings{}, err
		}
		err := f.answer.Parse(f.set)
		return f.answer.Settings, err
	})
}
