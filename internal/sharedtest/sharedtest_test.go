package sharedtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ending records how a test ends.
type ending struct {
	testing.TB
	said string
}

func (e *ending) Skipf(format string, args ...any)  { e.end("skip: "+format, args...) }
func (e *ending) Fatalf(format string, args ...any) { e.end("fail: "+format, args...) }

func (e *ending) end(format string, args ...any) {
	e.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestShared: data are found where the environment says, or beside the module; a test without them is skipped, or fails
// if everything is required.
func TestShared(t *testing.T) {
	shared := func(elem ...string) (path, said string) {
		e, done := &ending{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			path = Shared(e, elem...)
		}()
		<-done
		return path, e.said
	}
	dir := t.TempDir()
	for _, folder := range []string{"module/a/b", "shared/data", "own/data"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "module/go.mod"), nil, 0o600))
	for _, at := range []string{"module", "module/a/b"} {
		t.Chdir(filepath.Join(dir, at))
		for env, want := range map[string]string{"": "shared", filepath.Join(dir, "own"): "own"} {
			t.Setenv("PILOTFISH_SHARED", env)
			path, said := shared("data")
			assert.Equal(t, filepath.Join(dir, want, "data"), path)
			assert.Empty(t, said)
		}
	}
	for env, want := range map[string]string{
		"": "skip: SKIPPED, NOT TESTED: ", "0": "skip: SKIPPED, NOT TESTED: ",
		"1": "fail: PILOTFISH_REQUIRE_ALL=1, but ",
	} {
		t.Setenv("PILOTFISH_REQUIRE_ALL", env)
		_, said := shared("data", "none")
		assert.Contains(t, said, want+"shared test data are absent (set PILOTFISH_SHARED): ")
		assert.Contains(t, said, filepath.Join("data", "none"))
	}
}
