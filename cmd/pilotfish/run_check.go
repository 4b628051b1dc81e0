package main

import (
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/spf13/pflag"
)

// check refuses wrong values, and flags that would have no effect, before the model is opened.
func (f *runFlags) check(args []string) error {
	switch {
	case f.set.Changed("mode") && f.mode != "local" && f.mode != "serial" && f.mode != "pipelined":
		return usagef("--mode %s is not a mode: choose local, serial or pipelined", f.mode)
	case (f.mode == "serial" || f.mode == "pipelined") && !f.set.Changed("cloud"):
		return usagef("--mode %s needs a gateway to ask: give it with --cloud host:port", f.mode)
	case f.set.Changed("tokens") && len(args) > 0:
		return usagef("--tokens and a prompt exclude each other")
	case f.set.Changed("tokens") && f.raw:
		return usagef("--raw has no effect with --tokens: leave one of them out")
	case f.set.Changed("system") && (f.raw || f.set.Changed("tokens")):
		return usagef("--system belongs to a chat: it excludes --raw and --tokens")
	case f.set.Changed("logprobs") && (f.answer.Top < 1 || f.answer.Top > terms.MaxTop):
		return usagef("--logprobs %d is out of range: give 1 to %d", f.answer.Top, terms.MaxTop)
	case f.set.Changed("logprobs") && !f.json:
		return usagef("--logprobs has no effect without --json: add that")
	case f.set.Changed("json-schema") && f.answer.IgnoreEnd:
		return usagef("--json-schema ends with the value: leave --ignore-eos out")
	}
	if err := f.answer.check(f.set); err != nil {
		return err
	}
	return f.checkRouting()
}

// checkRouting refuses flags of routing where there is nothing to route, or where the mode has no use for them.
func (f *runFlags) checkRouting() error {
	var gateway pflag.FlagSet
	new(gatewayFlags).register(&gateway)
	new(routeFlags).register(&gateway)
	new(policyFlags).register(&gateway)
	new(verifyFlags).register(&gateway)
	new(qlogFlag).register(&gateway)
	var err error
	refuse := func(name, where, help string) {
		if err == nil && f.set.Changed(name) {
			err = usagef("--%s has no effect %s: %s", name, where, help)
		}
	}
	gateway.VisitAll(func(flag *pflag.Flag) {
		switch {
		case f.mode == "local":
			refuse(flag.Name, "with --mode local", "leave one of them out")
		case !f.set.Changed("cloud"):
			refuse(flag.Name, "without a gateway", "give one with --cloud host:port")
		}
	})
	if f.mode == "serial" {
		for _, name := range []string{"branches", "window", "inflight"} {
			refuse(name, "with --mode serial, which does not draft", "leave it out, or give --mode pipelined")
		}
	}
	return err
}
