package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

func TestManPages(t *testing.T) {
	dir := clitest.ManPages(t)
	chat, err := os.ReadFile(filepath.Join(dir, "pilotfish-chat.1"))
	require.NoError(t, err)
	assert.Contains(t, string(chat), `--think`)
	assert.Contains(t, string(chat), "[PILOTFISH_CLOUD]")
	first, err := os.ReadFile(filepath.Join(dir, "pilotfish.1"))
	require.NoError(t, err)
	assert.Contains(t, string(first), ".EX\n0    success\n1    failure; ", "a list stays a list")
}
