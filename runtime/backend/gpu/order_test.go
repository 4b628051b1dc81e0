package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// program is a pass of random operations, with the same operations in float64.
type program struct {
	*fixture
	s     *kv
	rows  []backend.Row
	p     *pass
	value map[*tensor][][]float64 // contents of a tensor; none before a write
	said  []string                // the operations so far, for debugging
}

// layer holds the operands of a program: tensors of two widths, and weights and norms that fit them.
type layer struct {
	x, inner     []*tensor
	q, k, v, a   *tensor
	norms        []*norm
	normal       []func([]float32) []float64
	down, across []func([]float64) []float64 // for wDown and wAcross
	wDown        []*weight                   // [wide, narrow]
	wAcross      []*weight                   // [wide, wide]
	up           []func([]float64) []float64
	wUp          []*weight // [narrow, wide]
	project      [3]func([]float64) []float64
	wProject     [3]*weight
	table        *weight
	embedding    []float32
	delta        backend.Delta
	rule         *deltaFormula
}

const (
	orderWide, orderNarrow = 64, 96
	orderHeads, orderHead  = 4, 16
	orderTokens            = 40
)

// layerOf returns tensors with rows rows, norms, and weights of three types.
func (x *fixture) layerOf(rows int) *layer {
	l := &layer{}
	for i, kind := range []gguf.Type{gguf.Q8_0, gguf.F32, gguf.Q8_0} {
		if i < 2 { // few, so that they are reused
			l.x = append(l.x, x.tensorOf(rows, orderWide))
			l.inner = append(l.inner, x.tensorOf(rows, orderNarrow))
			n, f := x.normOf(orderWide)
			l.norms, l.normal = append(l.norms, n), append(l.normal, f)
		}
		w, g := x.weightOf(kind, orderWide, orderNarrow)
		l.wDown, l.down = append(l.wDown, w), append(l.down, g)
		w, g = x.weightOf(kind, orderWide, orderWide)
		l.wAcross, l.across = append(l.wAcross, w), append(l.across, g)
		w, g = x.weightOf(kind, orderNarrow, orderWide)
		l.wUp, l.up = append(l.wUp, w), append(l.up, g)
		outs := orderWide
		if i > 0 {
			outs /= 2 // two KV heads
		}
		l.wProject[i], l.project[i] = x.weightOf(kind, outs, orderWide)
	}
	l.q, l.a = x.tensorOf(rows, orderWide), x.tensorOf(rows, orderWide)
	l.k, l.v = x.tensorOf(rows, orderWide/2), x.tensorOf(rows, orderWide/2)
	m, w := x.matrix(gguf.F32, orderTokens, orderWide)
	table, err := x.d.LoadWeight(m, nil)
	require.NoError(x.t, err)
	l.table, l.embedding = table.(*weight), w
	l.delta, l.rule = x.deltaOf(gguf.Q8_0, orderWide, orderWide/4)
	return l
}

// TestAnyOrder: passes of operations in any order that the interface allows have the results of the operations one
// after the other: a norm may be taken of a tensor that another norm used, or that was written long ago, and a row of x
// may be written twice.
func TestAnyOrder(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, rand.Uint64N(1 << 30)}
	if testing.Short() {
		seeds = seeds[5:]
	}
	for _, o := range []soft.Options{{Variant: soft.Check, Seed: 5}, {Variant: soft.Fast, Seed: 9}} {
		t.Run(string(o.Variant), func(t *testing.T) {
			x := &fixture{t: t, d: open(t, o)}
			for _, n := range []int{1, 3, 9} {
				x.r = newRand(8)
				l := x.layerOf(n + 1) // a tensor may have room for more rows than the pass has
				for _, seed := range seeds {
					x.r = rand.New(rand.NewPCG(seed, uint64(n)))
					x.anyOrder(l, n, fmt.Sprintf("%d rows, seed %d", n, seed))
				}
			}
		})
	}
}

// anyOrder runs one random program over n rows.
func (x *fixture) anyOrder(l *layer, n int, name string) {
	kind := []gguf.Type{gguf.F32, gguf.F16}[x.r.IntN(2)]
	s := x.kv(backend.KVConfig{
		Slots: n + 3, Heads: orderHeads, KVHeads: orderHeads / 2, HeadSize: orderHead, Type: kind, Delta: l.rule.c,
	})
	g := &program{fixture: x, s: s, rows: rowsAt(n), value: map[*tensor][][]float64{}}
	for i := range g.rows {
		g.rows[i].Token = x.r.Int32N(orderTokens)
	}
	for _, v := range l.x {
		copy(v.all(), x.floats(len(v.all())))
		g.put(v, nil)
	}
	g.p = x.begin(s, g.rows)
	for range 24 {
		g.step(l)
	}
	wanted, out := []int{n - 1}, make([]backend.Output, 1)
	from, norm := x.r.IntN(len(l.x)), x.r.IntN(len(l.norms))
	bar := 1e-4
	if kind == gguf.F16 {
		bar = 1e-3 // a key may be rounded the other way
	}
	g.p.Head(out, l.x[from], l.norms[norm], l.wUp[0], backend.Want{Rows: wanted, K: 1, Logits: true})
	require.NoError(x.t, g.p.End(x.t.Context()), "%s: %v", name, g.said)
	x.near(l.up[0](g.normed(l, from, norm)[n-1]), out[0].Logits, bar, "%s: logits after %v", name, g.said)
	for v, want := range g.value {
		for i, row := range want {
			x.near(row, v.line(i), bar, "%s: row %d after %v", name, i, g.said)
		}
	}
}

// put records the contents of a tensor: computed values, or those from the host.
func (g *program) put(v *tensor, values [][]float64) {
	if values == nil {
		for i := range g.rows {
			values = append(values, widened(v.line(i)))
		}
	}
	g.value[v] = values
}

