//go:build !windows

package cli

import "os"

// enableEscapes enables escape sequences on a terminal. Outside Windows they always are.
func enableEscapes(*os.File) {}
