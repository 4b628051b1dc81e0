package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestChat: an answer for each line, each after the earlier turns, which are reused.
func TestChat(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	code, stdout, stderr := clitest.Chat(t, clitest.Question(0)+"\n\n"+clitest.Question(1)+"\n/stats\n", "-m", small)
	require.Equal(t, cli.ExitDone, code, stderr)
	answers := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, answers, 2, "empty lines and statistics are not answered")
	_, alone, _ := clitest.Call(t, "run", "-m", small, clitest.Question(0))
	assert.Equal(t, strings.TrimSpace(alone), strings.TrimSpace(answers[0]))

	stats := regexp.MustCompile(`last answer: prompt of (\d+) tokens in .*, (\d+) of them reused from before; (\d+) ` +
		`generated`)
	counts := stats.FindStringSubmatch(stderr)
	require.NotNil(t, counts, stderr)
	var prompt, reused int
	fmt.Sscan(counts[1], &prompt)
	fmt.Sscan(counts[2], &reused)
	assert.Greater(t, reused, prompt/3, "the first turn is reused")
	assert.Less(t, reused, prompt)
	assert.Contains(t, stderr, "of 512 tokens\n")
	assert.Contains(t, stderr, "all 2 answers: ")
	assert.NotContains(t, stderr, "cloud")
	_, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n/undo\n/stats\n", "-m", small)
	assert.NotContains(t, stderr, "last answer: ", "it was forgotten")
	assert.Contains(t, stderr, "all 1 answers: ")
}

