// Package held helps to test that files are closed: it lists the files that the process still has open or mapped. It
// also compares what the process holds before and after a piece of work.
package held

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
)

// TempDir is like t.TempDir, but fails the test if a file in the folder is still open or mapped when the test ends,
// after all later functions of t.Cleanup. The garbage collector, which would close forgotten files, is off meanwhile
// unless a gigabyte is in use. Files are only checked on Linux.
func TempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	collect := disableGC()
	t.Cleanup(func() {
		collect()
		if held := openFilesIn(dir); len(held) > 0 {
			t.Errorf("still held when the test ends: %s", strings.Join(held, ", "))
		}
	})
	return dir
}

// disableGC turns the garbage collector off unless a gigabyte is in use, until the result is called.
func disableGC() (collect func()) {
	limit, percent := debug.SetMemoryLimit(1<<30), debug.SetGCPercent(-1)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// Same fails the test if work leaves open descriptors, mapped files or goroutines each time that it runs: once for what
// a first run may leave, and then until a run leaves nothing, three times at most. The garbage collector, which would
// close forgotten files, is off meanwhile. Connections that the default client of package http keeps for later requests
// do not count.
func Same(t testing.TB, work func()) {
	t.Helper()
	defer disableGC()()
	work()
	left := ""
	for range 3 {
		if left = findLeaks(work); left == "" {
			return
		}
	}
	t.Errorf("each run leaves something: %s", left)
}

// findLeaks runs work and returns what the process holds then, if it is more than before; "" otherwise.
func findLeaks(work func()) string {
	http.DefaultClient.CloseIdleConnections()
	files, goroutines := len(listOpenFiles()), runtime.NumGoroutine()
	work()
	waitForGoroutines(goroutines)
	if now := runtime.NumGoroutine(); now > goroutines {
		var stacks bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // bytes.Buffer returns no error
		return fmt.Sprintf("%d goroutines, %d before:\n%s", now, goroutines, &stacks)
	}
	if now := listOpenFiles(); len(now) > files {
		return fmt.Sprintf("%d files and connections, %d before: %s", len(now), files, strings.Join(now, ", "))
	}
	return ""
}

// waitForGoroutines waits until most goroutines are left, but not for long: those that have ended take a while to go.
func waitForGoroutines(most int) {
	http.DefaultClient.CloseIdleConnections()
	for range 1000 {
		if runtime.NumGoroutine() <= most {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func listOpenFiles() (held []string) {
	entries, _ := os.ReadDir(descriptors)
	for _, e := range entries {
		path, _ := os.Readlink(filepath.Join(descriptors, e.Name())) // "" for the one that read the folder
		held = append(held, fmt.Sprintf("open %s", path))
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			held = append(held, "mapped "+strings.TrimSpace(line[at:]))
		}
	}
	return held
}

// Bounded ends the process if it holds more than two gigabytes before the test ends: a test of a limit then fails if
// the limit is lost, and does not take all memory of the machine.
func Bounded(t testing.TB) {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	name := t.Name()
	go func() {
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
			if metrics.Read(heap); heap[0].Value.Uint64() > 2<<30 {
				panic(name + " holds more than two gigabytes: is a limit lost?")
			}
		}
	}()
}

// Descriptors returns the number of open descriptors of this process, of files, pipes and connections; 0 if the system
// does not report it. Run the tested code once before comparing, since a program's first pipe and its first connection
// open some permanently.
func Descriptors() int {
	entries, _ := os.ReadDir(descriptors)
	return len(entries)
}

const descriptors = "/proc/self/fd"

// openFilesIn returns "open PATH" for each descriptor of a file or folder in dir, including dir itself, and "mapped
// PATH" for each mapping of one. Deleted files count.
func openFilesIn(dir string) []string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return slices.DeleteFunc(listOpenFiles(), func(line string) bool {
		_, path, _ := strings.Cut(line, " ")
		return path != dir && !strings.HasPrefix(path, dir+string(filepath.Separator))
	})
}
