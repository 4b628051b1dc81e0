package train

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/stat"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// rows is a source in memory.
type rows struct {
	width  int
	hidden []float32 // [Len, width]
	head   [][2]float32
	label  []Label
	prompt []int
}

func (r *rows) Len() int                    { return len(r.label) }
func (r *rows) Width() int                  { return r.width }
func (r *rows) Prompt(i int) int            { return r.prompt[i] }
func (r *rows) Label(i int) Label           { return r.label[i] }
func (r *rows) Hidden(dst []float32, i int) { copy(dst, r.hidden[i*r.width:(i+1)*r.width]) }
func (r *rows) Head(i int) (margin, certainty float32) {
	return r.head[i][0], r.head[i][1]
}

func (r *rows) add(prompt int, l Label, margin, certainty float32, hidden ...float32) {
	r.hidden = append(r.hidden, hidden...)
	r.head = append(r.head, [2]float32{margin, certainty})
	r.label, r.prompt = append(r.label, l), append(r.prompt, prompt)
}

// planted returns positions with known logits. They are not linear in the hidden state, and depend on the head. The
// first dimension of the hidden state is a thousand times as large as the others and far from 0. One position in nine
// has no label.
func planted(prompts, width int, seed uint64) (src *rows, truth []float64) {
	r := rand.New(rand.NewPCG(seed, 0))
	src = &rows{width: width}
	h := make([]float32, width)
	for p := range prompts {
		for range 5 + r.IntN(30) {
			for j := range h {
				h[j] = float32(r.NormFloat64())
			}
			margin, certainty := r.Float32(), r.Float32()
			z := 1 + 3*math.Abs(float64(h[0]+h[1])) - 2*math.Abs(float64(h[2])) +
				4*float64(margin) - 2*float64(certainty)
			h[0] = 1000*h[0] + 5000
			l := Escalate
			if r.Float64() < sigmoid(z) {
				l = Keep
			}
			if r.IntN(9) == 0 {
				l = Unlabelled
			}
			src.add(p, l, margin, certainty, h...)
			truth = append(truth, z)
		}
	}
	return src, truth
}

func mustTrain(t *testing.T, src Source, o Options) *Result {
	t.Helper()
	r, err := Train(t.Context(), src, o)
	require.NoError(t, err)
	return r
}

// TestTrainSpoils: of two kinds of positions at which questions make equally many answers right, the kind at which they
// also spoil answers is escalated last. In the measures of the router both kinds count as tokens to keep.
func TestTrainSpoils(t *testing.T) {
	src := &rows{width: 2}
	r := rand.New(rand.NewPCG(7, 0))
	for p := range 400 {
		for range 10 {
			kind := r.IntN(2)
			l := Keep
			switch share := r.Float64(); {
			case share < 0.2:
				l = Escalate
			case share < 0.4 && kind == 1:
				l = Spoil
			}
			src.add(p, l, 0.5, 0.5, float32(kind), float32(r.NormFloat64()))
		}
	}
	var last Epoch
	one := mustTrain(t, src, Options{Epochs: 1, Observe: func(e Epoch) { last = e }})
	sum := 0.0 // a position that a question would spoil counts twentyfold
	for k, v := range Judge(src, one.HeldOut.Rows, one.Net, 1) {
		c := float64(v.Confidence)
		z := (math.Log(c/(1-c)) - one.Shift) / one.Scale
		sum += map[bool]float64{true: 20, false: 1}[src.label[one.HeldOut.Rows[k]] == Spoil] * crossEntropy(z, v.Stands)
	}
	assert.InDelta(t, sum/float64(len(one.HeldOut.Rows)), last.Loss, 1e-3)
	got := mustTrain(t, src, Options{Threads: 2, Epochs: 30, Rate: 0.01})
	of := func(kind float32) float64 {
		return float64(got.Net.Of([]float32{kind, 0}, 0.5, 0.5))
	}
	assert.Less(t, of(0)+0.05, of(1))
	assert.InDelta(t, 0.2, got.Escalate, 0.02)
}

