package host

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

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
	var begun atomic.Int32
	var aside atomic.Bool
	defer begun.Store(math.MaxInt32) // nobody waits any more
	for seed := range uint64(40) {
		for _, n := range []int{1, 20, 3} {
			if want[n] == nil {
				want[n] = m.pass(t, d, store, rowsAt(n), everything(n))
			}
			p := &interrupted{d.Begin(store, rowsAt(n)).(*pass), seed, &begun, &aside}
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

// interrupted is a pass of which one worker is put aside now and then, until others have begun a later loop: if it is
// not the caller, one of the next pass perhaps.
type interrupted struct {
	*pass
	seed  uint64
	begun *atomic.Int32 // loops, of all passes
	aside *atomic.Bool  // a worker is
}

func (p *interrupted) End(ctx context.Context) error {
	begin, before := func() { p.begun.Add(1) }, p.begun.Load()
	p.Then(begin)
	for i := range p.loops {
		l := &p.loops[i]
		l.Before = append(l.Before, begin)
		do, r := l.Do, rand.New(rand.NewPCG(p.seed, uint64(i)))
		if l.Commit == nil || r.IntN(12) > 0 {
			continue
		}
		aside, until, after := r.IntN(3), i+2+r.IntN(2*len(p.loops)), r.IntN(2) > 0
		if aside == 0 { // the caller begins the next pass
			until = min(until, len(p.loops)+1)
		}
		l.Do = func(worker, lo, hi int) {
			if after {
				do(worker, lo, hi)
			}
			if worker == aside && p.aside.CompareAndSwap(false, true) { // else nobody may be left to go on
				for p.begun.Load()-before < int32(until) {
					runtime.Gosched()
				}
				p.aside.Store(false)
			}
			if !after {
				do(worker, lo, hi)
			}
		}
	}
	return p.pass.End(ctx)
}
