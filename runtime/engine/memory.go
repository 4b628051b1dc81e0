package engine

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/mem"
)

// FreeMemory returns how many bytes this process may still take without others having to give way: what the system says
// is available, or less where a control group of Linux sets a limit, as containers do.
func FreeMemory() (uint64, error) { return freeMemory("/sys/fs/cgroup") }

// freeMemory is FreeMemory with the control group at dir.
func freeMemory(dir string) (uint64, error) {
	v, err := mem.VirtualMemory()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	return min(v.Available, groupMemory(dir)), nil
}

// groupMemory returns what is left of the limit of the control group (version 2) at dir; no limit is the largest
// number.
func groupMemory(dir string) uint64 {
	const none = ^uint64(0)
	limit, err := readNumber(dir + "/memory.max")
	if err != nil {
		return none
	}
	used, err := readNumber(dir + "/memory.current")
	if err != nil {
		return none
	}
	return limit - min(limit, used)
}

// readNumber reads a file that holds a number and nothing else.
func readNumber(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}

// fitSlots returns how many tokens a service keeps where nothing is said: as many as fit into half of the memory that
// is free beside the weights, at least one context and at most 256.
func fitSlots(free, weights uint64, bytesPerToken int64, context int) int {
	const mostContexts = 256
	left := (free - min(free, weights)) / 2
	return int(min(max(left/uint64(bytesPerToken), uint64(context)), uint64(mostContexts*context)))
}
