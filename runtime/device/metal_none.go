//go:build !darwin && nosoft

package device

import (
	"fmt"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// openMetal returns an error: there is no Metal here. Without Metal and the software device (tag nosoft), a program
// calls no foreign code and needs no dynamic loader.
func openMetal() (metal.Device, error) {
	return nil, fmt.Errorf("%w: Metal is a part of macOS, and this is %s/%s",
		metal.ErrNoDevice, runtime.GOOS, runtime.GOARCH)
}
