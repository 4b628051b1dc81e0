//go:build !linux

package gpu

import (
	"fmt"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/metal"
)

const clPage = 4096

// loadCL returns an error: Intel's library is for Linux. The functions after it are never called.
func loadCL(string) (*clAPI, error) {
	return nil, fmt.Errorf("%w: OpenCL for tests needs Linux, not %s", metal.ErrNoDevice, runtime.GOOS)
}

func clMap(length int) ([]byte, error) { return make([]byte, length), nil }
func clUnmap([]byte) error             { return nil }
