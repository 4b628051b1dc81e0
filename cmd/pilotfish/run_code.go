package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/sandbox"
	"github.com/pilotfish-ai/pilotfish/bench/task"
)

// codeFlag is the permission to run programs that models write.
type codeFlag struct{ allowed bool }

func (f *codeFlag) register(p *pflag.FlagSet) {
	add(p, "run-code", &f.allowed, false)
}

// check refuses a task whose answers are programs without the permission, and the permission without such a task.
func (f *codeFlag) check(name string) error {
	switch runs := task.RunsPrograms(name); {
	case runs && !f.allowed:
		return usagef("%s grades answers by running the programs that the models write: add --run-code to allow that; "+
			"it needs python3 and sets limits", name)
	case !runs && f.allowed:
		return usagef("--run-code has no effect here: it is for humaneval and mbpp")
	}
	return nil
}

// runner runs the answers of a task; nil where its answers are no programs. What this system does not limit is said.
func (f *codeFlag) runner(ctx context.Context, a *app, name string) (task.Runner, error) {
	if !task.RunsPrograms(name) {
		return nil, nil
	}
	p, err := sandbox.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("--run-code: %w", err)
	}
	if open := p.Unlimited(); open != "" {
		fmt.Fprintf(a.stderr, "pilotfish: --run-code: this system does not limit for programs: %s\n", open)
	}
	return p.Run, nil
}
