package pool

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fastCores returns the number of fast physical cores among the CPUs that this process may run on, 0 if the system does
// not report it.
func fastCores() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 0
	}
	return countFastCores(os.DirFS("/sys/devices"), set.IsSet)
}

// countFastCores is fastCores for the device tree sys (Linux, Documentation/ABI/testing/sysfs-devices-system-cpu). On
// x86 with two kinds of cores cpu_core/cpus lists the fast ones; on arm each CPU has a capacity, and a CPU is fast if
// it has at least half of the largest capacity.
func countFastCores(sys fs.FS, allowed func(cpu int) bool) int {
	var cpus []int
	for _, c := range readCPUList(sys, "system/cpu/online") {
		if allowed(c) {
			cpus = append(cpus, c)
		}
	}
	if performance := readCPUList(sys, "cpu_core/cpus"); len(performance) > 0 {
		cpus = intersectCPUs(cpus, performance)
	}
	most := 0
	for _, c := range cpus {
		most = max(most, readCPUAttribute(sys, c, "cpu_capacity"))
	}
	cores := map[string]bool{}
	for _, c := range cpus {
		if 2*readCPUAttribute(sys, c, "cpu_capacity") < most {
			continue
		}
		siblings := readSysFile(sys, fmt.Sprintf("system/cpu/cpu%d/topology/thread_siblings_list", c))
		if siblings == "" {
			siblings = strconv.Itoa(c)
		}
		cores[siblings] = true
	}
	return len(cores)
}

// readCPUAttribute reads an attribute of a CPU, 0 if it has none.
func readCPUAttribute(sys fs.FS, cpu int, attribute string) int {
	n, _ := strconv.Atoi(readSysFile(sys, fmt.Sprintf("system/cpu/cpu%d/%s", cpu, attribute)))
	return n
}

// readCPUList reads a list of CPUs such as "0-3,8"; an invalid list is empty.
func readCPUList(sys fs.FS, name string) []int {
	var cpus []int
	for part := range strings.SplitSeq(readSysFile(sys, name), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, err := strconv.Atoi(first)
		hi, errLast := strconv.Atoi(last)
		if err != nil || errLast != nil || lo < 0 || hi >= maxCPUs {
			return nil
		}
		for ; lo <= hi; lo++ {
			cpus = append(cpus, lo)
		}
	}
	return cpus
}

const maxCPUs = 1 << 13 // more than Linux can have

func readSysFile(sys fs.FS, name string) string {
	b, _ := fs.ReadFile(sys, name) // of a file that is not there: ""
	return strings.TrimSpace(string(b))
}

func intersectCPUs(a, b []int) []int {
	in := map[int]bool{}
	for _, c := range b {
		in[c] = true
	}
	var both []int
	for _, c := range a {
		if in[c] {
			both = append(both, c)
		}
	}
	return both
}