// TestTrainLearns: a network learns nearly as well as the rule itself, and the reported measures equal those of its
// use.
func TestTrainLearns(t *testing.T) {
	racing.Spare(t)
	src, truth := planted(800, 6, 1)
	r := mustTrain(t, src, Options{Threads: 2, Epochs: 30, Rate: 0.005})
	var best []router.Verdict
	for _, i := range r.HeldOut.Rows {
		best = append(best, router.Verdict{Confidence: float32(sigmoid(truth[i])), Stands: src.label[i] == Keep})
	}
	got := Judge(src, r.HeldOut.Rows, r.Net, 2)
	assert.InDelta(t, router.AUC(best), r.AUC, 0.01)
	assert.InDelta(t, router.AUC(got), r.AUC, 1e-4)
	assert.InDelta(t, router.CrossEntropy(got), r.Loss, 1e-4)
	assert.InDelta(t, router.CalibrationError(router.Reliability(got)), r.Calibration, 2e-3)
	assert.Less(t, r.Calibration, 0.05)
	keep, escalate, err := countLabels(src, splitTexts(src))
	require.NoError(t, err)
	assert.Equal(t, keep+escalate, r.Positions+len(r.HeldOut.Rows))
	assert.InDelta(t, float64(escalate)/float64(keep+escalate), r.Escalate, 0.02)
	assert.Equal(t, 720, r.Prompts)
	assert.Equal(t, 80, r.HeldOut.Prompts)
}

// TestTrainHidden: each number of hidden units has the format of a router file.
func TestTrainHidden(t *testing.T) {
	src, _ := planted(40, 6, 1)
	type size struct{ in, out int }
	for hidden, want := range map[int][]size{
		0: {{8, 64}, {64, 1}}, 3: {{8, 3}, {3, 1}}, Linear: {{8, 1}},
	} {
		n := mustTrain(t, src, Options{Epochs: 2, Hidden: hidden}).Net
		assert.True(t, n.HeadFeatures)
		var sizes []size
		for _, l := range n.Layers {
			sizes = append(sizes, size{l.In, l.Out})
		}
		assert.Equal(t, want, sizes)
	}
}

// TestTrainIsRepeatable: a seed gives the same bits with any number of threads and processors; another seed gives
// others.
func TestTrainIsRepeatable(t *testing.T) {
	src, _ := planted(300, 20, 2)
	o := Options{Epochs: 3, Seed: 7}
	want := mustTrain(t, src, o)
	for _, procs := range []int{1, 2, 4} {
		before := runtime.GOMAXPROCS(procs)
		for _, threads := range []int{1, 2, 3, 8} {
			o.Threads = threads
			assert.Equal(t, want, mustTrain(t, src, o), "%d threads on %d processors", threads, procs)
		}
		runtime.GOMAXPROCS(before)
	}
	o.Seed = 8
	other := mustTrain(t, src, o)
	assert.NotEqual(t, want.Net, other.Net)
	assert.NotEqual(t, want.HeldOut, other.HeldOut)
}

// reference returns the mean loss of a network over positions, by the formula in float64.
func reference(s shape, theta []float64, x [][]float64, keep []bool) float64 {
	sum := 0.0
	for k, x := range x {
		z := theta[len(theta)-1]
		for u := range s.firstLayerRows() {
			a := 0.0
			for j, v := range x {
				a += theta[u*s.width+j] * v
			}
			if s.units == 0 {
				z += a
				continue
			}
			a += theta[s.units*s.width+u]
			z += theta[s.units*(s.width+1)+u] * max(a, 0)
		}
		if keep[k] {
			sum -= math.Log(sigmoid(z))
		} else {
			sum -= math.Log(sigmoid(-z))
		}
	}
	return sum / float64(len(x))
}

