//go:build !nosoft

package device

import (
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
)

func openSoft(check bool, threads int) (metal.Device, error) {
	o := soft.Options{Threads: threads}
	if check {
		o.Variant = soft.Check
	}
	return soft.Open(o)
}
