package pool

import "golang.org/x/sys/unix"

// fastCores counts the performance cores, or all physical ones where there is one kind; 0 if the system does not tell.
func fastCores() int {
	for _, name := range []string{"hw.perflevel0.physicalcpu", "hw.physicalcpu"} {
		if n, err := unix.SysctlUint32(name); err == nil {
			return int(n)
		}
	}
	return 0
}
