//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// end kills a program and what it started in its session.
func end(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL) // not yet waited for: the number is still its own
	p.Kill()
}
