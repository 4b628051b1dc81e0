package routing

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// openUpstream connects to the engines; it returns nil if none are given.
func (f *routingFlags) openUpstream(ctx context.Context) (*engine.Upstream, error) {
	if len(f.upstream.O.URLs) == 0 {
		return nil, nil
	}
	return engine.OpenUpstream(ctx, f.upstream.Tokenizer, f.upstream.O)
}
