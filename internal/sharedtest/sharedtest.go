// Package sharedtest finds the folder of shared test data: models with known answers, vocabularies, traces. The folder
// is beside the repository and not part of it; tests that need it are skipped if it is missing.
package sharedtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Shared returns the path of a file or folder of the shared test data: elem below PILOTFISH_SHARED if that is set in
// the environment, else below ../shared, relative to the folder of go.mod. If it is missing, the test is skipped with a
// message, or fails if PILOTFISH_REQUIRE_ALL=1.
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

// Missing ends a test that needs something this machine lacks: the test is skipped with what as the message, or fails
// if PILOTFISH_REQUIRE_ALL=1.
func Missing(t testing.TB, what error) {
	t.Helper()
	if os.Getenv("PILOTFISH_REQUIRE_ALL") == "1" {
		t.Fatalf("PILOTFISH_REQUIRE_ALL=1, but %v", what)
	}
	t.Skipf("SKIPPED, NOT TESTED: %v", what)
}

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