// TestGradient compares each component of the gradient of a batch with a central difference of the loss in float64.
func TestGradient(t *testing.T) {
	for _, units := range []int{Linear, 1, 5} {
		src, _ := planted(20, 4, 3)
		o := Options{Hidden: units}.withTrainingDefaults()
		parts, err := splitPrompts(src, share, 0)
		require.NoError(t, err)
		pool := pool.New(2)
		defer pool.Close()
		o.Threads = 2
		tr, err := newTrainer(src, o, parts, pool)
		require.NoError(t, err)
		var some []int
		tr.streamBatches(1, func(rows []int) bool { some = slices.Clone(rows); return false })
		for len(some) < chunk+37 { // a whole chunk and a part of one
			some = append(some, some[len(some)-chunk/2])
		}
		r := rand.New(rand.NewPCG(5, 5))
		for i := range tr.theta {
			tr.theta[i] = float32(r.NormFloat64() * 0.5)
		}
		for u := range tr.shape.firstLayerRows() { // weights without a feature stay 0
			clear(tr.theta[u*tr.shape.width+tr.in.used : (u+1)*tr.shape.width])
		}
		x, keep := make([][]float64, len(some)), make([]bool, len(some))
		theta := make([]float64, len(tr.theta))
		for i, v := range tr.theta {
			theta[i] = float64(v)
		}
		row := make([]float32, tr.in.width)
		for k, i := range some {
			tr.in.readStandardized(row, i)
			x[k], keep[k] = make([]float64, len(row)), src.label[i] == Keep
			for j, v := range row {
				x[k][j] = float64(v)
			}
		}
		grads := [2][]float32{make([]float32, len(theta)), make([]float32, len(theta))}
		for c, at := 0, 0; at < len(some); c, at = c+1, at+chunk {
			tr.chunkGradient(tr.workers[0], grads[c], some[at:min(at+chunk, len(some))], len(some))
		}
		for i := range theta {
			const step = 1e-5
			was := theta[i]
			theta[i] = was + step
			up := reference(tr.shape, theta, x, keep)
			theta[i] = was - step
			down := reference(tr.shape, theta, x, keep)
			theta[i] = was
			want := (up - down) / (2 * step)
			assert.InDelta(t, want, grads[0][i]+grads[1][i], 1e-5+1e-4*math.Abs(want), "%d units, weight %d", units, i)
		}
	}
}

// newTest returns a trainer with one thread over a source.
func newTest(t *testing.T, src Source, o Options) *trainer {
	t.Helper()
	o = o.withTrainingDefaults()
	parts, err := splitPrompts(src, share, o.Seed)
	require.NoError(t, err)
	pool := pool.New(1)
	t.Cleanup(pool.Close)
	tr, err := newTrainer(src, o, parts, pool)
	require.NoError(t, err)
	return tr
}

// TestShortBatch: the last batch of an epoch uses only its own positions.
func TestShortBatch(t *testing.T) {
	src, _ := planted(2000, 3, 3)
	tr := newTest(t, src, Options{})
	require.Greater(t, tr.batch, chunk)
	var batches [][]int
	tr.streamBatches(1, func(rows []int) bool {
		batches = append(batches, slices.Clone(rows))
		return len(batches) < 2
	})
	tr.trainBatch(batches[0])
	short := batches[1][:20]
	g := make([]float32, len(tr.theta))
	tr.chunkGradient(newWorker(tr.shape), g, short, len(short))
	want := make([]float32, len(g))
	for i := range g {
		want[i] = 0.9*tr.adam.m[i] + 0.1*g[i]
	}
	tr.trainBatch(short)
	assert.InDeltaSlice(t, want, tr.adam.m, 1e-7)
}

// ordered is a source that records the order of reads.
type ordered struct {
	*rows
	read []int
}

func (o *ordered) Hidden(dst []float32, i int) {
	o.read = append(o.read, i)
	o.rows.Hidden(dst, i)
}

