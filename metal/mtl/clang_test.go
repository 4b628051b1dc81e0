package mtl

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// needClang skips a test where clang-19 is absent, or lets it fail if PILOTFISH_REQUIRE_ALL=1.
func needClang(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("clang-19"); err != nil {
		sharedtest.Missing(t, fmt.Errorf("no compiler for the fake of Objective-C: %w", err))
	}
}
