package run

import "github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"

// check returns an error for wrong values, and for flags that would have no effect, before the model is opened.
func (f *runFlags) check(args []string) error {
	switch {
	case f.set.Changed("mode") && f.mode != "local" && f.mode != "serial" && f.mode != "pipelined":
		return cli.Usagef("--mode %s is not a mode: choose local, serial or pipelined", f.mode)
	case f.set.Changed("tokens") && len(args) > 0:
		return cli.Usagef("--tokens and a prompt exclude each other")
	case f.set.Changed("tokens") && f.raw:
		return cli.Usagef("--raw has no effect with --tokens: leave one of them out")
	case f.set.Changed("system") && (f.raw || f.set.Changed("tokens")):
		return cli.Usagef("--system belongs to a chat: it excludes --raw and --tokens")
	case f.set.Changed("json-schema") && f.answer.IgnoreEnd:
		return cli.Usagef("--json-schema ends with the value: leave --ignore-eos out")
	}
	if err := f.model.CheckLarge(f.set); err != nil {
		return err
	}
	if err := f.answer.Check(f.set); err != nil {
		return err
	}
	if err := cli.CheckMode(f.set, f.mode); err != nil {
		return err
	}
	return cli.CheckNeeds(f.set)
}