// TestEpochsDiffer: each epoch has a different order.
func TestEpochsDiffer(t *testing.T) {
	src, _ := planted(30, 3, 3)
	o := &ordered{rows: src}
	tr := newTest(t, o, Options{})
	var orders [][]int
	for e := range 3 {
		o.read = nil
		require.NoError(t, tr.trainEpoch(t.Context(), e+1))
		orders = append(orders, o.read)
	}
	assert.NotEqual(t, orders[0], orders[1])
	assert.NotEqual(t, orders[1], orders[2])
	assert.ElementsMatch(t, orders[0], orders[1])
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(assert.AnError)
	o.read = nil
	assert.ErrorIs(t, tr.trainEpoch(ctx, 4), assert.AnError)
	assert.Len(t, o.read, tr.batch, "the epoch ends between two batches")
}

// TestTrainShares: a network that can represent any function of a few states gives the shares of their labels. A scale
// and a shift of its logits become a part of it.
func TestTrainShares(t *testing.T) {
	shares := []float64{0.5, 0.9, 0.98}
	src := &rows{width: len(shares)}
	const each = 50
	for i := range 60 * each { // every prompt has exactly these shares
		for s, share := range shares {
			h := make([]float32, len(shares))
			h[s] = 1
			l := Keep
			if float64(i%each) >= share*each {
				l = Escalate
			}
			src.add(i/each, l, 0, 0, h...)
		}
	}
	r := mustTrain(t, src, Options{Hidden: Linear, Epochs: 300, Rate: 0.02})
	for s, share := range shares {
		h := make([]float32, len(shares))
		h[s] = 1
		assert.InDelta(t, share, r.Net.Of(h, 0, 0), 0.01)
	}
	tr := newTest(t, src, Options{})
	logit := func(scale, shift float64) float64 {
		net, err := tr.buildNet(scale, shift)
		require.NoError(t, err)
		p := float64(net.Of(make([]float32, len(shares)), 0, 0))
		return math.Log(p / (1 - p))
	}
	require.NotZero(t, logit(1, 0))
	assert.InDelta(t, 2*logit(1, 0)+0.5, logit(2, 0.5), 1e-4)
}

// TestSplit: whole prompts are held out, as many as requested, the same ones whatever else is in the source.
func TestSplit(t *testing.T) {
	src, _ := planted(200, 3, 4)
	for i := range src.prompt { // every prompt has two texts that are far apart
		src.prompt[i] %= 100
	}
	for share, want := range map[float64]int{0.1: 10, 0.25: 25, 0.001: 1, 0.999: 99, 0.126: 13} {
		p, err := splitPrompts(src, share, 3)
		require.NoError(t, err)
		assert.Equal(t, want, p.heldOut.Prompts)
		assert.Equal(t, 100-want, p.prompts)
		held := map[int]bool{}
		for _, i := range p.heldOut.Rows {
			held[src.prompt[i]] = true
			assert.NotEqual(t, Unlabelled, src.label[i])
		}
		assert.Len(t, held, want)
		learnt := 0
		for _, s := range p.train {
			assert.False(t, held[src.prompt[s.from]])
			for i := s.from; i < s.to; i++ {
				assert.Equal(t, src.prompt[s.from], src.prompt[i])
				if src.label[i] != Unlabelled {
					learnt++
				}
			}
		}
		assert.Len(t, splitTexts(src), 200)
		keep, escalate, err := countLabels(src, splitTexts(src))
		require.NoError(t, err)
		assert.Equal(t, keep+escalate, learnt+len(p.heldOut.Rows), "every position is in one of the parts")
	}
	one, err := HoldOut(src, 3)
	require.NoError(t, err)
	twice := &rows{width: src.width}
	for range 2 {
		for i := range src.prompt {
			twice.add(src.prompt[i], src.label[i], 0, 0, src.hidden[3*i:3*i+3]...)
		}
	}
	two, err := HoldOut(twice, 3)
	require.NoError(t, err)
	for k, i := range one.Rows {
		assert.Equal(t, i, two.Rows[k])
		assert.Equal(t, i+src.Len(), two.Rows[len(one.Rows)+k])
	}
	another, err := HoldOut(src, 4)
	require.NoError(t, err)
	assert.NotEqual(t, one, another)
	_, err = HoldOut(&rows{}, 4)
	assert.ErrorContains(t, err, "no position has a label")
}

