package engine

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/mem"
)

// fitSlots returns the default number of tokens that a service keeps: as many as fit into half of the memory that the
// weights leave free, but at least one context and at most 256 contexts.
func fitSlots(free, weights uint64, bytesPerToken int64, context int) int {
	const maxContexts = 256
	left := (free - min(free, weights)) / 2
	return int(min(max(left/uint64(bytesPerToken), uint64(context)), uint64(maxContexts*context)))
}

// fits returns an error if the machine has less memory than slots tokens need. It does not check free memory, because
// memory is allocated as it is used.
func fits(slots int, bytesPerToken int64) error {
	v, err := mem.VirtualMemory()
	if err != nil {
		return nil // unknown
	}
	if most := v.Total / uint64(bytesPerToken); slots > 0 && uint64(slots) > most {
		return fmt.Errorf("keys and values of %d tokens are more than this machine has memory for: give at most %d",
			slots, most)
	}
	return nil
}
