package pool

import "golang.org/x/sys/unix"

// fastCores returns the number of performance cores, or of all physical cores if there is one kind; 0 if the system
// does not report it.
func fastCores() int {
	for _, name := range []string{"hw.perflevel0.physicalcpu", "hw.physicalcpu"} {
		if n, err := unix.SysctlUint32(name); err == nil {
			return int(n)
		}
	}
	return 0
}
