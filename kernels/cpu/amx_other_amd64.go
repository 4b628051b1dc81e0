//go:build !noasm && !linux

package cpu

// amx returns nothing: only Linux is asked for the state of AMX's tiles.
func amx() []*kernels { return nil }

// amxSets is what this system knows of AMX.
func amxSets() []*kernels { return nil }
