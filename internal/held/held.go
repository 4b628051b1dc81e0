// Package held is for tests of what goes back: it tells which files the process still has open or mapped.
package held

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TempDir is t.TempDir, of which no file may be open or mapped when the test ends, after all that it registered with
// t.Cleanup since then. The garbage collector, which would close what the program has forgotten, rests meanwhile unless
// a gigabyte is in use. Only Linux tells: elsewhere nothing is compared.
func TempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	limit, percent := debug.SetMemoryLimit(1<<30), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
		if held := Files(dir); len(held) > 0 {
			t.Errorf("still held when the test ends: %s", strings.Join(held, ", "))
		}
	})
	return dir
}

// Descriptors is how many this process has open, of files, pipes and connections; 0 where the system does not tell.
// What is compared runs once before that, as a program's first pipe and its first connection open some for good.
func Descriptors() int {
	entries, _ := os.ReadDir(descriptors)
	return len(entries)
}

const descriptors = "/proc/self/fd"

// Files returns "open PATH" for each descriptor of a file or folder in dir, dir itself included, and "mapped PATH" for
// each mapping of one. A file that is deleted meanwhile counts.
func Files(dir string) (held []string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	within := func(path string) bool { return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator)) }
	entries, _ := os.ReadDir(descriptors)
	for _, e := range entries {
		if path, err := os.Readlink(filepath.Join(descriptors, e.Name())); err == nil && within(path) {
			held = append(held, "open "+path)
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		if at := strings.IndexByte(line, '/'); at >= 0 && within(strings.TrimSpace(line[at:])) {
			held = append(held, "mapped "+strings.TrimSpace(line[at:]))
		}
	}
	return held
}
