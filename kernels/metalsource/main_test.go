package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/kernels"
)

// TestWrite: each source is in a file of its own, in both forms.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeSource(dir))
	for _, weight := range append(kernels.Types(), "") {
		for form, equal := range map[string]bool{"": false, "_equal": true} {
			text, err := os.ReadFile(filepath.Join(dir, "kernels"+weight+form+".metal"))
			require.NoError(t, err)
			assert.Equal(t, kernels.Source(weight, equal), string(text), "%s%s", weight, form)
		}
	}
	assert.ErrorIs(t, writeSource(filepath.Join(dir, "none")), os.ErrNotExist)
}

// TestMakeMetal: make metal gives each source to Apple's compiler, as Metal 3.1. Warnings are shown; errors fail.
func TestMakeMetal(t *testing.T) {
	program, err := exec.LookPath("make")
	if err != nil {
		sharedtest.Missing(t, err)
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	run := func(result string) (string, error) {
		script := "#!/bin/sh\ncase \"$*\" in *-Werror*) exit 1;; 'metal -std=metal3.1 '*'.metal -o /dev/null')\n" +
			"echo 'warning: unused' >&2; exit " + result + ";; esac\nexit 2\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "xcrun"), []byte(script), 0o755))
		out, err := exec.Command(program, "-C", "../..", "metal").CombinedOutput()
		return string(out), err
	}
	out, err := run("0")
	require.NoError(t, err, out)
	assert.Equal(t, 2*(len(kernels.Types())+1), strings.Count(out, "warning: unused"))
	out, err = run("1")
	assert.Error(t, err, out)
}
