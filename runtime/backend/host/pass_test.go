package host

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// fixture is a device with random inputs, and float64 arithmetic for comparison.
type fixture struct {
	t *testing.T
	r *rand.Rand
	d *Device
}

// each runs f on the fast and on the exact device, with the max relative error of each for float32 weights.
func each(t *testing.T, f func(x *fixture, bar float64)) {
	for _, o := range []Options{{Threads: 1}, {Threads: 3}, {Threads: 2, Exact: true}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			d, err := New(o)
			require.NoError(t, err)
			defer d.Close()
			f(&fixture{t: t, r: rand.New(rand.NewPCG(1, 2)), d: d}, 2e-6)
		})
	}
}

func (x *fixture) floats(n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(x.r.NormFloat64())
	}
	return f
}

// tensorOf returns a tensor of rows × cols random numbers.
func (x *fixture) tensorOf(rows, cols int) *tensor {
	return holding(x.t, x.d, rows, cols, x.floats(rows*cols))
}

// holding returns a tensor of rows × cols with the numbers of f.
func holding(t *testing.T, d *Device, rows, cols int, f []float32) *tensor {
	made, err := d.NewTensor(rows, cols)
	require.NoError(t, err)
	copy(made.(*tensor).f, f)
	return made.(*tensor)
}

