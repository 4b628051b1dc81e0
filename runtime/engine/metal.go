//go:build darwin || !nosoft

package engine

import (
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/mtl"
)

func openMetal() (metal.Device, error) { return mtl.Open(mtl.Options{}) }
