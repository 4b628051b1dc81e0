// Package sharedtest finds the folder of shared test data: models with known answers, vocabularies, traces. It lies
// beside the repository and is not part of it, so that a test that needs it is skipped where it is absent.
package sharedtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Shared returns the path of a file or folder of the shared test data: elem below PILOTFISH_SHARED if that is set in
// the environment, else below ../shared seen from the folder of go.mod. If it is not there, the test is skipped with
// a line that says so, or fails if PILOTFISH_REQUIRE_ALL=1.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("PILOTFISH_SHARED")
	if dir == "" {
		dir = filepath.Join(moduleRoot(t), "..", "shared")
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		Missing(t, fmt.Errorf("shared test data are absent (set PILOTFISH_SHARED): %w", err))
	}
	return path
}

// Missing ends a test for which this machine lacks something: it is skipped with a line that says what, or fails if
// PILOTFISH_REQUIRE_ALL=1.
func Missing(t testing.TB, what error) {
	t.Helper()
	if os.Getenv("PILOTFISH_REQUIRE_ALL") == "1" {
		t.Fatalf("PILOTFISH_REQUIRE_ALL=1, but %v", what)
	}
	t.Skipf("SKIPPED, NOT TESTED: %v", what)
}

// moduleRoot returns the folder of go.mod, from the working directory upwards.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}
