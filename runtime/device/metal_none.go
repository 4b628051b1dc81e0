//go:build !darwin && nosoft

package device

import (
	"fmt"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// openMetal says that there is none: without it and the software device, the tag nosoft makes a program that calls no
// foreign code and needs no dynamic loader.
func openMetal() (metal.Device, error) {
	return nil, fmt.Errorf("%w: Metal is a part of macOS, and this is %s/%s",
		metal.ErrNoDevice, runtime.GOOS, runtime.GOARCH)
}
