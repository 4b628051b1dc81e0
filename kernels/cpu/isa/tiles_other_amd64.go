//go:build !noasm && !linux

package isa

// tilesGranted is false: AMX is supported only on Linux.
func tilesGranted() bool { return false }
