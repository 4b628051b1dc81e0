package run

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestTokenColours: only on a terminal, tokens of the cloud and timed-out tokens have a colour.
func TestTokenColours(t *testing.T) {
	tokens := []pilotfish.Token{{Text: "a", Origin: "edge"}, {Text: "b", Origin: "cloud"}, {Text: "", Origin: "cloud"},
		{Text: "c", Origin: "edge-timeout"}}
	var out bytes.Buffer
	print := cli.NewTokenPrinter(&cli.App{Stdout: &out, Env: func(string) string { return "" }}, &out)
	for _, tok := range tokens {
		require.NoError(t, print(tok))
	}
	assert.Equal(t, "abc", out.String(), "no terminal")

	for no, want := range map[string]string{"": "", "1": "abc", "0": "abc"} {
		tty, text := clitest.Terminal(t)
		print := cli.NewTokenPrinter(&cli.App{Stdout: &cli.Output{W: tty},
			Env: func(key string) string { return map[string]string{"NO_COLOR": no}[key] }}, tty)
		for _, tok := range tokens {
			require.NoError(t, print(tok))
		}
		got := text()
		if no == "" {
			assert.Regexp(t, `^a\x1b\[36;1mb\x1b\[[0-9;]*m\x1b\[33mc\x1b\[[0-9;]*m$`, got)
		} else {
			assert.Equal(t, want, got)
		}
	}
}

// TestControlCharacters: on a terminal, with colours or without, no control character of the model is printed as one,
// whatever token it is in. Elsewhere the output is what the model said.
func TestControlCharacters(t *testing.T) {
	const text, harmless = "\x1b[2Ja\x07\u009b\xff\r", "␛[2Ja␇\uFFFD\uFFFD␍"
	m, err := pilotfish.Load(demo.Small(), "small", pilotfish.Options{Context: 64})
	require.NoError(t, err)
	defer m.Close()
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m|\x1b\\[K")
	for _, no := range []string{"", "1"} {
		env := func(key string) string { return map[string]string{"NO_COLOR": no}[key] }
		for _, tok := range []pilotfish.Token{{Origin: "edge"}, {Origin: "cloud"}, {Origin: "edge-timeout"},
			{Origin: "edge", Kind: pilotfish.KindThought}} {
			tok.Text = text
			for _, preview := range []bool{false, true} {
				tty, shown := clitest.Terminal(t)
				f := &runFlags{}
				f.show = preview
				o := newRunOutput(&cli.App{Stdout: &cli.Output{W: tty}, Env: env}, f, 0, m)
				require.NoError(t, o.printToken(tok))
				if preview {
					assert.Positive(t, o.preview.at, "it knows where the text ends")
				}
				want := harmless
				if no != "" && tok.Kind == pilotfish.KindThought { // the prompt has begun the thought
					want = "<think>\n" + harmless
				}
				got := strings.ReplaceAll(colours.ReplaceAllString(shown(), ""), "\r\n", "\n")
				assert.Equal(t, want, got, "%q %+v", no, tok)
			}
		}
		var out strings.Builder
		o := newRunOutput(&cli.App{Stdout: &out, Env: env}, &runFlags{}, 0, m)
		require.NoError(t, o.printToken(pilotfish.Token{Text: text, Origin: "cloud"}))
		assert.Equal(t, text, out.String())
	}
}

// TestMeterOnTerminal: a bar appears after a delay, and the next line begins at the margin.
func TestMeterOnTerminal(t *testing.T) {
	tty, text := clitest.Terminal(t)
	bubble.Test(t, func(t *testing.T) {
		m := cli.NewMeter(tty, "load", true)
		m.Quiet = 300 * time.Millisecond
		m.Show(1, 1000)
		assert.Nil(t, m.Bar, "it is too early")
		time.Sleep(299 * time.Millisecond)
		m.Show(2, 1000)
		assert.Nil(t, m.Bar)
		m.Close()
		time.Sleep(time.Millisecond)
		m.Show(500, 1000)
		require.NotNil(t, m.Bar)
		assert.EqualValues(t, 1000, m.Bar.GetMax64())
		assert.EqualValues(t, 500, m.Bar.State().CurrentNum)
		m.Show(600, 2000)
		assert.EqualValues(t, 2000, m.Bar.GetMax64())
		m.Say("a sentence")
		m.Close()
	})
	shown := text()
	assert.True(t, strings.HasPrefix(shown, "\rload "), "%q", shown)
	assert.Contains(t, shown, "load: a sentence\r\n")
	assert.True(t, strings.HasSuffix(shown, "\n"))
}

// TestMeterRates: a bar shows the bytes a second.
func TestMeterRates(t *testing.T) {
	rate := regexp.MustCompile(`\([^)]*/s\)`)
	for want, bytes := range map[string]bool{"(100 B/s)": true, "": false} {
		tty, text := clitest.Terminal(t)
		bubble.Test(t, func(*testing.T) {
			m := cli.NewMeter(tty, "load", false)
			if bytes {
				m = cli.NewMeter(tty, "load", true)
			}
			m.Show(0, 1000)
			time.Sleep(time.Second)
			m.Show(100, 1000)
			m.Close()
		})
		assert.Equal(t, want, rate.FindString(text()))
	}
}

// TestPreviewOnTerminal: on a terminal unverified text is shown dim and erased when it is replaced, and the final text
// remains.
func TestPreviewOnTerminal(t *testing.T) {
	small, at := clitest.StartPair(t)
	_, plain, _ := clitest.Call(t, "run", "-m", clitest.DemoFile("large.gguf"), clitest.Question(0))
	for env, dim := range map[string]bool{"": true, "1": false} {
		t.Setenv("NO_COLOR", env)
		tty, text := clitest.Terminal(t)
		var stderr strings.Builder
		code := clitest.Run(t.Context(), append([]string{"run", "-m", small, "--deadline", "off", "--policy", "never",
			"--mode", "serial", "--verify", "0", "--show-unverified", clitest.Question(0)}, at...),
			strings.NewReader(""), tty, &stderr)
		shown := text()
		require.Equal(t, cli.ExitDone, code, stderr.String())
		assert.Equal(t, dim, strings.Contains(shown, dimmed), "%q", shown)
		assert.Contains(t, shown, saveCursor)
		assert.Contains(t, shown, eraseToEnd)
		preview := regexp.MustCompile(saveCursor + "[^\x1b]*(\x1b\\[2m[^\x1b]*\x1b\\[0m)?" + restoreCursor)
		colour := regexp.MustCompile("\x1b\\[[0-9;]*[mK]")
		left := colour.ReplaceAllString(preview.ReplaceAllString(shown, ""), "")
		assert.Equal(t, strings.TrimSpace(plain), strings.TrimSpace(left), stderr.String())
		assert.Contains(t, stderr.String(), ", which verified the others, ")
	}
}
