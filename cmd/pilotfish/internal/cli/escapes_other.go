//go:build !windows

package cli

import "os"

// obeyEscapes enables escape sequences on a terminal. Outside Windows they always are.
func obeyEscapes(*os.File) {}
