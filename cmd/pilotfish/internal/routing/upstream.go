package routing

import (
	"context"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// checkUpstream checks the flags of engines for bench routing.
func (f *routingFlags) checkUpstream() error {
	if f.flags.Changed("upstream") {
		modes, err := parseModes(f.modes)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(modes, outcome.Mode.OverLink) {
			return cli.Usagef("--upstream has no effect with --modes %s: add one over our protocol, "+
				"such as serial, or leave it out", f.modes)
		}
	}
	return f.upstream.Check(f.flags)
}

// openUpstream connects to the engines; it returns nil if none are given.
func (f *routingFlags) openUpstream(ctx context.Context) (*engine.Upstream, error) {
	if len(f.upstream.O.URLs) == 0 {
		return nil, nil
	}
	return engine.OpenUpstream(ctx, f.upstream.Tokenizer, f.upstream.O)
}
