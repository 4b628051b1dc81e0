package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMakeBuild: make build sets the version, and every output of the version shows it.
func TestMakeBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program: not with -short")
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: make is not installed")
	}
	file := filepath.Join(t.TempDir(), "pilotfish")
	build := exec.Command("make", "build", "VERSION=v1.2.3-test", "PROGRAM="+file)
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for args, want := range map[string]string{
		"version": "pilotfish v1.2.3-test (", "--version": "pilotfish version v1.2.3-test\n",
	} {
		got, err := exec.Command(file, args).Output()
		require.NoError(t, err)
		assert.Contains(t, string(got), want, args)
	}
	got, err := exec.Command(file, "version", "--json").Output()
	require.NoError(t, err)
	var b struct{ Version string }
	require.NoError(t, json.Unmarshal(got, &b))
	assert.Equal(t, "v1.2.3-test", b.Version)
}
