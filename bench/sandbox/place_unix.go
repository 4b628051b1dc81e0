//go:build unix && !linux

package sandbox

import (
	"os/exec"
	"syscall"
)

// place is how a program is confined beside the limits of prelude.py.
type place struct{}

// places are those to try, the strictest first.
func places() []place { return []place{{}} }

// lacks says what is missing, in words. Systems other than Linux may accept a limit of memory and not keep it.
func (place) lacks() []string {
	return []string{"network", "writing outside of the program's folder", "memory"}
}

// within describes the confinement of a program in a folder, and has run start it there.
func (place) within(dir string, run func(c *exec.Cmd) error) error {
	return run(&exec.Cmd{Dir: dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}})
}
