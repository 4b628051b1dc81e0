// Package held helps to test that files are closed: it lists the files that the process still has open or mapped.
package held

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TempDir is like t.TempDir, but fails the test if a file in the folder is still open or mapped when the test ends,
// after all later functions of t.Cleanup. The garbage collector, which would close forgotten files, is off meanwhile
// unless a gigabyte is in use. Files are only checked on Linux.
func TempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	limit, percent := debug.SetMemoryLimit(1<<30), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
		if held := files(dir); len(held) > 0 {
			t.Errorf("still held when the test ends: %s", strings.Join(held, ", "))
		}
	})
	return dir
}

// Descriptors returns the number of open descriptors of this process, of files, pipes and connections; 0 if the system
// does not report it. Run the tested code once before comparing, since a program's first pipe and its first connection
// open some permanently.
func Descriptors() int {
	entries, _ := os.ReadDir(descriptors)
	return len(entries)
}

const descriptors = "/proc/self/fd"

// files returns "open PATH" for each descriptor of a file or folder in dir, including dir itself, and "mapped PATH" for
// each mapping of one. Deleted files count.
func files(dir string) (held []string) {
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
