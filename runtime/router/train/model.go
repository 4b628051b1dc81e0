package train

import (
	"math"
	"math/rand/v2"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
)

// chunk is the number of positions that one worker takes at a time. The gradient of a batch is the sum of those of its
// chunks.
const chunk = 64

// shape is the layout of a network's weights in one vector:
//
//	w1 [units, width]   b1 [units]   w2 [units]   b2 [1]    z = w2·max(0, w1·x + b1) + b2
//	w1 [1, width]       b1 [1]                              z = w1·x + b1, without units
type shape struct{ width, units int }

func (s shape) firstLayerRows() int { return max(s.units, 1) }

func (s shape) weightCount() int {
	if s.units == 0 {
		return s.width + 1
	}
	return s.units*(s.width+2) + 1
}

// weights are views of one vector.
type weights struct{ w1, b1, w2, b2 []float32 }

func (s shape) weightViews(theta []float32) (w weights) {
	n := s.firstLayerRows()
	w.w1, theta = theta[:n*s.width], theta[n*s.width:]
	w.b1, theta = theta[:n], theta[n:]
	if s.units > 0 {
		w.w2, w.b2 = theta[:n], theta[n:]
	}
	return w
}

// initialWeights draws the initial weights: deviations of √(2/used) in the first layer (He et al., arXiv 1502.01852)
// and √(1/units) in the second. Without units all are zero. bias is the output without features.
func (s shape) initialWeights(used int, bias float64, r *rand.Rand) []float32 {
	theta := make([]float32, s.weightCount())
	w := s.weightViews(theta)
	theta[len(theta)-1] = float32(bias)
	for u := range s.units {
		for i := range used {
			w.w1[u*s.width+i] = float32(r.NormFloat64() * math.Sqrt(2/float64(used)))
		}
		w.w2[u] = float32(r.NormFloat64() * math.Sqrt(1/float64(s.units)))
	}
	return theta
}

// worker is the memory of one goroutine for passing chunks through a network.
type worker struct {
	x          cpu.Acts  // [chunk, width] inputs
	transposed []float32 // [width, chunk] the same, transposed
	a          []float32 // [chunk, rows] w1·x + b1
	da         cpu.Acts  // [rows, chunk] gradient of a, transposed
	dz         [chunk]float32
	sc         cpu.Scratch
}

func newWorker(s shape) *worker {
	w := &worker{transposed: make([]float32, s.width*chunk), a: make([]float32, chunk*s.firstLayerRows())}
	w.x.Resize(chunk, s.width)
	w.da.Resize(s.firstLayerRows(), chunk)
	return w
}

// loadInputs sets the inputs to at most chunk positions. The remaining rows keep their old values: their outputs are
// not used, and their dz is 0.
func (w *worker) loadInputs(in *inputs, rows []int) {
	for k, i := range rows {
		in.readStandardized(w.x.Token(k), i)
	}
}

// forwardChunk sets z to the outputs of the network for the first len(z) inputs.
func (w *worker) forwardChunk(z []float64, s shape, p weights) {
	n := s.firstLayerRows()
	cpu.MatMul(w.a, n, cpu.Floats(p.w1, n, s.width), 0, n, &w.x, false, &w.sc)
	for k := range z {
		a := w.a[k*n : (k+1)*n]
		for u := range a {
			a[u] += p.b1[u]
		}
		if s.units == 0 {
			z[k] = float64(a[0])
			continue
		}
		sum := float64(p.b2[0])
		for u, v := range a {
			sum += float64(p.w2[u]) * float64(max(v, 0))
		}
		z[k] = sum
	}
}

// backwardChunk sets g to the gradient of the loss by all weights, dz being that by the outputs: with r = max(0, a),
//
//	∂w2 = Σ dz·r   ∂b2 = Σ dz   da = dz·w2 where a > 0, else 0   ∂b1 = Σ da   ∂w1 = Σ da·xᵀ
func (w *worker) backwardChunk(g weights, s shape, p weights) {
	n := s.firstLayerRows()
	clear(g.b1)
	clear(g.w2)
	clear(g.b2)
	for k, dz := range w.dz {
		for u, a := range w.a[k*n : (k+1)*n] {
			da := dz
			if s.units > 0 {
				da = 0
				if a > 0 {
					da = dz * p.w2[u]
					g.w2[u] += dz * a
				}
			}
			w.da.F[u*chunk+k] = da
			g.b1[u] += da
		}
		if s.units > 0 {
			g.b2[0] += dz
		}
	}
	transposeChunk(w.transposed, w.x.F[:chunk*s.width], s.width)
	cpu.MatMul(g.w1, s.width, cpu.Floats(w.transposed, s.width, chunk), 0, s.width, &w.da, false, &w.sc)
}

// transposeChunk sets dst [width, chunk] to x [chunk, width], transposed, by squares that stay in the nearest cache.
func transposeChunk(dst, x []float32, width int) {
	const side = multiple
	for j := 0; j < width; j += side {
		for k := 0; k < chunk; k += side {
			for i := range side {
				row := (*[side]float32)(x[(k+i)*width+j:])
				for c, v := range row {
					dst[(j+c)*chunk+k+i] = v
				}
			}
		}
	}
}
