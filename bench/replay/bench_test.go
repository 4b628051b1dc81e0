package replay

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// one is a small model that takes no time.
type one struct {
	fixed
	out []backend.Output
}

func (m *one) Extend(context.Context, []draft.Node) ([]backend.Output, error) { return m.out, nil }

// BenchmarkTake measures what recording adds to a forward call of one row with a head of eight candidates, and to
// settling the row. The call itself takes no time here.
func BenchmarkTake(b *testing.B) {
	rec, err := NewRecorder(io.Discard, header(), nil)
	require.NoError(b, err)
	m := &one{out: []backend.Output{head(1, 2, 3, 4, 5, 6, 7, 8)}}
	ctx := b.Context()
	for _, on := range []bool{false, true} {
		b.Run(map[bool]string{false: "off", true: "on"}[on], func(b *testing.B) {
			b.ReportAllocs()
			var wrapped draft.Model = m
			nodes := make([]draft.Node, 1)
			for i := 0; b.Loop(); i++ {
				if on && i%256 == 0 { // a text of 256 tokens
					b.StopTimer()
					wrapped = rec.Begin("a", 0, 0, []int32{1}, nil).Model(m)
					b.StartTimer()
				}
				id := draft.ID(i%256 + 1)
				nodes[0] = draft.Node{ID: id, Token: int32(i % vocab)}
				if _, err := wrapped.Extend(ctx, nodes); err != nil {
					b.Fatal(err)
				}
				wrapped.Settle(id)
			}
		})
	}
}
