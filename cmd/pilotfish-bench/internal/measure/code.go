package measure

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/sandbox"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// CodeFlag is the permission to run programs that a model wrote.
type CodeFlag struct{ allowed bool }

// Register adds the flags to those of a command.
func (f *CodeFlag) Register(p *pflag.FlagSet) {
	Add(p, "run-code", &f.allowed, false)
}

// Check returns an error if a task with programs as answers lacks the permission.
func (f *CodeFlag) Check(name string) error {
	if task.RunsPrograms(name) && !f.allowed {
		return cli.Usagef(
			"%s grades answers by running the programs that the models write: add --run-code to allow that; "+
				"it needs python3 and sets limits", name)
	}
	return nil
}

// Runner returns a runner for the answers of a task; nil if they are not programs. It prints which limits this system
// lacks.
func (f *CodeFlag) Runner(ctx context.Context, a *cli.App, name string) (task.Runner, error) {
	if !task.RunsPrograms(name) {
		return nil, nil
	}
	p, err := sandbox.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("--run-code: %w", err)
	}
	if open := p.Unlimited(); open != "" {
		fmt.Fprintf(a.Stderr, "pilotfish: --run-code: this system does not limit for programs: %s\n", open)
	}
	return p.Run, nil
}
