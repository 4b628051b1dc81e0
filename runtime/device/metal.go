//go:build darwin || !nosoft

package device

import (
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/mtl"
)

func openMetal() (metal.Device, error) { return mtl.Open(mtl.Options{}) }
