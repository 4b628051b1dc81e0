package train

import (
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
)

// inputs turns positions into rows of features for the network: each feature less its mean, divided by its deviation.
type inputs struct {
	src         Source
	used        int // features: the hidden state, margin and certainty
	width       int // of a row: features, and zeros up to a multiple of what the products take at once
	mean, scale []float32
}

// multiple is the number of columns of which float32 products are fastest.
const multiple = 16

func newInputs(src Source) *inputs {
	in := &inputs{src: src, used: src.Width() + 2}
	in.width = (in.used + multiple - 1) / multiple * multiple
	in.mean, in.scale = make([]float32, in.width), make([]float32, in.width)
	return in
}

// readFeatures sets x [used] to the features of position i, as they are.
func (in *inputs) readFeatures(x []float32, i int) {
	in.src.Hidden(x[:in.used-2], i)
	x[in.used-2], x[in.used-1] = in.src.Head(i)
}

func (in *inputs) readStandardized(x []float32, i int) {
	in.readFeatures(x[:in.used], i)
	mean, scale := in.mean[:in.used], in.scale[:in.used]
	for j, v := range x[:in.used] {
		x[j] = (v - mean[j]) * scale[j]
	}
}

// sampled is the number of positions for mean and deviation: the error of a mean is then a 256th of the deviation.
const sampled = 1 << 16

// fitStandardization computes mean and deviation of each feature over positions. A constant feature is left out: its
// scale is 0.
func (in *inputs) fitStandardization(rows []int, pool *pool.Pool) error {
	chunks := (len(rows) + chunk - 1) / chunk
	sums := make([]moments, chunks)
	pool.Run(chunks, 1, func(_, lo, hi int) {
		x := make([]float32, in.used)
		for c := lo; c < hi; c++ {
			sums[c] = in.sumMoments(x, rows[c*chunk:min((c+1)*chunk, len(rows))])
		}
	})
	all := newMoments(in.used)
	for _, m := range sums { // in a fixed order, independent of the workers
		if m.bad >= 0 {
			return fmt.Errorf("position %d: a feature is not a finite number: collect the traces again", m.bad)
		}
		for j := range all.sum {
			all.sum[j] += m.sum[j]
			all.square[j] += m.square[j]
		}
	}
	n := float64(len(rows))
	for j := range all.sum {
		mean := all.sum[j] / n
		in.mean[j] = float32(mean)
		if variance := all.square[j]/n - mean*mean; variance > 1e-12*(mean*mean+1e-12) {
			in.scale[j] = float32(1 / math.Sqrt(variance))
		}
	}
	return nil
}

// moments are sums over positions.
type moments struct {
	sum, square []float64
	bad         int // a position with a feature that is not finite; -1 if there is none
}

func newMoments(n int) moments { return moments{make([]float64, n), make([]float64, n), -1} }

func (in *inputs) sumMoments(x []float32, rows []int) moments {
	m := newMoments(in.used)
	for _, i := range rows {
		in.readFeatures(x, i)
		for j, v := range x {
			m.sum[j] += float64(v)
			m.square[j] += float64(v) * float64(v)
			if v-v != 0 {
				m.bad = i
			}
		}
	}
	return m
}
