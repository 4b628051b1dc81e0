//go:build !linux

package opencl

import (
	"fmt"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/metal"
)

const pageSize = 4096

// load returns an error: Intel's library is for Linux. The functions after it are never called.
func load(string) (*api, error) {
	return nil, fmt.Errorf("%w: OpenCL for tests needs Linux, not %s", metal.ErrNoDevice, runtime.GOOS)
}

func mapMemory(length int) ([]byte, error) { return make([]byte, length), nil }
func unmapMemory([]byte) error             { return nil }
