//go:build unix

package eval

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEvalKilled: a run that is killed repeatedly ends with the same answers as one that was not, and has lost no
// graded answer.
func TestEvalKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("uses child processes without the race detector: not with -short")
	}
	dir := t.TempDir()
	args := func(out string) []string {
		return []string{"eval", "demo", "--questions", "48", "--policy", "never,random,margin", "-o", out}
	}
	whole, cut := filepath.Join(dir, "whole"), filepath.Join(dir, "cut")
	code, _, stderr := clitest.Call(t, args(whole)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	want := answersIn(t, whole)
	require.Len(t, want, 48*3)
	kills := 0
	for graded := 0; kills < 50; kills++ {
		c := clitest.Program(t, args(cut)...)
		require.NoError(t, c.Start())
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		over := killAfter(t, cut, graded+20, c.Process, ended)
		b, err := os.ReadFile(cut)
		require.NoError(t, err)
		now := bytes.Count(b, []byte("\n")) - 1
		assert.GreaterOrEqual(t, now, graded, "no graded answer is lost")
		if graded = now; over {
			break
		}
	}
	assert.Positive(t, kills)
	assert.Equal(t, want, answersIn(t, cut))
}

// killAfter kills a process when a file has a number of lines, and waits for its end; or reports that it ended by
// itself.
func killAfter(t *testing.T, path string, lines int, p *os.Process, ended <-chan error) (over bool) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return true
		case <-look.C:
		}
		if b, err := os.ReadFile(path); err == nil && strings.Count(string(b), "\n") > lines {
			require.NoError(t, p.Kill())
			<-ended
			return false
		}
	}
}
