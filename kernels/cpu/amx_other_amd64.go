//go:build !noasm && !linux

package cpu

// amx returns nothing: how to ask this system for the state of AMX's tiles is not known here.
func amx() []*kernels { return nil }
