package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableEscapes enables escape sequences on a console of Windows. It does nothing if f is not a console.
func enableEscapes(f *os.File) {
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) == nil {
		mode |= windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
		_ = windows.SetConsoleMode(console, mode) // an old console prints the sequences
	}
}
