//go:build !windows

package cli

import "os"

// obeyEscapes has a terminal understand escape sequences, which all do but the consoles of Windows.
func obeyEscapes(*os.File) {}
