package gpu

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// bar is the max relative error of float32 sums over these shapes.
const bar = 2e-6

// kinds returns the types with kernels, each with ragged columns: no whole step, no whole float4.
func kinds() []kind {
	return []kind{
		{gguf.F32, 70}, {gguf.F16, 301}, {gguf.BF16, 388}, {gguf.Q8_0, 352}, {gguf.Q4_0, 96}, {gguf.Q5_0, 288},
		{gguf.Q4_K, 512}, {gguf.Q5_K, 256}, {gguf.Q6_K, 768}, {gguf.F16, 303},
	}
}

type kind struct {
	t    gguf.Type
	cols int
}

// kinds returns the types that a variant runs: those staged as halves for products of equal operands.
func (x *fixture) kinds() []kind {
	if x.equal {
		return []kind{kinds()[1], kinds()[9]}
	}
	return kinds()
}

// TestFeedForward compares the gate, up and down products of every type with their formulas, for one row, a few, and
// many, with outputs that do not fill a threadgroup, and with biases on both or on one of gate and up.
func TestFeedForward(t *testing.T) {
	racing.Spare(t)
	each(t, func(x *fixture) {
		for _, k := range x.kinds() {
			for _, n := range []int{1, 3, 8, 9, 34, 75} {
				if n < 75 || k.t == gguf.F16 || k.t == gguf.Q4_0 { // two tiles, weights staged as halves and as floats
					x.feedForward(k, n)
				}
			}
		}
	})
}

// feedForward compares the products of n rows with weights of a kind. The exponential in silu amplifies the error of a
// large sum.
func (x *fixture) feedForward(k kind, n int) {
	const out = 67
	h, y, m := x.tensorOf(n, k.cols), x.tensorOf(n, out), x.tensorOf(n, out)
	g, fn := x.normOf(k.cols)
	wg, fg := x.weightWith(k.t, out, k.cols, n != 3 && n != 34)
	wu, fu := x.weightWith(k.t, out, k.cols, n != 8 && n != 75)
	wd, fd := x.weightOf(k.t, out, k.cols)
	before := slices.Clone(y.all())
	p := x.begin(x.smallStore(n), rowsAt(n))
	p.NormGateUp(m, h, g, wg, wu)
	p.ProjectAdd(y, wd, h)
	require.NoError(x.t, p.End(x.t.Context()))
	for i := range n {
		normed := fn(h.line(i))
		gate, up := fg(normed), fu(normed)
		sum := fd(widened(h.line(i)))
		for j := range gate {
			gate[j] *= up[j] / (1 + math.Exp(-gate[j]))
			sum[j] += float64(before[i*out+j])
		}
		x.near(gate, m.line(i), 25*bar, "silu(gate)·up, %s, row %d of %d", k.t, i, n)
		x.near(sum, y.line(i), bar, "x + w·h, %s, row %d of %d", k.t, i, n)
	}
}

// smallStore returns a KV store for passes of n rows that do not attend.
func (x *fixture) smallStore(n int) *kv {
	return x.kv(backend.KVConfig{Slots: n, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F16})
}

// TestMixedTypes: a gate and an up projection of two types, with rows longer than threadgroup memory, and with biases
// on both or on one.
func TestMixedTypes(t *testing.T) {
	racing.Spare(t)
	each(t, func(x *fixture) {
		const in, out = 4864, 70
		for _, n := range []int{1, 2, 7, 10} {
			h, m := x.tensorOf(n, in), x.tensorOf(n, out)
			g, fn := x.normOf(in)
			wg, fg := x.weightWith(gguf.Q8_0, out, in, n != 1 && n != 10)
			wu, fu := x.weightWith(gguf.Q4_K, out, in, n != 2)
			p := x.begin(x.smallStore(n), rowsAt(n))
			p.NormGateUp(m, h, g, wg, wu)
			require.NoError(x.t, p.End(x.t.Context()))
			for i := range n {
				normed := fn(h.line(i))
				gate, up := fg(normed), fu(normed)
				for j := range gate {
					gate[j] *= up[j] / (1 + math.Exp(-gate[j]))
				}
				x.near(gate, m.line(i), 25*bar, "row %d of %d", i, n)
			}
		}
	})
}

