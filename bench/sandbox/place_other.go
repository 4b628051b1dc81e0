//go:build !unix

package sandbox

import (
	"os"
	"os/exec"
)

// place is how a program is confined: here only by time and by the size of its folder.
type place struct{}

// places are those to try, the strictest first.
func places() []place { return []place{{}} }

// lacks says what is missing, in words.
func (place) lacks() []string {
	return []string{"network", "writing outside of the program's folder", "memory", "the number of processes"}
}

// within describes the confinement of a program in a folder, and has run start it there.
func (place) within(dir string, run func(c *exec.Cmd) error) error { return run(&exec.Cmd{Dir: dir}) }

// end kills a program. What it started goes on.
func end(p *os.Process) { p.Kill() }
