//go:build unix && !linux

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// confinement describes how a program is confined, in addition to the limits of prelude.py.
type confinement struct{}

func possibleConfinements() []confinement { return []confinement{{}} }

// missingLimits returns what is not limited. Systems other than Linux may accept a limit of memory without enforcing
// it.
func (confinement) missingLimits() []string {
	return []string{"network", "writing outside of the program's folder", "memory"}
}

func (confinement) runConfined(dir string, run func(c *exec.Cmd) error) error {
	return run(&exec.Cmd{Dir: dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}})
}

func killProgram(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL) // not yet waited for, so the process id is still valid
	p.Kill()
}
