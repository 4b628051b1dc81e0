package run

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestThoughtColours: a thought is dim on a terminal, stands between its marks if there are no colours, and is left out
// elsewhere.
func TestThoughtColours(t *testing.T) {
	tokens := []pilotfish.Token{{Text: "<think>", Kind: pilotfish.KindMark}, {Text: "\n", Kind: pilotfish.KindMark},
		{Text: "hm", Kind: pilotfish.KindThought}, {Text: "\n", Kind: pilotfish.KindThought},
		{Text: "</think>", Kind: pilotfish.KindMark}, {Text: "\n\n", Kind: pilotfish.KindMark},
		{Text: "Yes"}, {Text: "."}}
	printed := func(a *cli.App, tokens []pilotfish.Token) {
		print := cli.NewTokenPrinter(a, a.Stdout)
		for _, tok := range tokens {
			require.NoError(t, print(tok))
		}
	}
	var out bytes.Buffer
	printed(&cli.App{Stdout: &out, Env: func(string) string { return "" }}, tokens)
	assert.Equal(t, "Yes.", out.String())
	for no, want := range map[string]string{"1": "<think>\r\nhm\r\n</think>\r\n\r\nYes.",
		"": "\x1b[2mhm\x1b[0m\x1b[2m\r\n\x1b[0m\r\nYes."} {
		for _, some := range [][]pilotfish.Token{tokens, tokens[2:]} { // the prompt may have the first mark
			tty, text := clitest.Terminal(t)
			printed(&cli.App{Stdout: &cli.Output{W: tty}, Env: func(key string) string {
				return map[string]string{"NO_COLOR": no}[key]
			}}, some)
			assert.Equal(t, want, text())
		}
	}
	for _, c := range []struct {
		name    string
		thought []string
		want    string
	}{
		{"a line", []string{"hm"}, "\x1b[2mhm\x1b[0m\r\n\r\nYes."},
		{"empty lines at the end", []string{"hm\n\n", ""}, "\x1b[2mhm\r\n\r\n\x1b[0m\r\nYes."},
		{"two lines", []string{"h\nm", ""}, "\x1b[2mh\r\nm\x1b[0m\r\nYes."},
		{"no thought", nil, "Yes."},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tokens []pilotfish.Token
			for _, part := range c.thought {
				tokens = append(tokens, pilotfish.Token{Text: part, Kind: pilotfish.KindThought})
			}
			tokens = append(tokens, pilotfish.Token{}, pilotfish.Token{Text: "Yes"}, pilotfish.Token{Text: "."})
			tty, text := clitest.Terminal(t)
			printed(&cli.App{Stdout: tty, Env: func(string) string { return "" }}, tokens)
			assert.Equal(t, c.want, text(), "a gap between the thought and the answer")
		})
	}
}

// TestPreviewOfThoughts: the place of the cursor after a thought, whose marks are printed only without colours.
func TestPreviewOfThoughts(t *testing.T) {
	for no, want := range map[string][]int{"": {0, 2, 2, 3, 6}, "1": {7, 9, 17, 20, 23}} {
		tty, text := clitest.Terminal(t)
		a := &cli.App{Stdout: tty, Env: func(string) string { return no }}
		_, p := newScreen(40)
		print := cli.NewTokenPrinter(a, p)
		var at []int
		for _, tok := range []pilotfish.Token{{Text: "<think>", Kind: pilotfish.KindMark},
			{Text: "hm", Kind: pilotfish.KindThought}, {Text: "</think>", Kind: pilotfish.KindMark}, {Text: "Yes"},
			{Text: "!!!", Origin: "cloud"}} {
			require.NoError(t, print(tok))
			at = append(at, p.at)
		}
		assert.Equal(t, want, at)
		assert.Empty(t, text(), "all goes through the previewer")
	}
}

// TestThoughtEvents: --json has the kind of each token, and text output is only the answer, except with --raw.
func TestThoughtEvents(t *testing.T) {
	model := clitest.ThinkingModel(t)
	think := fmt.Sprintf("%d=100", clitest.ThinkToken)
	line := []string{"run", "-m", model, "-n", "3", "--logit-bias", think, "What swims?"}
	code, stdout, stderr := clitest.Call(t, append(line, "--json")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, `"text":"<think>"`, "as it is")
	events := clitest.Lines[map[string]any](t, stdout)
	require.Len(t, events, 4)
	for i, kind := range []string{"mark", "thought", "thought"} {
		assert.Equal(t, kind, events[i]["kind"], "event %d", i)
	}
	sum := events[3]["summary"].(map[string]any)
	assert.EqualValues(t, 3, sum["thought_tokens"])
	assert.Equal(t, "<think><think><think>", sum["text"])
	asked := events[3]["summary"].(map[string]any)["prompt_tokens"]
	code, stdout, stderr = clitest.Call(t, append(line, "--json", "--json-schema", `{"const":1}`)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	events = clitest.Lines[map[string]any](t, stdout)
	sum = events[len(events)-1]["summary"].(map[string]any)
	assert.Greater(t, sum["prompt_tokens"], asked, "the template ends the thought")
	assert.Equal(t, "1", sum["text"])
	for choice, more := range map[string]bool{"auto": false, "on": false, "off": true} {
		code, stdout, stderr = clitest.Call(t, append(line, "--json", "--think", choice)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		tokens := clitest.Lines[map[string]any](t, stdout)
		told := tokens[len(tokens)-1]["summary"].(map[string]any)["prompt_tokens"].(float64)
		assert.Equal(t, more, told > asked.(float64), "--think %s", choice)
	}
	code, stdout, stderr = clitest.Call(t, line...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, "\n", stdout)
	code, stdout, stderr = clitest.Call(t, append(line, "--raw")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, "<think><think><think>\n", stdout)
}