// TestStream: an epoch has every training position once, in full batches except the last, and each epoch has another
// order.
func TestStream(t *testing.T) {
	src, _ := planted(3000, 3, 5)
	parts, err := splitPrompts(src, 0.1, 0)
	require.NoError(t, err)
	tr := &trainer{src: src, parts: parts, batch: 320}
	read := func(draw uint64) (all []int) {
		var sizes []int
		tr.streamBatches(draw, func(rows []int) bool {
			all, sizes = append(all, rows...), append(sizes, len(rows))
			return true
		})
		for _, n := range sizes[:len(sizes)-1] {
			assert.Equal(t, 320, n)
		}
		assert.Positive(t, sizes[len(sizes)-1])
		return all
	}
	all := read(1)
	require.Greater(t, len(all), block, "more than one block")
	assert.Equal(t, all, read(1))
	assert.NotEqual(t, all, read(2))
	seen := map[int]bool{}
	for _, i := range all {
		assert.False(t, seen[i])
		seen[i] = true
	}
	keep, escalate, err := countLabels(src, parts.train)
	require.NoError(t, err)
	assert.Len(t, all, keep+escalate)
	apart := 0
	for k := range all[1:] {
		if src.prompt[all[k]] != src.prompt[all[k+1]] {
			apart++
		}
	}
	assert.Greater(t, apart, len(all)*9/10, "neighbors are from different texts")
	first := map[int]bool{} // prompts of the first batch
	for _, i := range all[:tr.batch] {
		first[src.prompt[i]] = true
	}
	assert.Greater(t, len(first), 200, "a batch is from all texts of a block")
	assert.Greater(t, slices.Max(slices.Collect(maps.Keys(first))), 2700, "and these from the whole source")
}

// TestEarlyStopping: training ends a few epochs after the best one, and keeps the weights of that one.
func TestEarlyStopping(t *testing.T) {
	src, _ := planted(30, 20, 6) // few enough to be memorized
	var seen []Epoch
	o := Options{Epochs: 200, Rate: 0.02, Observe: func(e Epoch) { seen = append(seen, e) }}
	r := mustTrain(t, src, o)
	require.Len(t, seen, r.Epochs)
	assert.Less(t, r.Epochs, 200)
	assert.Equal(t, r.Best+patience, r.Epochs)
	best := 0
	for i, e := range seen {
		assert.Equal(t, i+1, e.Number)
		assert.Equal(t, e.Loss < seen[best].Loss || i == 0, e.Best)
		if e.Best {
			best = i
		}
	}
	assert.Equal(t, r.Best, best+1)
	logits, keep := []float64{}, []bool{}
	for _, v := range Judge(src, r.HeldOut.Rows, r.Net, 2) {
		c := float64(v.Confidence)
		logits, keep = append(logits, (math.Log(c/(1-c))-r.Shift)/r.Scale), append(keep, v.Stands)
	}
	loss := scaledLoss(logits, keep, every(len(keep)), 1, 0)
	assert.InDelta(t, seen[best].Loss, loss, 1e-3, "the weights of that epoch")
}