// TestConverted: of the types without kernels, two are repacked without loss, the others become F16, or F32 outside the
// range of F16.
func TestConverted(t *testing.T) {
	x := &fixture{t: t, r: newRand(3), d: open(t, fastOptions())}
	for _, kind := range []gguf.Type{gguf.Q4_1, gguf.Q5_1, gguf.Q2_K, gguf.Q3_K, gguf.IQ4_NL, gguf.IQ4_XS} {
		w, f := x.weightOf(kind, 20, 512)
		h, y := x.tensorOf(1, 512), x.tensorOf(1, 20)
		clear(y.all())
		p := x.begin(x.smallStore(1), rowsAt(1))
		p.ProjectAdd(y, w, h)
		require.NoError(t, p.End(t.Context()))
		allowed := 1e-3
		if kind == gguf.Q3_K || kind == gguf.IQ4_NL {
			allowed = bar
		}
		x.near(f(widened(h.line(0))), y.line(0), allowed, "%s", kind)
	}
	for _, far := range []string{"\x00\x3c\xff\x7b", "\x00\xbc\xff\xfb"} { // steps of ±1, away from ±65504
		m, _ := x.matrix(gguf.Q4_1, 2, 32)
		copy(m.Data, far)
		w, err := x.d.LoadWeight(m, nil)
		require.NoError(t, err)
		assert.Equal(t, gguf.F32, w.(*weight).kind, "%x", far)
	}
}

// TestEmbed gathers rows of every type.
func TestEmbed(t *testing.T) {
	each(t, func(x *fixture) {
		for _, k := range x.kinds() {
			x.embed(k)
		}
	})
}

// embed compares rows of a table of a kind with what the kernel gathers.
func (x *fixture) embed(k kind) {
	m, w := x.matrix(k.t, 9, k.cols)
	table, err := x.d.LoadWeight(m, nil)
	require.NoError(x.t, err)
	rows := rowsAt(3)
	rows[0].Token, rows[1].Token, rows[2].Token = 8, 0, 5
	h := x.tensorOf(3, k.cols)
	p := x.begin(x.smallStore(3), rows)
	p.Embed(h, table)
	require.NoError(x.t, p.End(x.t.Context()))
	for i, r := range rows {
		x.near(widened(w[int(r.Token)*k.cols:int(r.Token+1)*k.cols]), h.line(i), 1e-7, "%s", k.t)
	}
}

