//go:build unix && !linux

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// place describes how a program is confined, in addition to the limits of prelude.py.
type place struct{}

// places returns the places to try, the strictest first.
func places() []place { return []place{{}} }

// lacks returns what is not limited. Systems other than Linux may accept a limit of memory without enforcing it.
func (place) lacks() []string {
	return []string{"network", "writing outside of the program's folder", "memory"}
}

// within prepares the confinement of a program in a folder, and calls run to start it.
func (place) within(dir string, run func(c *exec.Cmd) error) error {
	return run(&exec.Cmd{Dir: dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}})
}

// end kills a program and its child processes in its session.
func end(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL) // not yet waited for, so the process id is still valid
	p.Kill()
}
