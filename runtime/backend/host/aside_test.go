package host

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestPutAside: however long a worker is put aside in whatever it computes, even beyond the end of a pass, the results
// have the same bits.
func TestPutAside(t *testing.T) {
	s := shape{layers: 2, dim: 128, ffn: 416, heads: 4, kvHeads: 2, vocab: 3000}
	f := s.file(t, "q8_0")
	d := devices(t, Options{Threads: 3})[0]
	m := newSmall(t, d, s, func(string) *gguf.File { return f })
	store := s.kv(t, d, 20, gguf.F16)
	want := map[int][]backend.Output{}
	for seed := range uint64(40) {
		for _, n := range []int{1, 20, 3} {
			if want[n] == nil {
				want[n] = m.pass(t, d, store, rowsAt(n), everything(n))
			}
			p := &interrupted{d.Begin(store, rowsAt(n)).(*pass), seed}
			got := m.run(t, p, everything(n), func(string, backend.Tensor) {})
			require.Equal(t, want[n], got, "seed %d, %d rows", seed, n)
		}
	}
}

// TestBiasAdded: a product with a bias is added with the same bits by one worker and by several.
func TestBiasAdded(t *testing.T) {
	var want []float32
	for _, d := range devices(t, Options{Threads: 1}, Options{Threads: 2}) {
		x := &fixture{t: t, r: rand.New(rand.NewPCG(1, 2)), d: d}
		w, _ := x.weightOf(96, 64)
		h, y := x.tensorOf(3, 64), x.tensorOf(3, 96)
		p := d.Begin(x.kv(3, gguf.F32), rowsAt(3))
		p.ProjectAdd(y, w, h)
		require.NoError(t, p.End(t.Context()))
		if want == nil {
			want = y.f
		}
		require.Equal(t, want, y.f)
	}
}

// interrupted is a pass of which one worker sleeps now and then.
type interrupted struct {
	*pass
	seed uint64
}

func (p *interrupted) End(ctx context.Context) error {
	for i := range p.loops {
		do, r := p.loops[i].Do, rand.New(rand.NewPCG(p.seed, uint64(i)))
		asleep, after := r.IntN(3), r.IntN(12) == 0
		p.loops[i].Do = func(worker, lo, hi int) {
			if worker == asleep && after {
				time.Sleep(time.Millisecond)
			}
			do(worker, lo, hi)
			if worker == asleep && after {
				time.Sleep(time.Millisecond)
			}
		}
	}
	return p.pass.End(ctx)
}
