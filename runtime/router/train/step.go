package train

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

const (
	maxBatch = 512       // positions of one step: fewer where there are few, see batchSize
	block    = 32 * 1024 // shuffled together: texts in random order, so that files are read nearly as they lie
)

// batchSize returns the number of positions of a step if there are n: a hundredth, in whole chunks, so that there are
// enough steps for few positions.
func batchSize(n int) int { return min(max(1, n/(100*chunk)), maxBatch/chunk) * chunk }

// The seeds of what is drawn, apart from the split, as second numbers of a generator.
const (
	drawWeights = iota
	drawSample
	drawEpoch // and up: the number of the epoch is added
)

// trainer is a training in progress.
type trainer struct {
	src      Source
	o        Options
	parts    *dataSplit
	pool     *pool.Pool
	in       *inputs
	shape    shape
	theta    []float32
	adam     *adam
	keep     int // labels of the positions to learn from
	escalate int
	batch    int // positions of a step
	workers  []*worker
	grads    [][]float32 // of the chunks of a batch
}

func newTrainer(src Source, o Options, parts *dataSplit, pool *pool.Pool) (t *trainer, err error) {
	t = &trainer{src: src, o: o, parts: parts, pool: pool, in: newInputs(src)}
	if t.keep, t.escalate, err = countLabels(src, parts.train); err != nil {
		return nil, err
	}
	t.batch = batchSize(t.keep + t.escalate)
	var sample []int
	t.streamBatches(drawSample, func(rows []int) bool {
		sample = append(sample, rows...)
		return len(sample) < sampled
	})
	if err := t.in.fitStandardization(sample, pool); err != nil {
		return nil, err
	}
	t.shape = shape{width: t.in.width, units: max(o.Hidden, 0)}
	bias := math.Log(float64(t.keep) / float64(t.escalate))
	t.theta = t.shape.initialWeights(t.in.used, bias, t.seededRand(drawWeights))
	t.adam = newAdam(len(t.theta), o.Rate, o.Decay, (t.keep+t.escalate+t.batch-1)/t.batch*o.Epochs)
	for range o.Threads {
		t.workers = append(t.workers, newWorker(t.shape))
	}
	for range t.batch / chunk {
		t.grads = append(t.grads, make([]float32, t.shape.weightCount()))
	}
	return t, nil
}

func (t *trainer) seededRand(what uint64) *rand.Rand { return rand.New(rand.NewPCG(t.o.Seed, what)) }

// streamBatches calls f with the positions to learn from, a batch at a time, in an order that draw decides, until f
// returns false: texts are shuffled, and then the positions of as many texts as fill a block.
func (t *trainer) streamBatches(draw uint64, f func(rows []int) bool) {
	r := t.seededRand(draw)
	texts := append([]textSpan(nil), t.parts.train...)
	r.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	var rows []int
	for n, s := range texts {
		for i := s.from; i < s.to; i++ {
			if t.src.Label(i) != Unlabelled {
				rows = append(rows, i)
			}
		}
		last := n == len(texts)-1
		if len(rows) < block && !last {
			continue
		}
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		at := 0
		for ; len(rows)-at >= t.batch || last && at < len(rows); at += t.batch {
			if !f(rows[at:min(at+t.batch, len(rows))]) {
				return
			}
		}
		rows = rows[:copy(rows, rows[min(at, len(rows)):])]
	}
}

func (t *trainer) trainEpoch(ctx context.Context, number int) error {
	t.streamBatches(drawEpoch+uint64(number), func(rows []int) bool {
		t.trainBatch(rows)
		return ctx.Err() == nil
	})
	return context.Cause(ctx)
}

func (t *trainer) trainBatch(rows []int) {
	chunks := (len(rows) + chunk - 1) / chunk
	t.pool.Run(chunks, 1, func(worker, lo, hi int) {
		for c := lo; c < hi; c++ {
			t.chunkGradient(t.workers[worker], t.grads[c], rows[c*chunk:min((c+1)*chunk, len(rows))], len(rows))
		}
	})
	at := t.adam.nextStep()
	t.pool.Run(len(t.theta), 4096, func(_, lo, hi int) {
		sum := t.grads[0][lo:hi]
		for _, g := range t.grads[1:chunks] {
			for i, v := range g[lo:hi] {
				sum[i] += v
			}
		}
		t.adam.updateWeights(t.theta, sum, lo, at)
	})
}

// chunkGradient sets g to the contribution of a chunk to the gradient of the mean loss of a batch of so many positions.
func (t *trainer) chunkGradient(w *worker, g []float32, rows []int, of int) {
	p := t.shape.weightViews(t.theta)
	w.loadInputs(t.in, rows)
	var logits [chunk]float64
	z := logits[:len(rows)]
	w.forwardChunk(z, t.shape, p)
	clear(w.dz[:])
	for k, i := range rows {
		label, y := t.src.Label(i), 0.0
		if label.mayStand() {
			y = 1
		}
		w.dz[k] = float32(label.lossWeight() * (sigmoid(z[k]) - y) / float64(of))
	}
	w.backwardChunk(t.shape.weightViews(g), t.shape, p)
}

func (t *trainer) computeLogits(ctx context.Context, rows []int) ([]float64, error) {
	z := make([]float64, len(rows))
	p := t.shape.weightViews(t.theta)
	t.pool.Run((len(rows)+chunk-1)/chunk, 1, func(worker, lo, hi int) {
		w := t.workers[worker]
		for c := lo; c < hi && ctx.Err() == nil; c++ {
			from, to := c*chunk, min((c+1)*chunk, len(rows))
			w.loadInputs(t.in, rows[from:to])
			w.forwardChunk(z[from:to], t.shape, p)
		}
	})
	return z, context.Cause(ctx)
}

// buildNet returns the router that computes scale·z + shift, where z is the output, from raw features: the
// standardisation is folded into the first layer.
func (t *trainer) buildNet(scale, shift float64) (*router.Net, error) {
	p, n, in := t.shape.weightViews(t.theta), t.shape.firstLayerRows(), t.in
	first := router.Layer{In: in.used, Out: n, Weight: make([]float32, in.used*n), Bias: make([]float32, n)}
	for u := range n {
		bias := float64(p.b1[u])
		for j := range in.used {
			w := float64(p.w1[u*t.shape.width+j]) * float64(in.scale[j])
			first.Weight[u*in.used+j] = float32(w)
			bias -= w * float64(in.mean[j])
		}
		first.Bias[u] = float32(bias)
	}
	layers := []router.Layer{first}
	if t.shape.units > 0 {
		layers = append(layers, router.Layer{In: n, Out: 1, Weight: p.w2, Bias: p.b2})
	}
	last := &layers[len(layers)-1]
	weight, bias := make([]float32, len(last.Weight)), float64(last.Bias[0])
	for i, w := range last.Weight {
		weight[i] = float32(scale * float64(w))
	}
	last.Weight, last.Bias = weight, []float32{float32(scale*bias + shift)}
	return router.NewNet(layers, true)
}
