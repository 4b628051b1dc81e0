package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// obeyEscapes has a console understand escape sequences, which those of Windows do only if they are told to. It does
// nothing if f is something else.
func obeyEscapes(f *os.File) {
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) == nil {
		mode |= windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
		_ = windows.SetConsoleMode(console, mode) // an old console shows the sequences as they are
	}
}