// TestChatCommands: the output and effect of each command.
func TestChatCommands(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	for _, c := range []struct{ lines, want string }{
		{"/help", "/save FILE "}, {"/help", "begins and ends a text of several lines"},
		{"/?", "/save FILE "},
		{"/stats", "no answers yet"},
		{"/system", "the system message is the model's own"},
		{"/system be brief\n/system", "the system message is: be brief\n"},
		{"/system be brief\n/clear\n/system", "the system message is: be brief\n"},
		{"/system be brief\n/system off\n/system", "the system message is the model's own"},
		{"/temp", "temperature 0: the most probable token is always picked"},
		{"/temp 0.5 7", "temperature 0.5, drawn with --seed 7\n"},
		{"/temp 100 18446744073709551615", "temperature 100, drawn with --seed 18446744073709551615\n"},
		{"/temp 100.1", "/temp 100.1 is out of range: give 0 to 100"},
		{"/temp 0.5 7\n/temp 0\n/temp", "temperature 0: the most probable token is always picked"},
		{"/cloud", "no cloud: the small model answers alone"},
		{"/cloud off", "the small model answers alone"},
		{clitest.Question(0) + "\n/undo\n/stats", "forgotten: " + clitest.Question(0)[:20]},
		{clitest.Question(0) + "\n/undo\n/undo", "pilotfish: there is no question yet: ask one first\n"},
		{clitest.Question(0) + "\n/clear\n/retry", "pilotfish: there is no question yet: ask one first\n"},
		{clitest.Question(0) + "\n/retry", "(at temperature 0 the answer is the same"},
		{"/retry", "pilotfish: there is no question yet: ask one first\n"},
		{"/temp x", "pilotfish: /temp x: a temperature is a number, such as 0.7\n"},
		{"/temp -1", "pilotfish: /temp -1 is out of range: give 0 to 100\n"},
		{"/temp NaN", "/temp NaN: a temperature"},
		{"/temp Inf", "/temp +Inf is out of range: give"},
		{"/temp 1e99", "/temp 1e+99 is out of range: give 0 to 100"},
		{"/temp 1e999", "/temp +Inf is out of range: give"},
		{"/temp 1 x", "a seed is a whole number"},
		{"/temp\t0.5 7", "temperature 0.5, drawn with --seed 7\n"},
		{"/temp 1 2 3", "/temp takes a temperature and a seed"},
		{"/clear it", "/clear takes no argument: type /clear alone"},
		{"/foo", "there is no command /foo: /help lists the commands"},
		{"/save", "/save needs the name of a file, such as /save "},
		{"/load", "/load needs the name of a file"},
		{"/load /nowhere/c.json", "load the conversation: open /nowhere/c.json"},
		{"/cloud here", `pilotfish: /cloud "here": `},
		{"/cloud " + clitest.ClosedPort, "pilotfish: /cloud " + clitest.ClosedPort + ": "},
		{"/cloud a:1 b c", "/cloud takes an address and the fingerprint"},
		{"/cloud a:1 b", "pilotfish: /cloud a:1: the fingerprint: "},
		{`"""` + "\nno end", `the text that begins with """ does not end`},
		{strings.Repeat("word ", 600), "pilotfish: the question has about "},
	} {
		code, stdout, stderr := clitest.Chat(t, c.lines+"\n", "-m", small)
		assert.Contains(t, stderr, c.want, c.lines)
		failed := strings.Contains(stderr, "pilotfish: ")
		assert.Equal(t, failed, code != cli.ExitDone, "%s: %s", c.lines, stderr)
		if !strings.Contains(c.lines, clitest.Question(0)) {
			assert.Empty(t, stdout, c.lines)
		}
	}
	for _, quit := range []string{"/quit", "/exit", "/bye"} {
		code, stdout, stderr := clitest.Chat(t, quit+"\n"+clitest.Question(0)+"\n", "-m", small)
		assert.Equal(t, cli.ExitDone, code, stderr)
		assert.Empty(t, stdout, "nothing is read after %s", quit)
	}
	_, stdout, stderr := clitest.Chat(t, clitest.Question(0)+"\n/system new\n/save "+
		filepath.Join(t.TempDir(), "c")+"\n", "-m", small)
	assert.NotEmpty(t, stdout)
	assert.Contains(t, stderr, "3 messages in ", "the turns stay")
	_, _, stderr = clitest.Chat(t, "/save ~/talk.json\n/load ~/talk.json\n", "-m", small)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(home, "talk.json"))
	assert.Contains(t, stderr, "loaded 0 questions with their answers from "+filepath.Join(home, "talk.json")+"\n")
	_, _, stderr = clitest.Chat(t, "/temp 0.5\n/temp 0.5\n", "-m", small)
	seeds := regexp.MustCompile(`--seed \d+`).FindAllString(stderr, -1)
	require.Len(t, seeds, 2)
	assert.NotEqual(t, seeds[0], seeds[1], "drawn anew")
	_, stdout, _ = clitest.Chat(t, clitest.Question(0)+"\n/retry\n", "-m", small)
	answers := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, answers, 2)
	assert.Equal(t, strings.TrimSpace(answers[0]), strings.TrimSpace(answers[1]),
		"asked again without the first answer")
	_, stdout, _ = clitest.Chat(t, clitest.Question(1)+"\n/clear\n"+clitest.Question(0)+"\n", "-m", small)
	_, alone, _ := clitest.Chat(t, clitest.Question(0)+"\n", "-m", small)
	assert.True(t, strings.HasSuffix(stdout, "\n"+alone), "as without earlier turns: %q, %q", stdout, alone)
	_, undone, _ := clitest.Chat(t, clitest.Question(1)+"\n/undo\n"+clitest.Question(0)+"\n", "-m", small)
	assert.Equal(t, stdout, undone)
}

