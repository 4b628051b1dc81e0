package cli

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSecondSignal: the first signal only ends the context; a second one ends a command that is slow to stop.
func TestSecondSignal(t *testing.T) {
	const variable, ignored = "CLI_TEST_SIGNALS", 3
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if os.Getenv(variable) == s.String() {
			runtime.LockOSThread()
			ctx, stop := watchSignals(t.Context())
			_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s)
			<-ctx.Done()
			stop()
			_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s) // this thread handles it before the call returns
			os.Exit(ignored)
		}
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := exec.Command(os.Args[0], "-test.run=^TestSecondSignal$")
		c.Env = append(os.Environ(), variable+"="+s.String())
		e, ok := errors.AsType[*exec.ExitError](c.Run())
		require.True(t, ok)
		assert.Equal(t, s, e.Sys().(syscall.WaitStatus).Signal())
	}
}
