package engine

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/mem"
)

// FreeMemory returns how many bytes this process may still take without others having to give way: what the system says
// is available, or less where a control group of Linux sets a limit, as containers do.
func FreeMemory() (uint64, error) { return freeMemory("/proc/self") }

// freeMemory is FreeMemory for the process with its folder at proc.
func freeMemory(proc string) (uint64, error) {
	v, err := mem.VirtualMemory()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	return min(v.Available, groupMemory(proc)), nil
}

// fitSlots returns how many tokens a service keeps where nothing is said: as many as fit into half of the memory that
// is free beside the weights, at least one context and at most 256.
func fitSlots(free, weights uint64, bytesPerToken int64, context int) int {
	const maxContexts = 256
	left := (free - min(free, weights)) / 2
	return int(min(max(left/uint64(bytesPerToken), uint64(context)), uint64(maxContexts*context)))
}

// fits reports an error if the machine has not as much memory as so many tokens need. Less may be free: memory is taken
// as it is used.
func fits(slots int, bytesPerToken int64) error {
	v, err := mem.VirtualMemory()
	if err != nil {
		return nil // nobody knows
	}
	if most := v.Total / uint64(bytesPerToken); slots > 0 && uint64(slots) > most {
		return fmt.Errorf("keys and values of %d tokens are more than this machine has memory for: give at most %d",
			slots, most)
	}
	return nil
}
