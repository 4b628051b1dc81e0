//go:build unix

package main

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUnwritableStdout calls every command that prints something.
func TestUnwritableStdout(t *testing.T) {
	clitest.UnwritableStdout(t,
		"--help", "help", "version", "completion bash", "routing --help",
		"routing --questions 1 --modes local", "routing --questions 1 --modes local --json",
		"engine -m M -p 4 -n 4 -r 1 -t 1", "engine -m M -p 4 -n 4 -r 1 -t 1 --json", "link --tokens 0 --questions 5",
		"eval demo --questions 1 --policy never", "eval demo --questions 1 --policy never --json",
		"synth --shape tiny NEW",
	)
}

// waitFor is a writer that signals when a text was written.
type waitFor struct {
	all  bytes.Buffer
	text string
	seen chan struct{}
}

func (w *waitFor) Write(b []byte) (int, error) {
	before := strings.Contains(w.all.String(), w.text)
	n, err := w.all.Write(b)
	if !before && strings.Contains(w.all.String(), w.text) {
		close(w.seen)
	}
	return n, err
}

// TestSignals: Ctrl-C gives 130 and SIGTERM 143, and finished results are printed.
func TestSignals(t *testing.T) {
	for _, s := range []struct {
		signal syscall.Signal
		code   int
		word   string
	}{{syscall.SIGINT, 130, "interrupted"}, {syscall.SIGTERM, 143, "terminated"}} {
		t.Run(s.word, func(t *testing.T) {
			var stdout bytes.Buffer
			stderr := &waitFor{text: "2 of 2", seen: make(chan struct{})}
			c := clitest.Program(t, "routing", "--questions", "1", "--modes",
				"local,serial", "--rtt", "0,8s", "--deadline", "off", "--json")
			c.Stdout, c.Stderr = &stdout, stderr
			require.NoError(t, c.Start())
			<-stderr.seen // the first link is finished, and the second takes seconds
			require.NoError(t, c.Process.Signal(s.signal))
			c.Wait()
			assert.Equal(t, s.code, c.ProcessState.ExitCode(), stderr.all.String())
			assert.Equal(t, []string{"pilotfish-bench: " + s.word +
				": link 2 of 2: 0 of 1 questions are answered in all modes\n"}, clitest.Failures(stderr.all.String()))
			assert.Contains(t, stdout.String(), `"mode":"local"`)
			assert.Contains(t, stdout.String(), `"mode":"serial"`)
			assert.Equal(t, 2, strings.Count(stdout.String(), "\n"))
		})
	}
}