// TestChatFlags: flags have their effects, and invalid values are wrong usage.
func TestChatFlags(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	_, plain, _ := clitest.Chat(t, clitest.Question(0)+"\n", "-m", small)
	for _, args := range [][]string{{"--threads", "1"}, {"--kv", "f32"}, {"--huge-pages", "off"},
		{"--backend", "cpu"}} {
		code, stdout, stderr := clitest.Chat(t, clitest.Question(0)+"\n", append([]string{"--model", small},
			args...)...)
		assert.Equal(t, cli.ExitDone, code, stderr)
		assert.Equal(t, plain, stdout, args)
	}
	_, stdout, stderr := clitest.Chat(t, clitest.Question(0)+"\n/stats\n", "-m", small, "--ctx", "100",
		"--max-tokens", "2")
	assert.Contains(t, stderr, "(cut off after 2 tokens: -n sets the most)")
	assert.Contains(t, stderr, "of 100 tokens\n")
	assert.True(t, strings.HasPrefix(plain, strings.TrimSuffix(stdout, "\n")))
	_, _, stderr = clitest.Chat(t, "/system\n", "-m", small, "--system", "be kind")
	assert.Contains(t, stderr, "the system message is: be kind")
	_, _, stderr = clitest.Chat(t, "/system\n", "-m", small, "--system", "")
	assert.Contains(t, stderr, "the system message is: \n", "an empty message is used")
	for args, want := range map[string]string{
		"-n -1":                "--max-tokens -1 is out of range",
		"--temp -1":            "--temp -1 is out of range: give 0 to 100",
		"--backend gpu":        "--backend gpu is not a backend",
		"--threads -1":         "--threads -1 is out of range",
		"--load=":              "--load is empty",
		"--policy learned":     "--policy learned needs a router",
		"--cloud nowhere":      `--cloud "nowhere": `,
		"--cloud a:1 --pin 1x": "--pin: ",
		"more words":           `pilotfish: chat takes no arguments besides flags: leave out "more"`,
	} {
		code, stdout, stderr := clitest.Chat(t, "", append([]string{"-m", small}, strings.Fields(args)...)...)
		assert.Equal(t, cli.ExitUsage, code, "%s: %s", args, stderr)
		assert.Contains(t, stderr, want, args)
		assert.Empty(t, stdout)
	}
	code, _, stderr := clitest.Chat(t, "")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "-m is missing: give -m FILE (the model: a GGUF file, or the name of a downloaded model, OWNER/NAME:QUANT "+
		"[PILOTFISH_MODEL])")
	code, _, stderr = clitest.Chat(t, "", "-m", "/nowhere/m.gguf")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "/nowhere/m.gguf: no such file")
	code, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n", "-m", small, "--backend", "metal")
	if code != cli.ExitDone {
		assert.Contains(t, stderr, "metal")
	}
}

// TestChatSampling: samples depend on the seed, which is printed if it was not given.
func TestChatSampling(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	draw := func(args ...string) (stdout, stderr string) {
		_, stdout, stderr = clitest.Chat(t, clitest.Question(0)+"\n", append([]string{"-m", small, "-n", "20"},
			args...)...)
		return stdout, stderr
	}
	first, said := draw("--temp", "3")
	seed := regexp.MustCompile(`temperature 3, drawn with --seed (\d+)\n`).FindStringSubmatch(said)
	require.NotNil(t, seed, said)
	second, _ := draw("--temp", "3")
	assert.NotEqual(t, first, second, "drawn anew")
	again, _ := draw("--temp", "3", "--seed", seed[1])
	assert.Equal(t, first, again)
	greedy, said := draw()
	assert.NotContains(t, said, "seed")
	assert.NotEqual(t, greedy, first)
	best, _ := draw("--temp", "3", "--top-k", "1")
	assert.Equal(t, greedy, best)
	best, _ = draw("--temp", "3", "--top-p", "0.000001")
	assert.Equal(t, greedy, best)
	_, _, retried := clitest.Chat(t, clitest.Question(0)+"\n/retry\n", "-m", small, "-n", "9", "--temp", "3",
		"--seed", "5")
	assert.Equal(t, 1, strings.Count(retried, "--seed 5\n"), retried)
	assert.Equal(t, 2, strings.Count(retried, "--seed "), "another seed for another try")
}

