//go:build !linux

package soft

import (
	"fmt"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// supported says why the device cannot run here.
func supported() error {
	return fmt.Errorf("%w: the software device runs on Linux, not on %s", metal.ErrNoDevice, runtime.GOOS)
}
