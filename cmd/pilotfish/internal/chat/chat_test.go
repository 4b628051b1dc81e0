package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

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
		`[]`: `this is not a saved conversation: it has a value of the wrong type (array) at byte 1: ` +
			`use a file that /save has written`,
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
		turn("system", "tool"):   `messages[1] has the role "tool"`,
	} {
		_, err := parseSavedChat([]byte(text))
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
	_, err := readSavedChat(path)
	assert.NoError(t, err)
	require.NoError(t, os.Truncate(path, 64<<20+1))
	_, err = readSavedChat(path)
	assert.ErrorContains(t, err, "has more than 67108864 bytes")
}

// FuzzParseChat: parsing any file does not panic, and the result is a list of turns.
func FuzzParseChat(f *testing.F) {
	f.Add([]byte(`{"format":"pilotfish-chat","version":1,"messages":[{"role":"user","content":"a"},` +
		`{"role":"assistant","content":"b"}]}`))
	f.Add([]byte(`{"format":"pilotfish-chat","version":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		saved, err := parseSavedChat(b)
		if err != nil {
			return
		}
		require.NoError(t, checkTurnOrder(saved.Messages))
		again, err := json.Marshal(saved)
		require.NoError(t, err)
		_, err = parseSavedChat(again)
		require.NoError(t, err)
	})
}

// TestChatFullContext: when the context is full, the oldest turns are left out with a message, but are still saved.
func TestChatFullContext(t *testing.T) {
	clitest.OwnFolders(t)
	small := clitest.DemoFile("small.gguf")
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
	saved, err := readSavedChat(file)
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
	assert.Contains(t, stderr, "cut off: the context of 80 tokens is full")
	assert.Contains(t, stderr, "the oldest turn is left out")
}

// TestChatMakeRoom: the remaining turns begin with the system message and a question; the number of left-out turns is
// reset with a new conversation.
func TestChatMakeRoom(t *testing.T) {
	clitest.OwnFolders(t)
	m := loaded(t, demo.Small(), 160)
	for _, system := range []string{"", "be brief"} {
		f := &chatFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
		f.set.StringVar(&f.system, "system", "", "")
		if system != "" {
			require.NoError(t, f.set.Set("system", system))
		}
		c := newConversation(&cli.App{Stdout: io.Discard, Stderr: io.Discard, Env: os.Getenv}, f, m,
			pilotfish.Route{})
		defer c.closeChat()
		for i := range 8 {
			require.NoError(t, c.askQuestion(t.Context(), clitest.Question(i), false))
			head, turns := splitSystem(c.chat.Messages())
			assert.Len(t, head, min(len(system), 1))
			require.NotEmpty(t, turns)
			assert.Zero(t, len(turns)%2)
			assert.Equal(t, "user", turns[0].Role)
			assert.Equal(t, clitest.Question(i), turns[len(turns)-2].Content)
			assert.Len(t, c.allMessages(), min(len(system), 1)+2*i+2)
		}
		require.NotEmpty(t, c.dropped)
		file := filepath.Join(t.TempDir(), "c.json")
		require.NoError(t, c.saveChat(file))
		require.NoError(t, c.loadChat(t.Context(), file))
		assert.Len(t, c.allMessages(), min(len(system), 1)+16)
		require.NoError(t, c.askQuestion(t.Context(), clitest.Question(9), false))
		require.NotEmpty(t, c.dropped)
		require.NoError(t, c.clearCommand(t.Context(), ""))
		assert.Len(t, c.allMessages(), min(len(system), 1))
	}
}