// TestChatSaveLoad: a conversation loaded from a file continues as if it had not been interrupted.
func TestChatSaveLoad(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	dir := t.TempDir()
	file, other := filepath.Join(dir, "c.json"), filepath.Join(dir, "other.txt")
	_, whole, _ := clitest.Chat(t, clitest.Question(0)+"\n"+clitest.Question(1)+"\n", "-m", small, "--system",
		"sys <&>\nZwei")
	code, first, stderr := clitest.Chat(t, clitest.Question(0)+"\n/save "+file+"\n/save "+file+"\n", "-m", small,
		"--system",
		"sys <&>\nZwei")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stderr, "3 messages in "+file)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var saved map[string]any
	require.NoError(t, json.Unmarshal(b, &saved))
	assert.Equal(t, "pilotfish-chat", saved["format"])
	assert.EqualValues(t, 1, saved["version"])
	assert.Equal(t, "pilotfish-demo-small", saved["model"])
	assert.Contains(t, string(b), `"content": "sys <&>\nZwei"`)

	for _, load := range [][]string{{"/load " + file + "\n"}, {"", "--load", file}} {
		code, rest, stderr := clitest.Chat(t, load[0]+clitest.Question(1)+"\n", append([]string{"-m", small},
			load[1:]...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		assert.Equal(t, whole, first+rest)
		assert.Contains(t, stderr, "loaded 1 question with its answer from "+file)
		assert.NotContains(t, stderr, "another model")
	}
	for model, said := range map[string]bool{"": false, "other": true} {
		text := bytes.Replace(b, []byte("pilotfish-demo-small"), []byte(model), 1)
		require.NoError(t, os.WriteFile(other, text, 0o600))
		_, _, stderr := clitest.Chat(t, "", "-m", small, "--load", other)
		assert.Equal(t, said, strings.Contains(stderr, "(with answers of another model: \"other\")"), stderr)
		assert.Equal(t, said, strings.Contains(stderr, "another model"), stderr)
	}
	require.NoError(t, os.WriteFile(other, []byte("precious"), 0o600))
	code, _, stderr = clitest.Chat(t, "/save "+other+"\n", "-m", small)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr,
		other+" already exists, and /save replaces only saved conversations: choose another name ("+
			other+": this is not a saved conversation: it is not JSON: ")
	b, err = os.ReadFile(other)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(b))
	code, _, stderr = clitest.Chat(t, "", "-m", small, "--load", other)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "not a saved conversation")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2, "nothing else is left")
}

// TestChatSaveKV: with --kv, the computed state of a conversation is saved and loaded. The file is readable only by the
// user and replaces no other file. State of another conversation is not used.
func TestChatSaveKV(t *testing.T) {
	clitest.OwnFolders(t)
	small, large, _ := clitest.DemoPairFiles(t)
	dir := held.TempDir(t)
	file := filepath.Join(dir, "a talk.json")
	_, whole, _ := clitest.Chat(t, clitest.Question(0)+"\n"+clitest.Question(1)+"\n", "-m", small)
	code, first, stderr := clitest.Chat(t, clitest.Question(0)+"\n/save "+file+" --kv\n/save "+file+" --kv\n", "-m",
		small)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stderr, "keys and values in "+file+".kv\n")
	info, err := os.Stat(file + ".kv")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	code, rest, stderr := clitest.Chat(t, clitest.Question(1)+"\n/stats\n", "-m", small, "--load", file)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, whole, first+rest)
	assert.Contains(t, stderr, "loaded keys and values from "+file+".kv\n")
	with := reused(t, stderr)
	_, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n"+clitest.Question(1)+"\n/stats\n", "-m", small)
	assert.Equal(t, reused(t, stderr), with, "as without the interruption")
	assert.Positive(t, with)

	_, _, stderr = clitest.Chat(t, clitest.Question(1)+"\n", "-m", large, "--load", file)
	assert.Contains(t, stderr, file+".kv is not used, the conversation is computed again: ")
	assert.Contains(t, stderr, "the file of the model was")
	_, _, stderr = clitest.Chat(t, clitest.Question(1)+"\n/save "+file+"2 --kv\n", "-m", large)
	assert.Contains(t, stderr, "keys and values in "+file+"2.kv\n")
	_, _, stderr = clitest.Chat(t, clitest.Question(1)+"\n/save "+file+"2 --kv\n", "-m", small)
	assert.Contains(t, stderr, "keys and values in "+file+"2.kv\n", "those of another model are replaced")
	require.NoError(t, os.WriteFile(file+".kv", []byte("precious"), 0o600))
	code, rest, stderr = clitest.Chat(t, clitest.Question(1)+"\n/save "+file+" --kv\n", "-m", small, "--load", file)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Equal(t, whole, first+rest)
	assert.Contains(t, stderr, file+".kv already exists, and only saved keys and values are replaced")
	b, err := os.ReadFile(file + ".kv")
	require.NoError(t, err)
	assert.Equal(t, "precious", string(b))
	_, _, stderr = clitest.Chat(t, "/save "+filepath.Join(dir, "new")+" --kv\n", "-m", small)
	assert.Contains(t, stderr, "nothing has been generated in this chat yet")
	_, _, stderr = clitest.Chat(t, "/save --kv\n", "-m", small)
	assert.Contains(t, stderr, "/save needs the name of a file")
}

