//go:build !noasm && !linux

package isa

// tilesGranted is false: only Linux is asked for the state of AMX's tiles.
func tilesGranted() bool { return false }