// TestPlatt: scale and shift of logits are corrected, and the result is finite for logits that separate the classes.
func TestPlatt(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	var logits []float64
	var keep []bool
	var all []int
	for i := range 20000 {
		z := 2 * r.NormFloat64()
		logits, keep, all = append(logits, (z+1)/0.25), append(keep, r.Float64() < sigmoid(z)), append(all, i)
	}
	scale, shift, ok := fitPlatt(logits, keep, all)
	assert.True(t, ok)
	assert.InDelta(t, 0.25, scale, 0.01)
	assert.InDelta(t, -1, shift, 0.06)
	scale, shift, ok = fitPlatt([]float64{-1, 1}, []bool{false, true}, []int{0, 1})
	assert.True(t, ok)
	assert.InDelta(t, math.Log(2), scale, 1e-6, "targets of 2/3 and 1/3")
	assert.InDelta(t, 0, shift, 1e-6)
	_, _, ok = fitPlatt([]float64{-1, 1}, []bool{true, false}, []int{0, 1})
	assert.False(t, ok, "the order would be reversed")
	_, _, ok = fitPlatt([]float64{-1, 1}, []bool{true, true}, []int{0, 1})
	assert.False(t, ok)
	_, _, ok = fitPlatt(logits, keep, nil)
	assert.False(t, ok)
}

// TestJudgeScales: scale and shift are fitted to all held-out prompts, if those of each half improve the other half;
// otherwise they are not used.
func TestJudgeScales(t *testing.T) {
	src, _ := planted(600, 3, 4)
	tr := newTest(t, src, Options{})
	parts, err := splitPrompts(src, 0.5, 0)
	require.NoError(t, err)
	held := parts.heldOut
	one, other := tr.splitHalves(held.Rows)
	require.Greater(t, len(one), 500)
	require.Greater(t, len(other), 500)
	halves := map[int]bool{}
	for _, k := range one {
		halves[src.prompt[held.Rows[k]]] = true
	}
	for _, k := range other {
		assert.False(t, halves[src.prompt[held.Rows[k]]], "a prompt is in one half")
	}
	r := rand.New(rand.NewPCG(1, 1))
	n := len(held.Rows)
	logits, keep, honest := make([]float64, n), make([]bool, n), make([]float64, n)
	for k, i := range held.Rows {
		honest[k] = 2 * r.NormFloat64()
		logits[k] = 5*honest[k] + 3
		keep[k] = r.Float64() < sigmoid(honest[k])
		src.label[i] = Escalate
		if keep[k] {
			src.label[i] = Keep
		}
	}
	got := &Result{HeldOut: held}
	tr.evaluateHeldOut(got, logits)
	scale, shift, ok := fitPlatt(logits, keep, every(len(logits)))
	require.True(t, ok)
	assert.InDelta(t, scale, got.Scale, 1e-9)
	assert.InDelta(t, shift, got.Shift, 1e-9)
	assert.Less(t, got.Calibration, 0.05)
	assert.Greater(t, got.Uncalibrated, 0.1)

	for _, k := range one { // overconfident in one half, calibrated in the other
		logits[k] = 5 * honest[k]
	}
	for _, k := range other {
		logits[k] = honest[k]
	}
	tr.evaluateHeldOut(got, logits)
	assert.Equal(t, 1.0, got.Scale, "a correction that helps only one half is not used")
	assert.Zero(t, got.Shift, "a correction that helps only one half is not used")
	assert.InDelta(t, got.Uncalibrated, got.Calibration, 1e-12)
}

