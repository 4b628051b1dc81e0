package mtl

import (
	"os"
	"os/exec"
	"testing"
)

// needClang skips a test where clang-19 is absent, or lets it fail if PILOTFISH_REQUIRE_ALL=1.
func needClang(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("clang-19"); err != nil {
		if os.Getenv("PILOTFISH_REQUIRE_ALL") == "1" {
			t.Fatalf("PILOTFISH_REQUIRE_ALL=1, but there is no compiler for the fake of Objective-C: %v", err)
		}
		t.Skipf("SKIPPED, NOT TESTED: no compiler for the fake of Objective-C: %v", err)
	}
}
