package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestDevice: the properties of a device and of loaded tensors.
func TestDevice(t *testing.T) {
	ds := devices(t, Options{}, Options{Threads: 3}, Options{Threads: 2, Exact: true})
	assert.Equal(t, pool.Threads(), ds[0].Threads())
	assert.Equal(t, 3, ds[1].Threads())
	assert.Equal(t, fmt.Sprintf("cpu (%s, threads 3)", cpu.Features()), ds[1].Name())
	assert.Equal(t, "cpu (exact, threads 2)", ds[2].Name())
	w, err := ds[0].LoadWeight(stored(make([]float32, 6), 3, 2), nil)
	require.NoError(t, err)
	out, in := w.Shape()
	assert.Equal(t, 2, out)
	assert.Equal(t, 3, in)
	g, err := ds[0].LoadNorm(stored(make([]float32, 5), 5), 1)
	require.NoError(t, err)
	assert.Equal(t, 5, g.Len())
	x, err := ds[0].NewTensor(4, 7)
	require.NoError(t, err)
	rows, cols := x.Shape()
	assert.Equal(t, 4, rows)
	assert.Equal(t, 7, cols)
}

// TestLoaded: a matrix is used in the file; its bias and the gains of a norm are copied, for any type.
func TestLoaded(t *testing.T) {
	d := devices(t, Options{})[0]
	matrix := stored([]float32{1, 2, 3, 4}, 2, 2)
	bias := gguf.Tensor{Name: "b", Type: gguf.F16, Shape: []int{2}, Data: []byte{0, 0x3c, 0, 0x40}} // 1, 2
	w, err := d.LoadWeight(matrix, &bias)
	require.NoError(t, err)
	g, err := d.LoadNorm(bias, 0.25)
	require.NoError(t, err)
	clear(bias.Data)
	copy(matrix.Data, stored([]float32{5}, 1).Data)
	assert.Equal(t, []float32{1, 2}, w.(*weight).bias)
	assert.Equal(t, norm{gains: []float32{1, 2}, eps: 0.25}, *g.(*norm))
	row := make([]float32, 2)
	w.(*weight).dequantize(row, 0)
	assert.Equal(t, []float32{5, 2}, row)
	w.(*weight).dequantize(row, 1)
	assert.Equal(t, []float32{3, 4}, row)
	for _, shape := range [][]int{{2}, {2, 1, 1}, {}} {
		_, err := d.LoadWeight(gguf.Tensor{Name: "odd", Type: gguf.F32, Shape: shape, Data: matrix.Data}, nil)
		assert.ErrorContains(t, err, `"odd"`)
	}
	_, err = d.LoadWeight(matrix, &matrix)
	assert.ErrorContains(t, err, "dimensions", "a bias that is a matrix")
}

// TestImpossibleSizes: impossible sizes are refused, and possible ones at the limit are not.
func TestImpossibleSizes(t *testing.T) {
	d := devices(t, Options{})[0]
	const limit = math.MaxInt / 4
	for _, size := range []struct{ rows, cols int }{
		{0, 1}, {1, 0}, {-1, 1}, {1, -1}, {limit, 1}, {1, limit}, {limit - cpu.SpareTokens + 1, 1},
	} {
		_, err := d.NewTensor(size.rows, size.cols)
		assert.Error(t, err, "%+v", size)
	}
	_, err := d.NewTensor(1, 1)
	assert.NoError(t, err)
	for _, bad := range []int{-1, MostThreads + 1} {
		_, err = New(Options{Threads: bad})
		assert.ErrorContains(t, err, fmt.Sprintf("threads: %d are not possible: give 1 to 1024", bad))
	}
	good := backend.KVConfig{Layers: 1, Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 2, RopeBase: 1, Type: gguf.F32}
	_, err = d.NewKV(good)
	assert.NoError(t, err)
	for _, bad := range []int{0, -1} {
		for name, edit := range map[string]func(*backend.KVConfig){
			"%d layers":      func(c *backend.KVConfig) { c.Layers = bad },
			"%d slots":       func(c *backend.KVConfig) { c.Slots = bad },
			"%d query heads": func(c *backend.KVConfig) { c.Heads = bad },
			"%d heads":       func(c *backend.KVConfig) { c.KVHeads = bad },
			"head size %d":   func(c *backend.KVConfig) { c.HeadSize = bad },
		} {
			c := good
			edit(&c)
			_, err := d.NewKV(c)
			assert.ErrorContains(t, err, fmt.Sprintf(name, bad))
		}
	}
}

