package run

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parsedRun returns the flags of `pilotfish run` after parsing a line.
func parsedRun(t *testing.T, line string) *runFlags {
	t.Helper()
	f, c := new(runFlags), new(cobra.Command)
	f.registerFlags(c)
	require.NoError(t, c.ParseFlags(append([]string{"-m", "m"}, strings.Fields(line)...)), line)
	return f
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
	assert.Equal(t, "stopped at the limit of 9 tokens (-n)", o.stopReasonText("length"))
	assert.Equal(t, "stopped: the context of 512 tokens is full (-c)", o.stopReasonText("context"))
	assert.Equal(t, "stopped at the end token", o.stopReasonText("end"))
	o.f.answer.MaxTokens = 0
	assert.Equal(t, o.stopReasonText("context"), o.stopReasonText("length"))
}
