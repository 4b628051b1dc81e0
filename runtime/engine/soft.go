//go:build !nosoft

package engine

import (
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
)

func openSoft(threads int) (metal.Device, error) { return soft.Open(soft.Options{Threads: threads}) }