// attend runs random projections and attention over rows, after the keys and values that earlier calls left in s, with
// norms of the heads if normed is set. It checks the new keys and values, and returns the attention of each row.
func (x *fixture) attend(s *kv, kind gguf.Type, rows []backend.Row, tolerance float64, normed bool) [][]float32 {
	c := s.c
	in, width, narrow, queries := 256, c.Heads*c.HeadSize, c.KVHeads*c.HeadSize, s.queryHeads()*c.HeadSize
	n := len(rows)
	h := x.tensorOf(n, in)
	g, fn := x.normOf(in)
	wq, fq := x.weightOf(kind, queries, in)
	wk, fk := x.weightOf(kind, narrow, in)
	wv, fv := x.weightOf(gguf.Q6_K, narrow, in)
	q, k, v, a := x.tensorOf(n, queries), x.tensorOf(n, narrow), x.tensorOf(n, narrow), x.tensorOf(n, width)
	seen, wo := x.tensorOf(n, width), x.identity(width)
	clear(seen.all())
	p := x.begin(s, rows)
	p.NormProject(q, k, v, h, g, wq, wk, wv)
	fheads := [2]func([]float64) []float64{slices.Clone[[]float64], slices.Clone[[]float64]}
	if normed {
		gq, fgq := x.normWith(c.HeadSize, 0.3)
		gk, fgk := x.normWith(c.HeadSize, 0.7)
		p.Attend(a, q, k, v, gq, gk, 1)
		fheads = [2]func([]float64) []float64{eachHead(c.HeadSize, fgq), eachHead(c.HeadSize, fgk)}
	} else {
		p.Attend(a, q, k, v, nil, nil, 1)
	}
	p.ProjectAdd(seen, wo, a)
	require.NoError(x.t, p.End(x.t.Context()))
	var out [][]float32
	for i, r := range rows {
		normed := fn(h.line(i))
		key, value := fheads[1](fk(normed)), fv(normed)
		for head := range c.KVHeads {
			at := func(v []float64) []float64 { return v[head*c.HeadSize : (head+1)*c.HeadSize] }
			close64(x.t, s.turned(at(key), r.Pos), s.at(1, r.Slot, head, false), tolerance)
			close64(x.t, at(value), s.at(1, r.Slot, head, true), tolerance)
		}
		query, gate := s.splitGates(fq(normed))
		want := s.definition(r, fheads[0](query))
		for j, g := range gate {
			want[j] /= 1 + math.Exp(-g)
		}
		x.near(want, seen.line(i), 5e-6, "attention of row %d of %d", i, n)
		out = append(out, slices.Clone(seen.line(i)))
	}
	return out
}

// splitGates returns the queries and the gates of a row of q.
func (s *kv) splitGates(q []float64) (queries, gates []float64) {
	if !s.c.Gated {
		return q, nil
	}
	for head := range slices.Chunk(q, 2*s.c.HeadSize) {
		queries, gates = append(queries, head[:s.c.HeadSize]...), append(gates, head[s.c.HeadSize:]...)
	}
	return queries, gates
}

// turned rotates the first elements of a head.
func (s *kv) turned(head []float64, pos int32) []float64 {
	n := s.c.RotatedSize()
	return append(turned(head[:n], pos, s.c.RopeBase), head[n:]...)
}

// eachHead applies a norm to heads of size elements.
func eachHead(size int, norm func([]float32) []float64) func([]float64) []float64 {
	return func(v []float64) (out []float64) {
		for head := range slices.Chunk(v, size) {
			narrow := make([]float32, size)
			for i, e := range head {
				narrow[i] = float32(e)
			}
			out = append(out, norm(narrow)...)
		}
		return out
	}
}

// identity returns an identity matrix as a weight.
func (x *fixture) identity(n int) *weight {
	one := make([]float32, n*n)
	for i := range n {
		one[i*n+i] = 1
	}
	w, err := x.d.LoadWeight(stored(one, n, n), nil)
	require.NoError(x.t, err)
	return w.(*weight)
}

func close64(t *testing.T, want, got []float64, bar float64) {
	t.Helper()
	diff, norm := 0.0, 0.0
	for i, w := range want {
		diff += (w - got[i]) * (w - got[i])
		norm += w * w
	}
	require.Less(t, math.Sqrt(diff/norm), bar)
}

// definition returns attention over the keys and values in the store, in float64.
func (s *kv) definition(r backend.Row, q []float64) []float64 {
	c, out := s.c, []float64(nil)
	for h := range c.Heads {
		head := s.turned(q[h*c.HeadSize:(h+1)*c.HeadSize], r.Pos)
		from := h / (c.Heads / c.KVHeads)
		var weights []float64
		var values [][]float64
		top, total := math.Inf(-1), 0.0
		for _, span := range r.See {
			for slot := span.From; slot < span.To; slot++ {
				dot := 0.0
				for i, k := range s.at(1, slot, from, false) {
					dot += head[i] * k
				}
				weights = append(weights, dot/math.Sqrt(float64(c.HeadSize)))
				values = append(values, s.at(1, slot, from, true))
				top = max(top, weights[len(weights)-1])
			}
		}
		a := make([]float64, c.HeadSize)
		for j, w := range weights {
			e := math.Exp(w - top)
			total += e
			for i := range a {
				a[i] += e * values[j][i]
			}
		}
		for i := range a {
			a[i] /= total
		}
		out = append(out, a...)
	}
	return out
}

