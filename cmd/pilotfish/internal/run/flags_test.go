package run

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/event"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/routing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parsedRun returns the flags of `pilotfish run` after parsing a line.
func parsedRun(t *testing.T, line string) *runFlags {
	t.Helper()
	f, c := new(runFlags), new(cobra.Command)
	f.register(c)
	require.NoError(t, c.ParseFlags(append([]string{"-m", "m"}, strings.Fields(line)...)), line)
	return f
}

// TestRunLookup: guesses from the text change only the number of passes; --lookup limits or disables them, also with a
// gateway.
func TestRunLookup(t *testing.T) {
	clitest.OwnFolders(t)
	m, accepted := clitest.TinyModel(t, "q8_0"), 0
	for _, cloud := range []string{"", " --policy never --require-cloud=false --cloud " + clitest.ClosedPort} {
		do := func(flags string) (*event.Summary, string) {
			line := "-m " + m + " --tokens 1,2,3,4,1,2,3,4,1,2,3,4 -n 60" + cloud + " " + flags
			_, _, s, stderr := clitest.RoutedTokens(t, strings.Fields(line)...)
			return s, stderr
		}
		off, _ := do("--lookup off")
		assert.Zero(t, off.LookupProposed)
		assert.Equal(t, 59, off.Passes)
		assert.Equal(t, 1.0, off.PassesPerToken)
		passes := map[string]int{}
		for _, flags := range []string{"", "--lookup auto", "--lookup 2", "--lookup 8"} {
			s, _ := do(flags)
			assert.Equal(t, off.Tokens, s.Tokens, flags)
			accepted += s.LookupAccepted // the number of guesses depends on the time of passes
			assert.LessOrEqual(t, s.LookupAccepted, s.LookupProposed, flags)
			assert.Equal(t, 59, s.Passes+s.LookupAccepted, flags)
			assert.Equal(t, float64(s.Passes)/59, s.PassesPerToken, flags)
			passes[flags] = s.Passes
		}
		assert.GreaterOrEqual(t, passes["--lookup 2"], 30, "two tokens at a time")
	}
	assert.Positive(t, accepted)
	for name, want := range map[string]group.LookupRows{"auto": group.LookupAuto, "off": group.LookupOff, "2": 2,
		"8": 8} {
		var l group.LookupRows
		require.NoError(t, l.Set(name))
		assert.Equal(t, want, l)
		assert.Equal(t, name, l.String())
	}
	assert.Equal(t, "auto", NewCommand(&cli.App{}).Flags().Lookup("lookup").DefValue)
	assert.Equal(t, "off", routing.NewDemoCommand(&cli.App{}).Flags().Lookup("lookup").DefValue)
}