// reused returns the number of reused tokens of the last prompt, from /stats.
func reused(t *testing.T, stderr string) (n int) {
	t.Helper()
	found := regexp.MustCompile(`(\d+) of them reused`).FindStringSubmatch(stderr)
	require.Len(t, found, 2, stderr)
	n, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return n
}

func TestParseChat(t *testing.T) {
	head := `{"format":"pilotfish-chat","version":1,`
	turn := func(roles ...string) string {
		var all []string
		for _, r := range roles {
			all = append(all, fmt.Sprintf(`{"role":%q,"content":"x"}`, r))
		}
		return head + `"messages":[` + strings.Join(all, ",") + `]}`
	}
	for text, want := range map[string]string{
		turn():                              "",
		turn("system"):                      "",
		turn("user", "assistant"):           "",
		turn("system", "user", "assistant"): "",
		"":                                  "this is not a saved conversation: it is not JSON: ",
		"{}":                                `its "format" is "", not "pilotfish-chat"`,
		`[]`: "this is not a saved conversation: it is a list, not an object: use a " +
			"file that /save has written",
		`{"format":"pilotfish-chat","version":2}`: "it has version 2 of the format, this " +
			"program reads version 1",
		`{"format":"pilotfish-chat"}`:    "it has version 0",
		head + `"messages":[],"more":1}`: `unknown field "more"`,
		turn("user", "assistant") +
			"x": "this is not a saved conversation: it is not JSON: ",
		head + `"messages":[{"role":"user","content":"` + "\xff" + `"}]}`: "it is not UTF-8 text",
		turn("user"): "messages[0] is a question without an answer",
		turn("system", "user", "assistant", "user"): "messages[3] is a question without an answer",
		turn("assistant"): `messages[0] has the role "assistant", but "user" comes here: after the system ` +
			`message`,
		turn("user", "user"):     `messages[1] has the role "user", but "assistant" comes here`,
		turn("user", "system"):   `messages[1] has the role "system"`,
		turn("system", "system"): `messages[1] has the role "system"`,
		turn("tool"):             `messages[0].role is "tool": a role is system, user or assistant`,
		turn("system", "tool"):   `messages[1].role is "tool"`,
	} {
		_, err := parseChat([]byte(text))
		if want == "" {
			assert.NoError(t, err, text)
		} else {
			assert.ErrorContains(t, err, want, text)
		}
	}
}

// TestReadChatLimit: a conversation of a few megabytes is read, and a file above 64 MiB is not.
func TestReadChatLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	text := `{"format":"pilotfish-chat","version":1,"messages":[]}` + strings.Repeat(" ", 4<<20)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err := readChat(path)
	assert.NoError(t, err)
	require.NoError(t, os.Truncate(path, 64<<20+1))
	_, err = readChat(path)
	assert.ErrorContains(t, err, "has more than 67108864 bytes")
}