// shapes returns groups, sizes of heads (some are padded), types of stores, and what is rotated and gated.
func shapes() []backend.KVConfig {
	return []backend.KVConfig{
		{Slots: 50, Heads: 14, KVHeads: 2, HeadSize: 64, Type: gguf.F16},
		{Slots: 50, Heads: 3, KVHeads: 3, HeadSize: 20, Type: gguf.F32},
		{Slots: 50, Heads: 2, KVHeads: 1, HeadSize: 128, Type: gguf.F16},
		{Slots: 50, Heads: 4, KVHeads: 2, HeadSize: 6, Type: gguf.F32},
		{Slots: 50, Heads: 20, KVHeads: 1, HeadSize: 100, Type: gguf.F32},
		{Slots: 50, Heads: 4, KVHeads: 1, HeadSize: 256, Rotated: 64, Gated: true, Type: gguf.F16},
		{Slots: 50, Heads: 3, KVHeads: 3, HeadSize: 132, Rotated: 130, Type: gguf.F32},
		{Slots: 50, Heads: 6, KVHeads: 2, HeadSize: 20, Rotated: 6, Gated: true, Type: gguf.F32},
	}
}

// TestAttend: random slots, positions and spans, three passes over one store, compared with the definition.
func TestAttend(t *testing.T) {
	racing.Spare(t)
	each(t, func(x *fixture) {
		for i, c := range slices.Concat(shapes(), shapes()) {
			s := x.kv(c)
			filled, passes, normed := []int32{}, []int{5, 1, 8, 11}, false
			if i >= len(shapes()) {
				passes, normed = []int{3, 10}, true
			}
			if x.variant == soft.Check { // which is slow
				passes = passes[:len(passes)/2]
			}
			for _, n := range passes {
				rows := make([]backend.Row, n)
				free := x.r.Perm(50)
				for i := range rows {
					slot := int32(free[i])
					for j := 0; slices.Contains(filled, slot); j++ {
						slot = int32(free[n+j])
					}
					filled = append(filled, slot)
					rows[i] = backend.Row{Pos: x.r.Int32N(3000), Slot: slot}
				}
				for i := range rows {
					for range x.r.IntN(6) {
						s := filled[x.r.IntN(len(filled))]
						span := backend.Span{From: s, To: s + 1}
						if s != rows[i].Slot && !slices.Contains(rows[i].See, span) {
							rows[i].See = append(rows[i].See, span)
						}
					}
					rows[i].See = append(rows[i].See, backend.Span{From: rows[i].Slot, To: rows[i].Slot + 1})
				}
				tolerance := 5e-6
				if c.Type == gguf.F16 {
					tolerance = 1e-3
				}
				x.attend(s, gguf.Q8_0, rows, tolerance, normed)
			}
		}
	})
}

// fill writes random keys and values into all slots of layer 1.
func (x *fixture) fill(s *kv) {
	for h := range 2 * s.c.KVHeads * s.c.Slots {
		row := s.layers[1].Bytes()[h*s.rowLen:]
		for i, v := range x.floats(s.c.HeadSize) {
			if s.c.Type == gguf.F32 {
				sliceAs[float32](row[:s.rowLen])[i] = v
			} else {
				sliceAs[uint16](row[:s.rowLen])[i] = gguf.F32ToF16(v)
			}
		}
	}
}

