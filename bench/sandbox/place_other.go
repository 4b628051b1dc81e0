//go:build !unix

package sandbox

import (
	"os"
	"os/exec"
)

// place describes how a program is confined: here only by time and by the size of its folder.
type place struct{}

// places returns the places to try, the strictest first.
func places() []place { return []place{{}} }

func (place) lacks() []string {
	return []string{"network", "writing outside of the program's folder", "memory", "the number of processes"}
}

// within prepares the confinement of a program in a folder, and calls run to start it.
func (place) within(dir string, run func(c *exec.Cmd) error) error { return run(&exec.Cmd{Dir: dir}) }

// end kills a program. Its child processes continue.
func end(p *os.Process) { p.Kill() }
