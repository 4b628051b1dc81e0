package mtl

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// needClang skips a test without clang-19, or fails it if PILOTFISH_REQUIRE_ALL=1.
func needClang(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("clang-19"); err != nil {
		sharedtest.Missing(t, fmt.Errorf("no compiler for the fake of Objective-C: %w", err))
	}
}
