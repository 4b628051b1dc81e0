package routing

import (
	"context"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// checkUpstream reads the flags of engines that bench routing asks.
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

// openUpstream asks the engines what they can do; it returns nil where none are named.
func (f *routingFlags) openUpstream(ctx context.Context) (*engine.Upstream, error) {
	if len(f.upstream.O.URLs) == 0 {
		return nil, nil
	}
	return engine.OpenUpstream(ctx, f.upstream.Tokenizer, f.upstream.O)
}