// every returns the numbers below n.
func every(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// TestBatch: few positions give small batches, many give full ones.
func TestBatch(t *testing.T) {
	for n, want := range map[int]int{1: 64, 10_000: 64, 12_800: 128, 51_200: 512, 1_000_000: 512} {
		assert.Equal(t, want, batchSize(n), n)
	}
}

// TestSchedule: the learning rate rises to its max and falls to a hundredth of it.
func TestSchedule(t *testing.T) {
	assert.InDelta(t, 0.1, scheduledRate(1, 200), 1e-12)
	assert.InDelta(t, 1, scheduledRate(10, 200), 1e-12)
	assert.InDelta(t, 0.505, scheduledRate(105, 200), 1e-9)
	assert.InDelta(t, 0.01, scheduledRate(200, 200), 1e-12)
	assert.InDelta(t, 1, scheduledRate(1, 1), 1e-12)
}

// TestAdam: the first two steps, computed by hand.
func TestAdam(t *testing.T) {
	a := newAdam(2, 0.1, 0, 40)
	theta := []float32{1, 2}
	at := a.nextStep()
	a.updateWeights(theta[:2], []float32{3}, 1, at)
	assert.Equal(t, float32(1), theta[0], "only from the given index on")
	assert.InDelta(t, 2-0.05, theta[1], 1e-6, "the first step is at half the rate")
	at.rate = 0.1
	at.m, at.v = 1/(1-0.9*0.9), 1/(1-0.999*0.999)
	assert.InDelta(t, at.m, a.nextStep().m, 1e-12)
	before := float64(theta[1])
	a.updateWeights(theta, []float32{-1}, 1, at)
	m, v := 0.9*0.1*3+0.1*-1, 0.999*0.001*9+0.001
	assert.InDelta(t, before-0.1*m*at.m/math.Sqrt(v*at.v), theta[1], 1e-6)

	a, theta = newAdam(1, 0.1, 3, 40), []float32{2}
	a.updateWeights(theta, []float32{0}, 0, adamStep{rate: 0.1, m: 1, v: 1})
	assert.InDelta(t, 2-0.1*3*2, theta[0], 1e-6, "without a gradient only the decay is left")
}

// TestConstantFeature: a feature that was constant in training is not used.
func TestConstantFeature(t *testing.T) {
	src, _ := planted(60, 3, 9)
	for i := range src.label {
		src.hidden[3*i+1] = 7.3
	}
	n := mustTrain(t, src, Options{Epochs: 2}).Net
	assert.Equal(t, n.Of([]float32{5000, 7.3, 1}, 0.5, 0.5), n.Of([]float32{5000, 9, 1}, 0.5, 0.5))
	assert.NotEqual(t, n.Of([]float32{5000, 7.3, 1}, 0.5, 0.5), n.Of([]float32{6000, 7.3, 1}, 0.5, 0.5))
}

// TestTrainRefuses: unusable input is refused with a reason.
func TestTrainRefuses(t *testing.T) {
	good := func() *rows { src, _ := planted(20, 3, 1); return src }
	for want, change := range map[string]func(*rows){
		"no position has a label":        func(r *rows) { clear(r.label) },
		"all labels are of one prompt":   func(r *rows) { clear(r.prompt) },
		"may stand and 0 may not":        func(r *rows) { all(r.label, Keep) },
		"0 may stand and":                func(r *rows) { all(r.label, Escalate) },
		"a feature is not a finite":      func(r *rows) { all(r.hidden, float32(math.NaN())) },
		"position 0: a feature":          func(r *rows) { r.hidden[0] = float32(math.NaN()) },
		"position 51: a feature":         func(r *rows) { r.hidden[3*51+2] = float32(math.Inf(-1)) },
		"a feature is not a finite numb": func(r *rows) { all(r.hidden, float32(math.Inf(1))) },
	} {
		src := good()
		change(src)
		held.Same(t, func() {
			_, err := Train(t.Context(), src, Options{Epochs: 1, Threads: 2})
			assert.ErrorContains(t, err, want)
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(assert.AnError)
	_, err := Train(ctx, good(), Options{})
	assert.ErrorIs(t, err, assert.AnError)
	ctx, cancel = context.WithCancelCause(t.Context())
	_, err = Train(ctx, good(), Options{Epochs: 1, Observe: func(Epoch) { cancel(assert.AnError) }})
	assert.ErrorIs(t, err, assert.AnError, "after the last epoch, while the network is evaluated")
}

// TestNoNumbers: if an output on the held-out prompts is not a number, or too large for a loss, training ends with an
// error.
func TestNoNumbers(t *testing.T) {
	for units, want := range map[int]string{
		16: "epoch 1: the weights are no longer numbers", Linear: "no epoch left a loss that is a number",
	} {
		src, _ := planted(40, 3, 1)
		for i := range src.label { // of a small deviation, so that the largest number is infinite deviations away
			src.hidden[3*i+1] *= 1e-3
		}
		held, err := HoldOut(src, 0)
		require.NoError(t, err)
		for k, label := range []Label{Keep, Escalate} { // the loss of one of them is infinite
			src.hidden[3*held.Rows[k]+1], src.label[held.Rows[k]] = math.MaxFloat32, label
		}
		_, err = Train(t.Context(), src, Options{Hidden: units, Epochs: 2})
		assert.ErrorContains(t, err, want, units)
	}
}

// TestStart: training begins with the share of tokens that may stand, and with weights of the right deviation for
// features, none for the columns without one. Its rate of learning falls until the last step.
func TestStart(t *testing.T) {
	src, _ := planted(300, 7, 3)
	o := Options{Hidden: 500, Epochs: 2}
	tr := newTest(t, src, o)
	start := math.Log(float64(tr.keep) / float64(tr.escalate))
	assert.InDelta(t, start, float64(tr.theta[len(tr.theta)-1]), 1e-5)
	w := tr.shape.weightViews(tr.theta)
	var first, second []float64
	for u := range tr.shape.firstLayerRows() {
		for i, v := range w.w1[u*tr.in.width : (u+1)*tr.in.width] {
			if i < tr.in.used {
				first = append(first, float64(v))
			} else {
				assert.Zero(t, v)
			}
		}
		second = append(second, float64(w.w2[u]))
	}
	for want, of := range map[float64][]float64{2. / 9: first, 1. / 500: second} {
		squares := 0.0
		for _, v := range of {
			squares += v * v
		}
		assert.InDelta(t, 0, stat.Mean(of), 0.15*math.Sqrt(want))
		assert.InEpsilon(t, want, squares/float64(len(of)), 0.2)
	}
	assert.Zero(t, stat.Mean(floats(w.b1)))
	o.Seed = 1
	assert.NotEqual(t, w.w2, tr.shape.weightViews(newTest(t, src, o).theta).w2)
	for e := range o.Epochs {
		require.NoError(t, tr.trainEpoch(t.Context(), e+1))
	}
	assert.Equal(t, tr.adam.steps, tr.adam.done)
}

func floats(x []float32) (all []float64) {
	for _, v := range x {
		all = append(all, float64(v))
	}
	return all
}

// TestOptionDefaults: the values that stand for zero; given values stay.
func TestOptionDefaults(t *testing.T) {
	want := Options{Hidden: 64, Epochs: 20, Rate: 0.002, Threads: 1}
	assert.Equal(t, want, Options{}.withTrainingDefaults())
	want = Options{Hidden: 3, Epochs: 4, Rate: 0.5, Threads: 7}
	assert.Equal(t, want, want.withTrainingDefaults())
}

func all[E any](s []E, v E) {
	for i := range s {
		s[i] = v
	}
}

// TestJudge: verdicts are in the order of the rows, for any number of threads.
func TestJudge(t *testing.T) {
	src, _ := planted(20, 3, 1)
	trained := mustTrain(t, src, Options{Epochs: 1})
	assert.Equal(t, 1, trained.Epochs)
	n, rows := trained.Net, Labelled(src)
	assert.Less(t, len(rows), src.Len())
	want := Judge(src, rows, n, 1)
	for _, threads := range []int{0, 3} {
		assert.Equal(t, want, Judge(src, rows, n, threads))
	}
	margin, entropy := JudgeHead(src, rows)
	for k, i := range rows {
		require.NotEqual(t, Unlabelled, src.label[i])
		m, c := src.Head(i)
		stands := src.label[i] == Keep
		assert.Equal(t, router.Verdict{Confidence: n.Of(src.hidden[3*i:3*i+3], m, c), Stands: stands}, want[k])
		assert.Equal(t, router.Verdict{Confidence: m, Stands: stands}, margin[k])
		assert.Equal(t, router.Verdict{Confidence: c, Stands: stands}, entropy[k])
	}
}