// TestSystemMessage: an empty system message replaces the default of the model.
func TestSystemMessage(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	prompt := func(args ...string) int {
		code, stdout, stderr := clitest.Call(t, append([]string{"run", "-m", m, "-n", "1", "--json"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		events := clitest.Lines[clitest.RunEvent](t, stdout)
		return events[len(events)-1].Summary.PromptTokens
	}
	const turns = "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nthe sea<|im_end|>\n<|im_start|>assistant\n"
	assert.Equal(t, prompt("--raw", turns), prompt("--system", "", "the sea"))
	assert.Equal(t, prompt("--raw", strings.Replace(turns, "system\n", "system\nbe brief", 1)),
		prompt("--system", "be brief", "the sea"))
	assert.NotEqual(t, prompt("--system", "", "the sea"), prompt("the sea"), "the default of the model")
}

// TestNoChatTemplate: a model without a chat template continues texts, and a question says so.
func TestNoChatTemplate(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	m = clitest.Replaced(t, m, "tokenizer.chat_template", "tokenizer.tach_template")
	m = clitest.Replaced(t, m, "<|im_start|>", "<|in_start|>")
	code, stdout, stderr := clitest.Call(t, "run", "-m", m, "-n", "1", "the sea")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "pilotfish: "+m+": ")
	assert.Contains(t, stderr, "; use --raw to continue a text instead\n")
	code, _, stderr = clitest.Call(t, "run", "-m", m, "-n", "1", "--raw", "the sea")
	assert.Equal(t, cli.ExitDone, code, stderr)
	e, err := engine.Open(m, engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	_, err = group.PromptOf(e, "the sea", false)
	assert.ErrorIs(t, err, pilotfish.ErrUnsupported)
	assert.ErrorContains(t, err, "; use --raw to continue a text instead")
	ids, err := group.PromptOf(e, "the sea", true)
	require.NoError(t, err)
	assert.NotEmpty(t, ids)
}

// TestDrawnSeed: without --seed each run samples another text, and prints the seed to repeat it.
func TestDrawnSeed(t *testing.T) {
	m := clitest.TinyModel(t, "q5_0")
	do := func(args ...string) (*event.Summary, string) {
		_, _, s, stderr := clitest.RoutedTokens(t, append([]string{"-m", m, "--tokens", "1", "-n", "30"}, args...)...)
		return s, stderr
	}
	a, _ := do("--temp", "1.5")
	b, _ := do("--temp", "1.5")
	require.NotNil(t, a.Seed)
	require.NotNil(t, b.Seed)
	assert.NotEqual(t, *a.Seed, *b.Seed)
	assert.NotEqual(t, a.Tokens, b.Tokens)
	again, _ := do("--temp", "1.5", "--seed", strconv.FormatUint(*a.Seed, 10))
	assert.Equal(t, a.Tokens, again.Tokens)
	assert.Equal(t, a.Seed, again.Seed)
	zero, _ := do("--temp", "1.5", "--seed", "0")
	assert.Zero(t, *zero.Seed, "0 is a valid seed")
	greedy, _ := do()
	assert.Nil(t, greedy.Seed)
	_, _, stderr := clitest.Call(t, "run", "-m", m, "--tokens", "1", "-n", "3", "--temp", "1", "--seed", "77")
	assert.Contains(t, stderr, "--seed 77")
}

// markedInput is a prompt that records when it is read.
type markedInput struct {
	io.Reader
	asked time.Time
}

func (m *markedInput) Read(b []byte) (int, error) {
	if m.asked.IsZero() {
		m.asked = time.Now()
	}
	return m.Reader.Read(b)
}

// TestLoadTime: the wait for the prompt does not count as loading.
func TestLoadTime(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	start, in := time.Now(), &markedInput{Reader: strings.NewReader("the sea")}
	var out, errs bytes.Buffer
	require.Equal(t, cli.ExitDone,
		clitest.Run(t.Context(), []string{"run", "-m", m, "--raw", "-n", "1", "--json"}, in, &out, &errs),
		errs.String())
	events := clitest.Lines[clitest.RunEvent](t, out.String())
	assert.LessOrEqual(t, events[1].Summary.LoadMS, cli.Ms(in.asked.Sub(start)))
	assert.Positive(t, events[1].Summary.LoadMS)
}

// full is an output that accepts a number of bytes.
type full struct {
	room  int
	err   error
	after int // writes after the failure
}

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	if f.room -= n; n < len(b) {
		f.after++
		return n, f.err
	}
	return n, nil
}

// TestFullOutput: when stdout accepts no more data, the run ends with one line and exit status 1.
func TestFullOutput(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	for _, flags := range []string{"", "--json", "--require-cloud=false --deadline 1us --cloud " + clitest.ClosedPort} {
		for _, room := range []int{0, 1, 7, 30} {
			args := append([]string{"run", "-m", m, "--tokens", "5,6,7", "-n", "400", "--ignore-eos"},
				strings.Fields(flags)...)
			var errs bytes.Buffer
			out := &full{room: room, err: errors.Join(syscall.ENOSPC)}
			code := clitest.Run(t.Context(), args, strings.NewReader(""), out, &errs)
			assert.Equal(t, cli.ExitFailed, code)
			said := strings.Split(strings.TrimSpace(errs.String()), "\n")
			assert.Equal(t, "pilotfish: "+syscall.ENOSPC.Error(), said[len(said)-1])
			assert.Equal(t, 1, out.after, "the first error ends the run")
			assert.NotContains(t, errs.String(), "generated", "no summary")
		}
	}
}

// TestStopInWords: the text summary says why the text ended.
func TestStopInWords(t *testing.T) {
	o := &runOutput{f: &runFlags{answer: group.AnswerFlags{Settings: terms.Settings{MaxTokens: 9}}}, context: 512}
	assert.Equal(t, "stopped at the limit of 9 tokens (-n)", o.stopped("length"))
	assert.Equal(t, "stopped: the context of 512 tokens is full (-c)", o.stopped("context"))
	assert.Equal(t, "stopped at the end token", o.stopped("end"))
	o.f.answer.MaxTokens = 0
	assert.Equal(t, o.stopped("context"), o.stopped("length"))
}
