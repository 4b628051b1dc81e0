//go:build unix

package main

import (
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestUnwritableStdout calls every command that prints something.
func TestUnwritableStdout(t *testing.T) {
	clitest.UnwritableStdout(t,
		"--help", "help", "version", "version --json", "completion bash", "demo --help", "demo", "inspect M",
		"inspect M --json", "tokenize -m M hello", "logits -m M --tokens 1", "logits -m M --tokens 1 --json",
	)
}