// TestReadBack: slots that are read from one store and written to another have the same contents, in the order of
// [backend.KV]; slots after them do not change.
func TestReadBack(t *testing.T) {
	each(t, func(x *fixture) {
		for _, c := range shapes() {
			from, to := x.kv(c), x.kv(c)
			x.fill(from)
			x.fill(to)
			const n = 33
			after := to.at(1, n, 0, true)
			b := make([]byte, from.c.LayerBytes(n))
			from.Read(1, n, b)
			to.Write(1, n, b)
			for slot := range int32(n) {
				for h := range c.KVHeads {
					for _, v := range []bool{false, true} {
						require.Equal(x.t, from.at(1, slot, h, v), to.at(1, slot, h, v))
					}
				}
			}
			require.Equal(x.t, after, to.at(1, n, 0, true))
			first := float64(gguf.F16ToF32(uint16(b[0]) | uint16(b[1])<<8))
			if c.Type == gguf.F32 {
				first = float64(sliceAs[float32](b)[0])
			}
			require.Equal(x.t, from.at(1, 0, 0, false)[0], first)
		}
	})
}

// TestLong: enough keys to be split, for one row and for several that see different numbers of them. The result of a
// row is the same, to the last bit, alone and with others, and with its keys in other places.
func TestLong(t *testing.T) {
	racing.Spare(t)
	each(t, func(x *fixture) {
		const slots = 420
		for _, c := range []backend.KVConfig{
			{Slots: slots, Heads: 6, KVHeads: 2, HeadSize: 16, Type: gguf.F16},
			{Slots: slots, Heads: 6, KVHeads: 2, HeadSize: 16, Type: gguf.F32},
			{Slots: slots, Heads: 8, KVHeads: 8, HeadSize: 96, Type: gguf.F16}, // few splits of many keys
		} {
			s := x.kv(c)
			x.fill(s)
			rows := []backend.Row{
				{Pos: 300, Slot: 400, See: []backend.Span{{From: 0, To: 300}, {From: 400, To: 401}}},
				{Pos: 301, Slot: 401, See: []backend.Span{{From: 0, To: 300}, {From: 400, To: 402}}},
				{Pos: 9, Slot: 402, See: []backend.Span{{From: 0, To: 9}, {From: 402, To: 403}}},
			}
			require.Equal(x.t, max(5, 40/c.KVHeads), splitCount(301, c.KVHeads))
			same := func() [][]float32 { // the same inputs each time
				x.r = newRand(9)
				return x.attend(s, gguf.Q4_0, rows, 1e-3, c.Heads == c.KVHeads)
			}
			together := same()
			order := x.r.Perm(400) // slot i goes to order[i]
			moved := x.kv(c)
			for layer := range s.layers {
				copy(moved.layers[layer].Bytes(), s.layers[layer].Bytes())
			}
			for i, to := range order {
				for h := range 2 * c.KVHeads {
					at := func(slot int) int { return (h*slots + slot) * s.rowLen }
					copy(moved.layers[1].Bytes()[at(to):at(to+1)], s.layers[1].Bytes()[at(i):])
				}
			}
			for i := range rows {
				see := []backend.Span{}
				for _, span := range rows[i].See {
					for slot := span.From; slot < span.To; slot++ {
						to := slot
						if slot < 400 {
							to = int32(order[slot])
						}
						see = append(see, backend.Span{From: to, To: to + 1})
					}
				}
				rows[i].See = see
			}
			s = moved
			assert.Equal(x.t, together, same(), "keys elsewhere")
		}
	})
}

// anyHead is a head over logits of which it finds the k best.
type anyHead struct {
	vocab, rows, k int
	kind           gguf.Type
	different      int // rows of the weight, which then repeat; 0: all but the first two
}

// TestHead: the best tokens, log-sum-exp and entropy compared with all logits, over several threadgroups, with ties of
// two tokens and of hundreds; for few wanted rows and many, and for more best tokens than kernels find.
func TestHead(t *testing.T) {
	each(t, func(x *fixture) {
		for _, c := range []anyHead{
			{3, 5, 7, gguf.F32, 0}, {300, 5, 64, gguf.Q8_0, 0}, {1100, 5, 3, gguf.Q6_K, 0}, {700, 20, 2, gguf.F16, 0},
			{600, 3, 70, gguf.Q4_0, 0}, {1100, 5, 60, gguf.Q8_0, 3}, {700, 20, 5, gguf.F16, 64},
		} {
			x.head(c)
		}
	})
}

