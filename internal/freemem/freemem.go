// Package freemem says how much memory is free.
package freemem

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/mem"
)

// Bytes returns how many bytes this process may still take before others lose memory: what the system says is
// available, or less where a control group of Linux sets a limit, as containers do.
func Bytes() (uint64, error) { return bytes("/proc/self") }

// bytes is Bytes for the process with its folder at proc.
func bytes(proc string) (uint64, error) {
	v, err := mem.VirtualMemory()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	return min(v.Available, groupMemory(proc)), nil
}