// FuzzParseChat: parsing any file does not panic, and the result is a list of turns.
func FuzzParseChat(f *testing.F) {
	f.Add([]byte(`{"format":"pilotfish-chat","version":1,"messages":[{"role":"user","content":"a"},` +
		`{"role":"assistant","content":"b"}]}`))
	f.Add([]byte(`{"format":"pilotfish-chat","version":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		saved, err := parseChat(b)
		if err != nil {
			return
		}
		require.NoError(t, checkTurns(saved.Messages))
		again, err := json.Marshal(saved)
		require.NoError(t, err)
		_, err = parseChat(again)
		require.NoError(t, err)
	})
}

// TestChatFullContext: when the context is full, the oldest turns are left out with a message, but are still saved.
func TestChatFullContext(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	file := filepath.Join(t.TempDir(), "c.json")
	var lines strings.Builder
	const n = 12
	for i := range n {
		fmt.Fprintln(&lines, clitest.Question(i))
	}
	fmt.Fprintln(&lines, "/save "+file)
	code, stdout, stderr := clitest.Chat(t, lines.String(), "-m", small, "--ctx", "160", "--system", "be brief")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, n, strings.Count(stdout, "\n"))
	assert.Contains(t, stderr, "(the context of 160 tokens is full: the oldest ")
	saved, err := readChat(file)
	require.NoError(t, err)
	require.Len(t, saved.Messages, 1+2*n, "with all turns")
	for i := range n {
		assert.Equal(t, clitest.Question(i), saved.Messages[1+2*i].Content)
	}
	assert.Equal(t, "be brief", saved.Messages[0].Content)

	code, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n", "-m", small, "--ctx", "160", "--load", file)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `the oldest \d+ turns are left out`, stderr, "a loaded conversation must fit, too")
	code, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n"+clitest.Question(1)+"\n", "-m", small, "--ctx", "80",
		"--temp", "9", "--seed",
		"1", "-n", "0")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stderr, "(cut off: the context of 80 tokens is full.")
	assert.Contains(t, stderr, "the oldest turn is left out")
}

// TestChatMakeRoom: the remaining turns begin with the system message and a question; the number of left-out turns is
// reset with a new conversation.
func TestChatMakeRoom(t *testing.T) {
	clitest.OwnFolders(t)
	small, _, _ := clitest.DemoPairFiles(t)
	m, err := pilotfish.Open(small, pilotfish.Options{Context: 160})
	require.NoError(t, err)
	defer m.Close()
	for _, system := range []string{"", "be brief"} {
		f := &chatFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
		f.set.StringVar(&f.system, "system", "", "")
		if system != "" {
			require.NoError(t, f.set.Set("system", system))
		}
		c := newConversation(&cli.App{Stdout: io.Discard, Stderr: io.Discard, Env: os.Getenv}, f, m,
			pilotfish.Route{})
		defer c.close()
		for i := range 8 {
			require.NoError(t, c.ask(t.Context(), clitest.Question(i), false))
			head, turns := split(c.chat.Messages())
			assert.Len(t, head, min(len(system), 1))
			require.NotEmpty(t, turns)
			assert.Zero(t, len(turns)%2)
			assert.Equal(t, "user", turns[0].Role)
			assert.Equal(t, clitest.Question(i), turns[len(turns)-2].Content)
			assert.Len(t, c.messages(), min(len(system), 1)+2*i+2)
		}
		require.NotEmpty(t, c.dropped)
		file := filepath.Join(t.TempDir(), "c.json")
		require.NoError(t, c.save(file))
		require.NoError(t, c.load(t.Context(), file))
		assert.Len(t, c.messages(), min(len(system), 1)+16)
		require.NoError(t, c.ask(t.Context(), clitest.Question(9), false))
		require.NotEmpty(t, c.dropped)
		require.NoError(t, c.clear(t.Context(), ""))
		assert.Len(t, c.messages(), min(len(system), 1))
	}
}

// TestChatCloud: --cloud and /cloud select a gateway, and an error of it does not end a chat that has begun.
func TestChatCloud(t *testing.T) {
	clitest.OwnFolders(t)
	small, large, _ := clitest.DemoPairFiles(t)
	t.Setenv("PILOTFISH_TOKEN", "a secret of sixteen bytes")
	address, pin, stop := clitest.StartCloud(t, "-m", large)
	t.Setenv("PILOTFISH_TOKEN", "")
	require.NoError(t, os.Unsetenv("PILOTFISH_TOKEN"))
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("a secret of sixteen bytes\n"), 0o600))
	_, whole, _ := clitest.Call(t, "run", "-m", large, clitest.Question(0))

	code, stdout, stderr := clitest.Chat(t,
		clitest.Question(0)+"\n/stats\n/cloud\n/cloud off\n"+clitest.Question(1)+"\n/stats\n/cloud "+address+"\n",
		"-m", small,
		"--cloud", address, "--pin", pin, "--token-file", token, "--no-resume", "--policy", "always", "--deadline",
		"off")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, strings.TrimSpace(whole), strings.TrimSpace(strings.Split(stdout, "\n")[0]),
		"all tokens are the large model's")
	assert.Regexp(t, `cloud: (\d+) of (\d+) tokens, \d+ asks`, stderr)
	assert.Contains(t, stderr, "the cloud is "+address+", with the model \"pilotfish-demo-large\"")
	assert.Equal(t, 1, strings.Count(stderr, "\ncloud: "), "not for an answer without a cloud")
	assert.Regexp(t, `all 2 answers: \d+ tokens, \d+ from the cloud \(\d`, stderr)
	assert.Contains(t, stderr, "connected to "+address)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Join(cache, "pilotfish", "tickets"), "--no-resume")

	code, _, stderr = clitest.Chat(t, "/cloud "+address+" "+pin+"\n"+clitest.Question(0)+"\n/stats\n", "-m", small,
		"--token-file",
		token, "--budget", "0.3")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stderr, "asks with ")
	assert.DirExists(t, filepath.Join(cache, "pilotfish", "tickets"))

	for _, c := range []struct{ args, want string }{
		{"--pin " + pin, "access token with --token-file"},
		{"--token-file " + token + " --pin " + strings.Repeat("ab", 32), "give its new fingerprint with --pin"},
		{"--token-file " + token, "give the certificate's fingerprint with --pin"},
	} {
		code, _, stderr := clitest.Chat(t, clitest.Question(0)+"\n",
			append([]string{"-m", small, "--cloud", address}, strings.Fields(c.args)...)...)
		assert.Equal(t, cli.ExitFailed, code, c.args)
		assert.Contains(t, stderr, c.want, c.args)
	}
	_, _, stderr = clitest.Chat(t, "/cloud "+address+" "+strings.Repeat("ab", 32)+"\n", "-m", small, "--token-file",
		token)
	assert.Contains(t, stderr, "pilotfish: /cloud "+address+": ")
	assert.Contains(t, stderr, "give its new fingerprint after the address, as in /cloud "+address+" FINGERPRINT")
	assert.NotContains(t, stderr, "--cloud")
	stop()
	code, _, stderr = clitest.Chat(t, clitest.Question(0)+"\n", "-m", small, "--cloud", clitest.ClosedPort)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "--cloud "+clitest.ClosedPort+": ")
}

// TestChatRouting: each flag of routing has its effect on the questions.
func TestChatRouting(t *testing.T) {
	clitest.OwnFolders(t)
	small, large, net := clitest.DemoPairFiles(t)
	address, pin, _ := clitest.StartCloud(t, "-m", large)
	asks := func(args ...string) (asks int, answer string) {
		code, stdout, stderr := clitest.Chat(t, clitest.Question(0)+"\n/stats\n",
			append([]string{"-m", small, "--cloud", address, "--pin", pin, "--deadline", "off"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		found := regexp.MustCompile(`(\d+) asks with`).FindStringSubmatch(stderr)
		if found != nil {
			fmt.Sscan(found[1], &asks)
		}
		return asks, stdout
	}
	never, local := asks("--policy", "never")
	assert.Zero(t, never)
	always, cloud := asks("--policy", "always", "--mode", "serial")
	assert.NotZero(t, always)
	low, _ := asks("--threshold", "0")
	high, _ := asks("--threshold", "1", "--branches", "1", "--window", "4", "--inflight", "2", "--ahead", "4")
	assert.Zero(t, low)
	assert.Greater(t, high, low)
	all, _ := asks("--budget", "1", "--mode", "pipelined")
	assert.NotZero(t, all)
	learned, _ := asks("--router", net)
	assert.Less(t, learned, high)
	_, verified := asks("--policy", "never", "--verify", "0")
	assert.Equal(t, cloud, verified)
	assert.NotEqual(t, local, verified)
	for _, args := range []string{"--window 0", "--inflight 0", "--ahead 0", "--deadline x", "--branches x",
		"--budget 2", "--verify x", "--threshold 2"} {
		code, _, stderr := clitest.Chat(t, "", append([]string{"-m", small}, strings.Fields(args)...)...)
		assert.Equal(t, cli.ExitUsage, code, args)
		assert.Contains(t, stderr, strings.Fields(args)[0])
	}
	code, _, stderr := clitest.Chat(t, clitest.Question(0)+"\n", "-m", small, "--cloud", address, "--pin", pin,
		"--policy", "always",
		"--deadline", "1ns")
	assert.Equal(t, cli.ExitDone, code)
	assert.Contains(t, stderr, "(the cloud did not answer for ")
}