// head compares the results for every second row with the definition.
func (x *fixture) head(c anyHead) {
	const dim = 256
	h := x.tensorOf(c.rows, dim)
	g, fn := x.normOf(dim)
	m, w := x.matrix(c.kind, c.vocab, dim)
	size := len(m.Data) / c.vocab
	copy(m.Data[size:], m.Data[:size]) // tokens 0 and 1 are equal
	copy(w[dim:], w[:dim])
	for j := c.different; c.different > 0 && j < c.vocab; j++ {
		copy(m.Data[j*size:][:size], m.Data[(j-c.different)*size:])
		copy(w[j*dim:][:dim], w[(j-c.different)*dim:])
	}
	loaded, err := x.d.LoadWeight(m, nil)
	require.NoError(x.t, err)
	want := backend.Want{K: c.k, Logits: true, Hidden: true}
	for i := 0; i < c.rows; i += 2 {
		want.Rows = append(want.Rows, i)
	}
	out := make([]backend.Output, len(want.Rows))
	p := x.begin(x.smallStore(c.rows), rowsAt(c.rows))
	p.Head(out, h, g, loaded, want)
	require.NoError(x.t, p.End(x.t.Context()))
	for i, row := range want.Rows {
		o := out[i]
		hidden := fn(h.line(row))
		logits := make([]float64, c.vocab)
		for j := range logits {
			for k, v := range hidden {
				logits[j] += float64(w[j*dim+k]) * v
			}
		}
		x.near(hidden, o.Hidden, bar, "hidden")
		x.near(logits, o.Logits, bar, "logits of %s", c.kind)
		checkSums(x.t, o, min(c.k, c.vocab))
	}
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
	top, sum, entropy := float64(order[0].Logit), 0.0, 0.0
	for _, c := range order {
		sum += math.Exp(float64(c.Logit) - top)
	}
	for _, c := range order {
		if p := math.Exp(float64(c.Logit)-top) / sum; p > 0 {
			entropy -= p * math.Log(p)
		}
	}
	assert.InDelta(t, top+math.Log(sum), o.LogSumExp, 1e-5*max(1, math.Abs(top)))
	assert.InDelta(t, entropy, o.Entropy, 1e-5)
}

// TestFromLogits: the best of logits with many equal ones, lower ids first, and the sums.
func TestFromLogits(t *testing.T) {
	r := newRand(8)
	for _, n := range []int{1, 2, 7, 100} {
		logits := make([]float32, n)
		for i := range logits {
			logits[i] = float32(r.IntN(5)) - 9
		}
		for _, k := range []int{1, 2, n} {
			o := backend.Output{Logits: logits, Top: make([]backend.Candidate, 3)}
			summarizeLogits(&o, logits, min(k, n))
			checkSums(t, o, min(k, n))
		}
	}
}

// TestNotFinite: a NaN or infinite weight makes the log-sum-exp not finite.
func TestNotFinite(t *testing.T) {
	x := &fixture{t: t, r: newRand(5), d: open(t, fastOptions())}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		w := x.floats(300 * 64)
		w[64*299+5] = bad
		loaded, err := x.d.LoadWeight(stored(w, 64, 300), nil)
		require.NoError(t, err)
		g, _ := x.normOf(64)
		h := x.tensorOf(1, 64)
		h.all()[5] = 0
		out := make([]backend.Output, 1)
		p := x.begin(x.smallStore(1), rowsAt(1))
		p.Head(out, h, g, loaded, backend.Want{Rows: []int{0}, K: 3})
		require.NoError(t, p.End(t.Context()))
		lse := float64(out[0].LogSumExp)
		assert.True(t, math.IsNaN(lse) || math.IsInf(lse, 0), "%v gives %v", bad, lse)
	}
}

