package main

import (
	"github.com/pkg/profile"
	"github.com/spf13/cobra"
)

// profileFlag writes a profile of the whole command.
type profileFlag struct{ kind string }

func (p *profileFlag) register(c *cobra.Command) {
	c.Flags().StringVar(&p.kind, "profile", "",
		"write a profile of this run: `KIND` is cpu, mem or block, for ./KIND.pprof, or trace, for ./trace.out")
}

// start begins the profile and returns what ends and writes it.
func (p *profileFlag) start(a *app) (stop func(), err error) {
	if p.kind == "" {
		return func() {}, nil
	}
	kinds := map[string]func(*profile.Profile){
		"cpu": profile.CPUProfile, "mem": profile.MemProfile, "block": profile.BlockProfile, "trace": profile.TraceProfile,
	}
	kind, ok := kinds[p.kind]
	if !ok {
		return nil, usagef("--profile %s is not a kind of profile: choose cpu, mem, block or trace", p.kind)
	}
	// The command ends by itself on a signal, so that the profile is whole: the library need not watch for one.
	return profile.Start(kind, profile.ProfilePath("."), profile.NoShutdownHook, profile.Quiet).Stop, nil
}
