package mtl

import (
	"debug/macho"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBuildVersion: a program that Go builds for a Mac without a C compiler says for which macOS it was built. Without
// that, Metal takes its default language from an old version (golang/go 77917); this package names the language, and
// reads it back.
func TestBuildVersion(t *testing.T) {
	source, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "main")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600))
	build := exec.Command("go", "build", "-o", program, source)
	build.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := macho.Open(program)
	require.NoError(t, err)
	defer f.Close()
	const buildVersion, macOS = 0x32, 1 // LC_BUILD_VERSION and PLATFORM_MACOS of mach-o/loader.h
	found := false
	for _, l := range f.Loads {
		if b := l.Raw(); f.ByteOrder.Uint32(b) == buildVersion {
			found = true
			assert.EqualValues(t, macOS, f.ByteOrder.Uint32(b[8:]))
			assert.GreaterOrEqual(t, f.ByteOrder.Uint32(b[12:]), uint32(11<<16), "the first macOS for ARM")
		}
	}
	assert.True(t, found)
}
