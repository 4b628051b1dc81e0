//go:build !linux && !darwin

package pool

// fastCores returns 0: it is not implemented for this system.
func fastCores() int { return 0 }
