//go:build !nosoft

package device

import (
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
)

func openSoft(variant string, seed uint64, threads int) (metal.Device, error) {
	return soft.Open(soft.Options{Variant: soft.Variant(variant), Seed: seed, Threads: threads})
}
