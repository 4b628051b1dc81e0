package main

import "github.com/spf13/pflag"

// mostTemperature is a temperature at which all tokens are about as probable.
const mostTemperature = 100

// check refuses wrong values, and flags that would have no effect, before the model is opened.
func (f *runFlags) check(args []string) error {
	switch {
	case f.set.Changed("mode") && f.mode != "local" && f.mode != "serial" && f.mode != "pipelined":
		return usagef("--mode %s is not a mode: choose local, serial or pipelined", f.mode)
	case (f.mode == "serial" || f.mode == "pipelined") && !f.set.Changed("cloud"):
		return usagef("--mode %s needs a gateway to ask: give it with --cloud host:port", f.mode)
	case f.max < 0:
		return usagef("-n %d is negative: give the most tokens to generate, or 0 for as many as the context holds",
			f.max)
	case f.set.Changed("tokens") && len(args) > 0:
		return usagef("--tokens and a prompt exclude each other")
	case f.set.Changed("tokens") && f.raw:
		return usagef("--raw has no effect with --tokens: leave one of them out")
	case f.set.Changed("system") && (f.raw || f.set.Changed("tokens")):
		return usagef("--system belongs to a chat: it excludes --raw and --tokens")
	}
	if err := f.checkSampling(); err != nil {
		return err
	}
	if err := f.choose.check(f.set.Changed, f.sampling.Temperature, f.json, f.ignoreEnd); err != nil {
		return err
	}
	return f.checkRouting()
}

// checkSampling refuses what the draws of tokens cannot take.
func (f *runFlags) checkSampling() error {
	if err := inRange("temp", f.sampling.Temperature, 0, mostTemperature); err != nil {
		return err
	}
	if err := inRange("top-p", f.sampling.TopP, 0, 1); err != nil {
		return err
	}
	if f.sampling.TopK < 0 {
		return usagef("--top-k %d is negative: give how many of the best tokens can be drawn, or 0 for all",
			f.sampling.TopK)
	}
	for _, name := range []string{"top-k", "top-p", "seed"} {
		if f.sampling.Temperature == 0 && f.set.Changed(name) {
			return usagef("--%s has no effect without a temperature: give --temp, such as --temp 0.7", name)
		}
	}
	return nil
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
