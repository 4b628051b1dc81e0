package speed

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// Passes times forward passes of a model, all after the same context.
type Passes struct {
	model  *transformer.Model
	cache  *transformer.Cache
	random *rand.Rand
}

// NewPasses evaluates a context of at least one token, random ones. Passes may have up to rows rows.
func NewPasses(ctx context.Context, m *transformer.Model, kv gguf.Type, tokens, rows int) (*Passes, error) {
	cache, err := m.NewCache(tokens+rows, kv)
	if err != nil {
		return nil, err
	}
	p := &Passes{m, cache, rand.New(rand.NewPCG(0, 0))}
	ids := make([]int32, tokens)
	for i := range ids {
		ids[i] = p.randomToken()
	}
	before, err := cache.Extend(ids)
	if err != nil {
		return nil, err
	}
	want := backend.Want{Rows: []int{tokens - 1}, K: 1}
	return p, m.Forward(ctx, cache.KV(), before, make([]backend.Output, 1), want)
}

func (p *Passes) randomToken() int32 { return p.random.Int32N(int32(p.model.Config().Vocab)) }

// Time returns the time of a number of equal passes: of leaves of a draft tree that all follow the context, like
// guesses of one token. The next token is predicted for the last heads of the rows.
func (p *Passes) Time(ctx context.Context, rows, heads, passes int) (time.Duration, error) {
	slots, leaves, want := make([]int32, rows), make([]backend.Row, rows), backend.Want{K: 2}
	var err error
	for i := range leaves {
		if slots[i], err = p.cache.Alloc(p.cache.Len()); err != nil {
			return 0, err
		}
		leaves[i] = p.cache.Node(p.randomToken(), slots[i])
		if i >= rows-heads {
			want.Rows = append(want.Rows, i)
		}
	}
	defer p.cache.Free(slots...)
	out, begin := make([]backend.Output, heads), time.Now()
	for range passes {
		if err := p.model.Forward(ctx, p.cache.KV(), leaves, out, want); err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}