// TestMisfits: shapes that do not fit panic, because they are bugs of the caller.
func TestMisfits(t *testing.T) {
	x := &fixture{t: t, r: newRand(6), d: open(t, fastOptions())}
	s := x.kv(backend.KVConfig{Slots: 2, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F16})
	w, _ := x.weightOf(gguf.F16, 20, 30)
	g, _ := x.normOf(30)
	h, y, short := x.tensorOf(2, 30), x.tensorOf(2, 20), x.tensorOf(1, 20)
	p := x.begin(s, rowsAt(2))
	assert.Panics(t, func() { p.ProjectAdd(h, w, y) })
	assert.Panics(t, func() { p.ProjectAdd(short, w, h) }, "one row too few")
	assert.Panics(t, func() { p.NormGateUp(h, h, g, w, w) })
	assert.Panics(t, func() { p.Embed(y, w) })
	assert.Panics(t, func() { p.Head(nil, y, g, w, backend.Want{Rows: []int{0}, K: 1}) })
	require.NoError(t, p.End(t.Context()))
	for _, c := range []backend.KVConfig{
		{Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 7, Type: gguf.F16},
		{Slots: 1, Heads: 3, KVHeads: 2, HeadSize: 8, Type: gguf.F16},
		{Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.Q8_0},
		{Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 258, Type: gguf.F16},
		{Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 8, Rotated: 10, Type: gguf.F16},
		{Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 8, Rotated: 3, Type: gguf.F16},
		{Slots: 0, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F16},
		{Slots: 1 << 40, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F16},
	} {
		c.Layers = 1
		_, err := x.d.NewKV(c)
		assert.Error(t, err, "%+v", c)
	}
	_, err := x.d.NewKV(backend.KVConfig{Layers: 1, Slots: 1, Heads: 64, KVHeads: 1, HeadSize: 128, Type: gguf.F16})
	require.NoError(t, err)
}

// TestRefused: tensors that are not a matrix or a vector, do not fit each other, or have impossible sizes.
func TestRefused(t *testing.T) {
	x := &fixture{t: t, r: newRand(6), d: open(t, fastOptions())}
	matrix, vector := stored(make([]float32, 12), 4, 3), stored(make([]float32, 3), 3)
	longer := stored(make([]float32, 4), 4)
	for what, load := range map[string]func() error{
		"3 dimensions, a matrix has 2": func() error {
			_, err := x.d.LoadWeight(stored(make([]float32, 8), 2, 2, 2), nil)
			return err
		},
		"1 dimensions, a matrix has 2":          func() error { _, err := x.d.LoadWeight(vector, nil); return err },
		"2 dimensions, a vector has 1":          func() error { _, err := x.d.LoadWeight(matrix, &matrix); return err },
		"4 elements, the matrix has 3 rows":     func() error { _, err := x.d.LoadWeight(matrix, &longer); return err },
		`"t": 2 dimensions, a vector has 1`:     func() error { _, err := x.d.LoadNorm(matrix, 1); return err },
		"activations of 0 × 4: impossible size": func() error { _, err := x.d.NewTensor(0, 4); return err },
		"4 × -1: impossible size":               func() error { _, err := x.d.NewTensor(4, -1); return err },
		"1099511627776 × 1: impossible size":    func() error { _, err := x.d.NewTensor(1<<40, 1); return err },
	} {
		t.Run(what, func(t *testing.T) { assert.ErrorContains(t, load(), what) })
	}
	rows := rowsAt(1)
	h := x.tensorOf(1, 4)
	s := x.kv(backend.KVConfig{Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F16})
	w, err := x.d.LoadWeight(matrix, &vector)
	require.NoError(t, err)
	for _, token := range []int32{-1, 3} {
		rows[0].Token = token
		p := x.begin(s, rows)
		p.Embed(h, w)
		assert.ErrorContains(t, p.End(t.Context()), "the embedding has 3 rows")
	}
}