// TestErrorsStick: End returns the first error of a pass; nothing is written after it; the next pass runs.
func TestErrorsStick(t *testing.T) {
	each(t, func(x *fixture, _ float64) {
		table, _ := x.weightOf(10, 8)
		g, _ := x.normOf(8)
		h := x.tensorOf(1, 8)
		all := []*tensor{x.tensorOf(1, 8), x.tensorOf(1, 96), x.tensorOf(1, 32), x.tensorOf(1, 32), x.tensorOf(1, 96)}
		wide, _ := x.weightOf(96, 8)
		narrow, _ := x.weightOf(32, 8)
		back, _ := x.weightOf(8, 96)
		store := x.kv(1, gguf.F32)
		run := func(ctx context.Context, tokens ...int32) ([]backend.Output, error) {
			out := make([]backend.Output, 1)
			rows := rowsAt(1)
			p := x.d.Begin(store, rows)
			for _, id := range tokens {
				rows[0].Token = id
				p.Embed(h, table)
			}
			p.NormProject(all[1], all[2], all[3], h, g, wide, narrow, narrow)
			p.Attend(all[4], all[1], all[2], all[3], nil, nil, 0)
			p.ProjectAdd(h, back, all[4])
			p.NormGateUp(all[0], h, g, square(x), square(x))
			p.Head(out, h, g, table, backend.Want{Rows: []int{0}, K: 1, Logits: true})
			return out, p.End(ctx)
		}
		var before [][]float32
		for _, a := range all {
			before = append(before, append([]float32(nil), a.f...))
		}
		kept := contents(store.(*kv))
		for _, tokens := range [][]int32{{10, 11}, {10, 3}, {-1, 10}} {
			out, err := run(t.Context(), tokens...)
			require.ErrorContains(t, err, fmt.Sprintf("token %d:", tokens[0]))
			assert.Zero(t, out[0])
			for i, a := range all {
				assert.Equal(t, before[i], a.f)
			}
			assert.Equal(t, kept, contents(store.(*kv)))
		}
		bored := errors.New("bored")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(bored)
		_, err := run(ctx, 9)
		require.ErrorIs(t, err, bored)
		_, err = run(ctx, 10)
		require.ErrorContains(t, err, "token 10", "the first error")
		for _, id := range []int32{0, 9} {
			out, err := run(t.Context(), id)
			require.NoError(t, err)
			assert.Len(t, out[0].Logits, 10)
		}
	})
}

// TestUnknownVariant: a device is refused if the environment names an instruction set that this machine does not have.
func TestUnknownVariant(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDevice$")
	cmd.Env = append(os.Environ(), cpu.Env+"=abacus")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("the program runs in an emulator and cannot start itself")
	}
	require.Error(t, err)
	assert.Contains(t, string(out), cpu.Env+"=abacus: this CPU and build offer generic")
}

// square returns a weight of 8 × 8.
func square(x *fixture) backend.Weight {
	w, _ := x.weightOf(8, 8)
	return w
}

// TestGrain: a piece consists of whole groups of rows that are rounded together, is no longer than the max number of
// bytes, and if there are enough pieces all workers get the same number.
func TestGrain(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 5} {
		d := devices(t, Options{Threads: threads})[0]
		for _, rows := range []int{1, 31, 32, 33, 896, 4864, 151936} {
			for _, cols := range []int{32, 896, 4864} {
				for _, n := range []int{1, 2, 3, 4, 5, 16, 17, 200} {
					p := &pass{d: d, rows: make([]backend.Row, n)}
					small := &weight{Matrix: cpu.Matrix{Type: gguf.Q8_0, Rows: rows, Cols: cols}}
					large := &weight{Matrix: cpu.Matrix{Type: gguf.F16, Rows: rows, Cols: cols}}
					got := p.outputsPerPiece(rows, small, large)
					require.Zero(t, got%pieceOutputs)
					require.GreaterOrEqual(t, got, pieceOutputs)
					require.Equal(t, got, p.outputsPerPiece(rows, large, small), "the larger of the two counts")
					if got > pieceOutputs && n <= fewTokens {
						require.LessOrEqual(t, got*2*cols*n, pieceBytes, "bytes of weights for these rows")
					}
					if got > pieceMost && n > fewTokens {
						require.LessOrEqual(t, got*2*cols*n, pieceBytes, "many rows: %d of %d", got, rows)
					}
					limit := max(1, (pieceBytes/(2*cols*n))/pieceOutputs)
					if units := (rows + pieceOutputs - 1) / pieceOutputs; n <= fewTokens && units > limit {
						best := false // a number of units in the upper half of the range that divides the pieces evenly
						for u := limit; u > limit/2; u-- {
							best = best || (units+u-1)/u%threads == 0
						}
						pieces := (units + got/pieceOutputs - 1) / (got / pieceOutputs)
						require.Equal(t, best, pieces%threads == 0,
							"%d threads, %d × %d: pieces of %d", threads, rows, cols, got)
					}
				}
			}
		}
	}
}

// TestClose ends the workers of a device, after passes and without any; a second call does nothing.
func TestClose(t *testing.T) {
	for _, passes := range []int{0, 2} {
		bubble.Test(t, func(t *testing.T) { // fails if a goroutine is left
			d, err := New(Options{Threads: 3})
			require.NoError(t, err)
			x := &fixture{t: t, r: rand.New(rand.NewPCG(1, 2)), d: d}
			g, _ := x.normOf(8)
			w, _ := x.weightOf(5000, 8)
			for range passes {
				x.head(x.tensorOf(4, 8), g, w, backend.Want{Rows: []int{0, 3}, K: 1})
			}
			require.NoError(t, d.Close())
			require.NoError(t, d.Close())
		})
	}
}

// TestWorkers: the workers are awake during a pass alone.
func TestWorkers(t *testing.T) {
	d, err := New(Options{Threads: 2})
	require.NoError(t, err)
	defer d.Close()
	kv, err := d.NewKV(backend.KVConfig{Layers: 1, Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 2, Type: gguf.F32})
	require.NoError(t, err)
	of := func(field string) reflect.Value {
		return reflect.ValueOf(d.pool).Elem().FieldByName(field).FieldByName("v")
	}
	p := d.Begin(kv, nil)
	assert.NotZero(t, of("pass").Uint())
	require.NoError(t, p.End(t.Context()))
	assert.Zero(t, of("pass").Uint())
}
