// Package freemem reports how much memory is free.
package freemem

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/mem"
)

// Bytes returns how many bytes this process may still allocate before other processes lose memory: what the system
// reports as available, or less if a control group of Linux has a lower limit, as in containers.
func Bytes() (uint64, error) { return freeBytes("/proc/self") }

func freeBytes(proc string) (uint64, error) {
	v, err := mem.VirtualMemory()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	return min(v.Available, groupFreeBytes(proc)), nil
}
