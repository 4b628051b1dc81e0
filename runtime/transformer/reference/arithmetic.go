package reference

import "math"

type matrix [][]float64

func newMatrix(rows, cols int) matrix {
	m := make(matrix, rows)
	for i := range m {
		m[i] = make([]float64, cols)
	}
	return m
}

// mul returns the products of all rows with x.
func (m matrix) mul(x []float64) []float64 {
	out := make([]float64, len(m))
	for i, row := range m {
		out[i] = dot(row, x)
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func add(a, b []float64) []float64 {
	sum := make([]float64, len(a))
	for i := range a {
		sum[i] = a[i] + b[i]
	}
	return sum
}

// rms returns x/√(mean(x²) + eps) ⊙ gain.
func rms(x, gain []float64, eps float64) []float64 {
	scale := 1 / math.Sqrt(dot(x, x)/float64(len(x))+eps)
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] * scale * gain[i]
	}
	return out
}

// unit returns x/√(Σx² + eps).
func unit(x []float64, eps float64) []float64 {
	scale := 1 / math.Sqrt(dot(x, x)+eps)
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] * scale
	}
	return out
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func silu(x float64) float64 { return x * sigmoid(x) }

func softplus(x float64) float64 { return math.Log1p(math.Exp(x)) }
