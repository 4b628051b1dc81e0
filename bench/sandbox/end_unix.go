//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// end kills a program and its child processes in its session.
func end(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL) // not yet waited for, so the process id is still valid
	p.Kill()
}