// stored returns f as a tensor of a file, with the given shape.
func stored(f []float32, shape ...int) gguf.Tensor {
	b := make([]byte, 0, 4*len(f))
	for _, v := range f {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return gguf.Tensor{Name: "t", Type: gguf.F32, Shape: shape, Data: b}
}

// weightOf returns a weight of random numbers with a bias, and the same function in float64.
func (x *fixture) weightOf(out, in int) (backend.Weight, func(h []float64) []float64) {
	return x.weightWith(out, in, true)
}

func (x *fixture) weightWith(out, in int, biased bool) (backend.Weight, func(h []float64) []float64) {
	w, b, bias := x.floats(out*in), make([]float32, out), (*gguf.Tensor)(nil)
	if biased {
		b = x.floats(out)
		bias = new(stored(b, out))
	}
	loaded, err := x.d.LoadWeight(stored(w, in, out), bias)
	require.NoError(x.t, err)
	return loaded, func(h []float64) []float64 {
		y := make([]float64, out)
		for o := range y {
			y[o] = float64(b[o])
			for i, v := range h {
				y[o] += float64(w[o*in+i]) * v
			}
		}
		return y
	}
}

// normOf returns an RMSNorm with random gains, and the same function in float64.
func (x *fixture) normOf(n int) (backend.Norm, func(v []float32) []float64) {
	return x.normWith(n, 1e-3)
}

func (x *fixture) normWith(n int, eps float32) (backend.Norm, func(v []float32) []float64) {
	g := x.floats(n)
	loaded, err := x.d.LoadNorm(stored(g, n), eps)
	require.NoError(x.t, err)
	return loaded, func(v []float32) []float64 {
		sum := 0.0
		for _, e := range v {
			sum += float64(e) * float64(e)
		}
		h := make([]float64, n)
		for i, e := range v {
			h[i] = float64(g[i]) * float64(e) / math.Sqrt(sum/float64(n)+float64(eps))
		}
		return h
	}
}

// near compares by the error relative to the length of want.
func (x *fixture) near(want []float64, got []float32, bar float64, what string) {
	x.t.Helper()
	require.Len(x.t, got, len(want))
	diff, norm := 0.0, 0.0
	for i, w := range want {
		diff += (w - float64(got[i])) * (w - float64(got[i]))
		norm += w * w
	}
	require.Less(x.t, math.Sqrt(diff/norm), bar, what)
}

func wide(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, e := range v {
		w[i] = float64(e)
	}
	return w
}

// rowsAt returns n rows in the slots from 0, each of which sees the rows before it.
func rowsAt(n int) []backend.Row {
	rows := make([]backend.Row, n)
	for i := range rows {
		rows[i] = backend.Row{Pos: int32(i), Slot: int32(i), See: []backend.Span{{From: 0, To: int32(i + 1)}}}
	}
	return rows
}

func (x *fixture) kv(slots int, t gguf.Type) backend.KV { return x.kvOf(slots, 3, t) }

// kvOf returns a KV store with two heads of keys, each for a group of heads.
func (x *fixture) kvOf(slots, group int, t gguf.Type) backend.KV {
	s, err := x.d.NewKV(backend.KVConfig{
		Layers: 2, Slots: slots, Heads: 2 * group, KVHeads: 2, HeadSize: 16, RopeBase: 1000, Type: t,
	})
	require.NoError(x.t, err)
	return s
}

// TestProjections compares every product of a layer with its formula, for one row, a few, and many; the weights are one
// piece of work, or several that end inside the weights and leave a single row.
func TestProjections(t *testing.T) {
	each(t, func(x *fixture, bar float64) {
		for _, n := range []int{1, 3, 4, 9} {
			x.projections(n, 70, 90, 33, 5, bar)
			x.projections(n, 1100, 65, 33, 1, 20*bar)
		}
	})
}

// projections is [TestProjections] for n rows of in activations and weights with these numbers of rows.
func (x *fixture) projections(n, in, out, outK, outV int, bar float64) {
	p := x.d.Begin(x.kv(n, gguf.F32), rowsAt(n))
	h, g := x.tensorOf(n, in), x.tensorOf(n, out)
	nrm, fn := x.normOf(in)
	wq, fq := x.weightOf(out, in)
	wk, fk := x.weightOf(outK, in)
	wv, fv := x.weightOf(outV, in)
	q, k, v := x.tensorOf(n, out), x.tensorOf(n, outK), x.tensorOf(n, outV)
	p.NormProject(q, k, v, h, nrm, wq, wk, wv)
	m := x.tensorOf(n, out)
	wg, fg := x.weightWith(out, in, n != 3)
	wu, fu := x.weightWith(out, in, n != 4)
	p.NormGateUp(m, h, nrm, wg, wu)
	before := slices.Clone(g.f)
	wo, fo := x.weightOf(out, in)
	p.ProjectAdd(g, wo, h)
	require.NoError(x.t, p.End(x.t.Context()))
	for i := range n {
		normed := fn(h.row(i))
		x.near(fq(normed), q.row(i), bar, "q")
		x.near(fk(normed), k.row(i), bar, "k")
		x.near(fv(normed), v.row(i), bar, "v")
		gate, up := fg(normed), fu(normed)
		sum := fo(wide(h.row(i)))
		for j := range gate {
			gate[j] *= up[j] / (1 + math.Exp(-gate[j]))
			sum[j] += float64(before[i*out+j])
		}
		x.near(gate, m.row(i), 2*bar, "silu(gate)·up")
		x.near(sum, g.row(i), bar, "x + w·h")
	}
}

// TestRoundedWhereMade: the output of NormGateUp, rounded in parts where it is computed, gives the down projection the
// same bits as the same numbers from elsewhere.
func TestRoundedWhereMade(t *testing.T) {
	racing.Spare(t)
	each(t, func(x *fixture, _ float64) {
		counts, widths := []int{1, 3, 4, 70}, []int{416, 448, 1024}
		if testing.Short() { // as on an emulated CPU
			counts, widths = counts[2:], widths[:2]
		}
		for _, n := range counts {
			for _, inside := range widths {
				const width = 256
				gate, up, down := x.quantised(inside, width), x.quantised(inside, width), x.quantised(width, inside)
				norm, _ := x.normOf(width)
				h, m := x.tensorOf(n, width), x.tensorOf(n, inside)
				p := x.d.Begin(x.kv(n, gguf.F32), rowsAt(n))
				p.(*pass).immediate = true
				p.NormGateUp(m, h, norm, gate, up)
				other := holding(t, x.d, n, inside, m.f)
				a, b := holding(t, x.d, n, width, h.f), holding(t, x.d, n, width, h.f)
				p.ProjectAdd(a, down, m)
				p.ProjectAdd(b, down, other)
				// Its output is not rounded in place of earlier rounded numbers.
				plain, _ := x.weightOf(inside, width)
				p.NormGateUp(m, h, norm, plain, plain)
				again := holding(t, x.d, n, inside, m.f)
				p.ProjectAdd(a, down, m)
				p.ProjectAdd(b, down, again)
				require.NoError(t, p.End(t.Context()))
				require.Equal(t, b.f, a.f, "%d rows, %d inside", n, inside)
			}
		}
	})
}

// quantised returns a weight of random numbers in Q8_0.
func (x *fixture) quantised(out, in int) backend.Weight {
	data := make([]byte, out*in/32*34)
	require.NoError(x.t, gguf.Q8_0.Quantize(data, x.floats(out*in)))
	w, err := x.d.LoadWeight(gguf.Tensor{Name: "t", Type: gguf.Q8_0, Shape: []int{in, out}, Data: data}, nil)
	require.NoError(x.t, err)
	return w
}

// attend computes attention by its definition in float64: rotated q and k, softmax over the visible slots.
func attend(c backend.KVConfig, r backend.Row, q []float32, keys, values map[int32][]float64) []float64 {
	size, out := c.HeadSize, make([]float64, 0, len(q))
	for h := range c.Heads {
		head := rotated(wide(q[h*size:(h+1)*size]), r.Pos, c.RopeBase)
		off := h / (c.Heads / c.KVHeads) * size
		var weights []float64
		var slots []int32
		total := 0.0
		for _, s := range r.See {
			for slot := s.From; slot < s.To; slot++ {
				dot := 0.0
				for i, v := range head {
					dot += v * keys[slot][off+i]
				}
				weights = append(weights, math.Exp(dot/math.Sqrt(float64(size))))
				slots = append(slots, slot)
				total += weights[len(weights)-1]
			}
		}
		a := make([]float64, size)
		for j, slot := range slots {
			for i := range a {
				a[i] += weights[j] / total * values[slot][off+i]
			}
		}
		out = append(out, a...)
	}
	return out
}

// rotated rotates one head: the pair (i, i+Dh/2) by pos·base^(-2i/Dh).
func rotated(x []float64, pos int32, base float64) []float64 {
	half, y := len(x)/2, make([]float64, len(x))
	for i := range half {
		sin, cos := math.Sincos(float64(pos) * math.Pow(base, -2*float64(i)/float64(len(x))))
		y[i], y[i+half] = x[i]*cos-x[i+half]*sin, x[i]*sin+x[i+half]*cos
	}
	return y
}

// attendTest compares attention over one store with its definition.
type attendTest struct {
	*fixture
	store        backend.KV
	keys, values map[int32][]float64 // by slot
	filled       []int32             // slots
	gq, gk       backend.Norm
	fq, fk       func(v []float32) []float64 // the same norms
}

func newAttendTest(x *fixture, kind gguf.Type) *attendTest {
	a := &attendTest{fixture: x, store: x.kv(50, kind), keys: map[int32][]float64{}, values: map[int32][]float64{}}
	a.gq, a.fq = x.normWith(16, 0.1)
	a.gk, a.fk = x.normWith(16, 0.5)
	return a
}

// randomRows returns n rows in free slots, which see filled slots and their own.
func (x *attendTest) randomRows(n int) []backend.Row {
	rows := make([]backend.Row, n)
	free := x.r.Perm(50)
	for i := range rows {
		slot := int32(free[i])
		for j := 0; slices.Contains(x.filled, slot); j++ {
			slot = int32(free[n+j])
		}
		x.filled = append(x.filled, slot)
		rows[i] = backend.Row{Pos: x.r.Int32N(3000), Slot: slot}
	}
	for i := range rows {
		for range x.r.IntN(6) {
			s := x.filled[x.r.IntN(len(x.filled))]
			rows[i].See = append(rows[i].See, backend.Span{From: s, To: s + 1})
		}
		rows[i].See = append(rows[i].See, backend.Span{From: rows[i].Slot, To: rows[i].Slot + 1})
	}
	return rows
}

// pass evaluates n rows, with norms of the heads or without.
func (x *attendTest) pass(n int, normed bool, bar float64) {
	gq, gk, fq, fk := backend.Norm(nil), backend.Norm(nil), wide, wide
	if normed {
		gq, gk, fq, fk = x.gq, x.gk, x.fq, x.fk
	}
	rows, c := x.randomRows(n), x.store.Config()
	q, k, v, a := x.tensorOf(n, 96), x.tensorOf(n, 32), x.tensorOf(n, 32), x.tensorOf(n, 96)
	queries := slices.Clone(q.f)
	for i, r := range rows {
		for h := range 2 {
			key := rotated(fk(k.row(i)[h*16:(h+1)*16]), r.Pos, c.RopeBase)
			x.keys[r.Slot] = append(x.keys[r.Slot], key...)
		}
		x.values[r.Slot] = wide(v.row(i))
	}
	for at := 0; at < len(queries); at += 16 {
		for i, e := range fq(queries[at : at+16]) {
			queries[at+i] = float32(e)
		}
	}
	p := x.d.Begin(x.store, rows)
	p.Attend(a, q, k, v, gq, gk, 1)
	require.NoError(x.t, p.End(x.t.Context()))
	for i, r := range rows {
		x.near(attend(c, r, queries[i*96:(i+1)*96], x.keys, x.values), a.row(i), bar, c.Type.String())
	}
}

// TestAttend: random slots, positions and spans, several passes over one store, compared with the definition.
func TestAttend(t *testing.T) {
	each(t, func(x *fixture, bar float64) {
		for _, kind := range []gguf.Type{gguf.F32, gguf.F16} {
			if kind == gguf.F16 {
				bar = 2e-3
			}
			a := newAttendTest(x, kind)
			for turn, n := range []int{5, 1, 8, 1, 7} {
				a.pass(n, turn > 2, bar)
			}
		}
	})
}

// TestAttendSplits: a text of several KV splits gives the same bits for any slots, in one span or in many, alone or
// with other rows, of which several may be computed together, and for any number of workers; they agree with the
// definition.
func TestAttendSplits(t *testing.T) {
	racing.Spare(t)
	const length, slots = 2*splitSlots + 77, 3*splitSlots + 50
	some, layouts := []int{1, 3}, []string{"from the start", "in pieces", "from within a block", "backwards"}
	groups := []int{1, 2, 3, 5}
	if testing.Short() || cpu.Features() == "generic" { // which is slow
		some, layouts, groups = some[1:], layouts[:2], groups[2:]
	}
	for _, group := range groups {
		for _, kind := range []gguf.Type{gguf.F32, gguf.F16} {
			var first []float32
			for _, threads := range some {
				d, err := New(Options{Threads: threads})
				require.NoError(t, err)
				defer d.Close()
				for _, layout := range layouts {
					x := &fixture{t: t, r: rand.New(rand.NewPCG(1, 2)), d: d}
					q, k, v := x.tensorOf(length, 32*group), x.tensorOf(length, 32), x.tensorOf(length, 32)
					all := &textRows{x: x, store: x.kvOf(slots, group, kind), q: q, k: k, v: v}
					for i := range length {
						all.slots = append(all.slots, map[string]int32{
							"from the start": int32(i), "from within a block": int32(i + 21),
							"backwards": int32(slots - 1 - i), "in pieces": int32(i + i/50*13),
						}[layout])
					}
					got := append(all.attend(0, length-1), all.attend(length-1, length)...)
					if first == nil {
						first = got
						all.right(got, length-1)
						all.right(got, splitSlots+1)
					}
					require.Equal(t, first, got, "groups of %d, %v, %s, %d threads", group, kind, layout, threads)
					few := all.attend(length-2, length)
					require.Equal(t, first[(length-2)*q.cols:], few, "two rows")
				}
			}
		}
	}
}

// right checks the attention of token i, among that of all tokens, against the definition.
func (a *textRows) right(all []float32, i int) {
	keys, values := a.wide()
	c := a.store.Config()
	bar := map[gguf.Type]float64{gguf.F32: 2e-6, gguf.F16: 2e-3}[c.Type]
	a.x.near(attend(c, a.row(i), a.q.row(i), keys, values), all[i*a.q.cols:(i+1)*a.q.cols], bar, c.Type.String())
}

// TestAttendTogether: rows that see almost the same, in the same store or another, have the bits that each has alone.
func TestAttendTogether(t *testing.T) {
	rounds := 200
	if testing.Short() { // as on an emulated CPU
		rounds = 50
	}
	each(t, func(x *fixture, _ float64) {
		for range rounds {
			group, kind := 1+x.r.IntN(4), []gguf.Type{gguf.F32, gguf.F16}[x.r.IntN(2)]
			stores := []backend.KV{x.kvOf(64, group, kind), x.kvOf(64, group, kind)}
			before := make([]backend.Row, 20)
			for i := range before {
				slot := int32(i)
				before[i] = backend.Row{Pos: slot, Slot: slot, See: []backend.Span{{From: 0, To: slot + 1}}}
			}
			attend := func(rows []backend.Row, q, k, v *tensor) []float32 {
				out := x.tensorOf(len(rows), 32*group)
				p := x.d.Begin(stores[0], rows)
				copied := func(of *tensor) *tensor { return holding(x.t, x.d, len(rows), of.cols, of.f) }
				p.Attend(out, copied(q), copied(k), copied(v), nil, nil, 0)
				require.NoError(x.t, p.End(x.t.Context()))
				return out.f
			}
			for _, s := range stores {
				for i := range before {
					before[i].KV = s
				}
				attend(before, x.tensorOf(20, 32*group), x.tensorOf(20, 32), x.tensorOf(20, 32))
			}
			rows := make([]backend.Row, 12)
			for i := range rows {
				slot := int32(20 + i)
				first, own := int32(5+x.r.IntN(2)), int32(20-x.r.IntN(2))
				rows[i] = backend.Row{Pos: slot, Slot: slot, KV: stores[x.r.IntN(2)], See: []backend.Span{
					{From: 0, To: first}, {From: own, To: slot + 1},
				}}
			}
			q, k, v := x.tensorOf(12, 32*group), x.tensorOf(12, 32), x.tensorOf(12, 32)
			row := func(of *tensor, i int) *tensor { return holding(x.t, x.d, 1, of.cols, of.row(i)) }
			got := attend(rows, q, k, v)
			for i := range rows {
				require.Equal(x.t, attend(rows[i:i+1], row(q, i), row(k, i), row(v, i)), got[i*q.cols:(i+1)*q.cols])
			}
		}
	})
}

// textRows is a text with its tokens in given slots.
type textRows struct {
	x       *fixture
	store   backend.KV
	q, k, v *tensor
	slots   []int32
}

// row returns token i, which sees itself and all before it.
func (a *textRows) row(i int) backend.Row {
	r := backend.Row{Pos: int32(i), Slot: a.slots[i]}
	for _, s := range a.slots[:i+1] {
		if n := len(r.See); n > 0 && r.See[n-1].To == s {
			r.See[n-1].To++
		} else {
			r.See = append(r.See, backend.Span{From: s, To: s + 1})
		}
	}
	return r
}

// attend returns the attention of the tokens from from up to to, in one pass.
func (a *textRows) attend(from, to int) []float32 {
	part := func(x *tensor) *tensor {
		return holding(a.x.t, a.x.d, to-from, x.cols, x.f[from*x.cols:to*x.cols])
	}
	var rows []backend.Row
	for i := from; i < to; i++ {
		rows = append(rows, a.row(i))
	}
	out := holding(a.x.t, a.x.d, to-from, a.q.cols, nil)
	p := a.x.d.Begin(a.store, rows)
	p.Attend(out, part(a.q), part(a.k), part(a.v), nil, nil, 0)
	require.NoError(a.x.t, p.End(a.x.t.Context()))
	return out.f
}

// wide returns the rotated keys and the values by slot.
func (a *textRows) wide() (keys, values map[int32][]float64) {
	keys, values = map[int32][]float64{}, map[int32][]float64{}
	for i, s := range a.slots {
		for h := range 2 {
			keys[s] = append(keys[s], rotated(wide(a.k.row(i)[h*16:(h+1)*16]), int32(i), a.store.Config().RopeBase)...)
		}
		values[s] = wide(a.v.row(i))
	}
	return keys, values
}

// TestHead: the best tokens, log-sum-exp and entropy compared with all logits, over several chunks of the vocabulary,
// with ties.
func TestHead(t *testing.T) {
	each(t, func(x *fixture, bar float64) {
		for _, vocab := range []int{3, chunk, 2*chunk + 77} {
			const dim = 40
			h := x.tensorOf(5, dim)
			nrm, fn := x.normOf(dim)
			w, f := x.weightOf(vocab, dim)
			copy(w.(*weight).Data[4*dim:8*dim], w.(*weight).Data[:4*dim]) // tokens 0 and 1 are equal
			w.(*weight).bias[1] = w.(*weight).bias[0]
			want := backend.Want{Rows: []int{1, 4}, K: 7, Logits: true, Hidden: true}
			out := make([]backend.Output, 2)
			p := x.d.Begin(x.kv(5, gguf.F32), rowsAt(5))
			p.Head(out, h, nrm, w, want)
			require.NoError(t, p.End(t.Context()))
			for i, row := range want.Rows {
				o := out[i]
				hidden := fn(h.row(row))
				logits := f(hidden)
				logits[1] = logits[0]
				x.near(hidden, o.Hidden, bar, "hidden")
				x.near(logits, o.Logits, bar, "logits")
				checkSums(t, o, min(7, vocab))
			}
		}
	})
}

// checkSums compares Top, LogSumExp and Entropy with the logits.
func checkSums(t *testing.T, o backend.Output, k int) {
	t.Helper()
	var order []backend.Candidate
	for i, l := range o.Logits {
		order = append(order, backend.Candidate{ID: int32(i), Logit: l})
	}
	slices.SortStableFunc(order, func(a, b backend.Candidate) int {
		switch {
		case a.Logit > b.Logit:
			return -1
		case a.Logit < b.Logit:
			return 1
		}
		return 0
	})
	assert.Equal(t, order[:k], o.Top)
	sum, entropy := 0.0, 0.0
	for _, c := range order {
		sum += math.Exp(float64(c.Logit))
	}
	for _, c := range order {
		if p := math.Exp(float64(c.Logit)) / sum; p > 0 {
			entropy -= p * math.Log(p)
		}
	}
	assert.InDelta(t, math.Log(sum), o.LogSumExp, 1e-5)
	assert.InDelta(t, entropy, o.Entropy, 1e-5)
}

// TestRefusals: impossible shapes are refused when they are loaded.
func TestRefusals(t *testing.T) {
	d, err := New(Options{})
	require.NoError(t, err)
	defer d.Close()
	m := stored(make([]float32, 6), 3, 2)
	short := stored(make([]float32, 3), 3)
	_, err = d.LoadWeight(short, nil)
	assert.Error(t, err, "a vector instead of a matrix")
	_, err = d.LoadWeight(m, &short)
	assert.Error(t, err, "a bias of another length")
	_, err = d.LoadNorm(m, 1)
	assert.Error(t, err, "a matrix instead of a vector")
	_, err = d.NewTensor(math.MaxInt/2, 8)
	assert.Error(t, err)
	good := backend.KVConfig{Layers: 1, Slots: 1, Heads: 2, KVHeads: 1, HeadSize: 2, RopeBase: 1, Type: gguf.F16}
	for name, edit := range map[string]func(*backend.KVConfig){
		"no slots":  func(c *backend.KVConfig) { c.Slots = 0 },
		"odd heads": func(c *backend.KVConfig) { c.HeadSize = 3 },
		"groups":    func(c *backend.KVConfig) { c.KVHeads = 3 },
		"type":      func(c *backend.KVConfig) { c.Type = gguf.Q8_0 },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			edit(&c)
			_, err := d.NewKV(c)
			assert.Error(t, err)
		})
	}
	_, err = New(Options{Threads: -1})
	assert.Error(t, err)
}

// TestTokenOutOfRange: the first error of a pass is kept, and later operations do nothing.
func TestTokenOutOfRange(t *testing.T) {
	each(t, func(x *fixture, _ float64) {
		table, _ := x.weightOf(10, 8)
		h := x.tensorOf(1, 8)
		before := slices.Clone(h.f)
		p := x.d.Begin(x.kv(1, gguf.F16), []backend.Row{{Token: 10, See: []backend.Span{{From: 0, To: 1}}}})
		p.Embed(h, table)
		p.ProjectAdd(h, table, h)
		require.ErrorContains(t, p.End(t.Context()), "token 10")
		assert.Equal(t, before, h.f)
	})
}
