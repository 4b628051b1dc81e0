//go:build !unix

package sandbox

import (
	"os"
	"os/exec"
)

// confinement describes how a program is confined: here only by time and by the size of its folder.
type confinement struct{}

func possibleConfinements() []confinement { return []confinement{{}} }

func (confinement) missingLimits() []string {
	return []string{"network", "writing outside of the program's folder", "memory", "the number of processes"}
}

func (confinement) runConfined(dir string, run func(c *exec.Cmd) error) error {
	return run(&exec.Cmd{Dir: dir})
}

// killProgram kills a program. Its child processes continue.
func killProgram(p *os.Process) { p.Kill() }
