//go:build !linux && !darwin

package pool

// fastCores is 0: this system is not asked.
func fastCores() int { return 0 }