// normed returns a norm of the rows of a tensor.
func (g *program) normed(l *layer, from, norm int) (rows [][]float64) {
	for _, row := range g.value[l.x[from]] {
		narrow := make([]float32, len(row))
		for i, v := range row {
			narrow[i] = float32(v)
		}
		rows = append(rows, l.normal[norm](narrow))
	}
	return rows
}

// step runs one operation.
func (g *program) step(l *layer) {
	say := func(format string, a ...any) { g.said = append(g.said, fmt.Sprintf(format, a...)) }
	to, from, norm, w := g.r.IntN(len(l.x)), g.r.IntN(len(l.x)), g.r.IntN(len(l.norms)), g.r.IntN(3)
	switch g.r.IntN(9) {
	case 0:
		say("embed %d", to)
		g.p.Embed(l.x[to], l.table)
		var rows [][]float64
		for _, r := range g.rows {
			rows = append(rows, widened(l.embedding[int(r.Token)*orderWide:int(r.Token+1)*orderWide]))
		}
		g.put(l.x[to], rows)
	case 1, 2:
		if from == to {
			from = (to + 1) % len(l.x)
		}
		say("add %d to %d", from, to)
		g.p.ProjectAdd(l.x[to], l.wAcross[w], l.x[from])
		g.add(l.x[to], g.value[l.x[from]], l.across[w])
	case 3:
		if inner := l.inner[from]; g.value[inner] != nil {
			say("add inner %d to %d", from, to)
			g.p.ProjectAdd(l.x[to], l.wDown[w], inner)
			g.add(l.x[to], g.value[inner], l.down[w])
		}
	case 4:
		g.attend(l, to, from, norm, w)
		say("attend from %d with norm %d to %d", from, norm, to)
	case 5:
		say("recurrent layer from %d with norm %d to %d", from, norm, to)
		g.p.Delta(l.a, l.x[from], l.norms[norm], l.delta, g.r.IntN(2))
		g.p.ProjectAdd(l.x[to], l.wAcross[w], l.a)
		l.rule.keys = g.s.c.Type
		g.add(l.x[to], l.rule.run(g.normed(l, from, norm)), l.across[w])
	default:
		up := g.r.IntN(3)
		say("gate %d up %d from %d with norm %d to inner %d", w, up, from, norm, to)
		g.p.NormGateUp(l.inner[to], l.x[from], l.norms[norm], l.wUp[w], l.wUp[up])
		var rows [][]float64
		for _, h := range g.normed(l, from, norm) {
			gate, other := l.up[w](h), l.up[up](h)
			for j := range gate {
				gate[j] *= other[j] / (1 + math.Exp(-gate[j]))
			}
			rows = append(rows, gate)
		}
		g.put(l.inner[to], rows)
	}
}

// add sets to = to + w·h.
func (g *program) add(to *tensor, h [][]float64, w func([]float64) []float64) {
	rows := make([][]float64, len(h))
	for i := range h {
		rows[i] = w(h[i])
		for j, v := range g.value[to][i] {
			rows[i][j] += v
		}
	}
	g.put(to, rows)
}

// attend runs projections, attention, and the sum that uses it. The store of a row contains the keys of earlier rows.
func (g *program) attend(l *layer, to, from, norm, w int) {
	g.p.NormProject(l.q, l.k, l.v, l.x[from], l.norms[norm], l.wProject[0], l.wProject[1], l.wProject[2])
	g.p.Attend(l.a, l.q, l.k, l.v, nil, nil, 1)
	g.p.ProjectAdd(l.x[to], l.wAcross[w], l.a)
	round := func(v []float64) []float64 {
		if g.s.c.Type == gguf.F16 {
			for i := range v {
				v[i] = float64(gguf.F16ToF32(gguf.F32ToF16(float32(v[i]))))
			}
		}
		return v
	}
	var keys, values, seen [][]float64
	for t, h := range g.normed(l, from, norm) {
		var key []float64
		for _, head := range heads(l.project[1](h), orderHead) {
			key = append(key, turned(head, g.rows[t].Pos, g.s.c.RopeBase)...)
		}
		keys, values = append(keys, round(key)), append(values, round(l.project[2](h)))
		var row []float64
		for i, head := range heads(l.project[0](h), orderHead) {
			at := i / 2 * orderHead
			row = append(row, softmax(turned(head, g.rows[t].Pos, g.s.c.RopeBase), cut(keys, at), cut(values, at))...)
		}
		seen = append(seen, row)
	}
	g.add(l.x[to], seen, l.across[w])
}

// heads splits a row into heads of n elements.
func heads(row []float64, n int) (all [][]float64) {
	for ; len(row) > 0; row = row[n:] {
		all = append(all, row[:n])
	}
	return all
}

// cut returns the head that starts at element at of each row.
func cut(rows [][]float64, at int) (head [][]float64) {
	for _, r := range rows {
		head = append(head, r[at:at+orderHead])
	}
	return head
}

// softmax returns softmax(q·Kᵀ/√Dh)·V of one head.
func softmax(q []float64, keys, values [][]float64) []float64 {
	scores, top := make([]float64, len(keys)), math.Inf(-1)
	for j, k := range keys {
		for i := range q {
			scores[j] += q[i] * k[i] / math.Sqrt(float64(len(q)))
		}
		top = max(top, scores[j])
	}
	out, total := make([]float64, len(q)), 0.0
	for _, s := range scores {
		total += math.Exp(s - top)
	}
	for j, s := range scores {
		for i := range out {
			out[i] += math.Exp(s-top) / total * values[j][i]
		}
	}
	return out
}
