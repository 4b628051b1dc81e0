// Package host is the backend that runs on the CPU: operations of a pass on slices. kernels/cpu does the arithmetic,
// and a pool of workers divides the outputs of each weight. Operations run immediately when they are called.
package host

import (
	"cmp"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Options choose how the CPU is used. The zero value is right for most.
type Options struct {
	Threads int  // workers, including the caller; 0 means [pool.Threads]
	Exact   bool // activations stay float32 and every product runs through generic Go: the slow reference
}

// Device is the CPU as a [backend.Device].
type Device struct {
	pool    *pool.Pool
	exact   bool
	ops     ops
	acts    cpu.Acts      // normalised activations of the running operation, rounded if its weights need it
	sums    splitSums     // of the KV splits of all groups, for a few tokens
	runs    []rowRun      // of the rows of the last pass
	delta   deltaRows     // of the running operation
	workers []workerSpace // one for each worker of pool
}

// workerSpace is the memory of one worker.
type workerSpace struct {
	matmul    cpu.Scratch
	attention attention
	delta     deltaSpace

	// Products that are not stored yet, [T, outputs] for the outputs from first on, and for two weights a second one.
	own, up        []float32
	first, outputs int
}

// resizeOwn returns memory for the outputs lo to hi of a number of rows.
func (ws *workerSpace) resizeOwn(rows, lo, hi int) []float32 {
	ws.own = resizeSlice(ws.own, rows*(hi-lo))
	ws.first, ws.outputs = lo, hi-lo
	return ws.own
}

// ownRow returns the outputs lo to hi of a row.
func (ws *workerSpace) ownRow(t, lo, hi int) []float32 {
	return ws.own[t*ws.outputs+lo-ws.first:][:hi-lo]
}

// MostThreads is the maximum of [Options.Threads]. No machine has more; with many more threads than processors, work
// does not finish in reasonable time.
const MostThreads = 1024

// New starts the workers.
func New(o Options) (*Device, error) {
	if o.Threads < 0 || o.Threads > MostThreads {
		return nil, fmt.Errorf("threads: %d are not possible: give 1 to %d, or 0 for as many as the machine has",
			o.Threads, MostThreads)
	}
	if _, err := cpu.Detect(); err != nil {
		return nil, err
	}
	d := &Device{exact: o.Exact, ops: fastOps()}
	if o.Exact {
		d.ops = exactOps()
	}
	d.pool = pool.New(cmp.Or(o.Threads, pool.Threads()))
	d.workers = make([]workerSpace, d.pool.Threads())
	return d, nil
}

// Name implements [backend.Device].
func (d *Device) Name() string {
	variant := cpu.Features()
	if d.exact {
		variant = "exact"
	}
	return fmt.Sprintf("cpu (%s, threads %d)", variant, d.pool.Threads())
}

// Threads returns the number of workers.
func (d *Device) Threads() int { return d.pool.Threads() }

// Close implements [backend.Device].
func (d *Device) Close() error {
	d.pool.Close()
	return nil
}

// weight is a matrix that aliases the file, with its bias.
type weight struct {
	cpu.Matrix
	bias []float32 // nil or [Rows]
}

func (w *weight) Shape() (out, in int) { return w.Rows, w.Cols }

// mustTake panics if the weight does not take inputs of that length: later, the caller could not recover.
func (w *weight) mustTake(n int) {
	if w.Cols != n {
		panic(fmt.Sprintf("host: %d inputs of a matrix with %d columns", n, w.Cols))
	}
}

func (w *weight) dequantize(dst []float32, i int) {
	n := w.RowBytes()
	w.Type.Dequantize(dst, w.Data[i*n:(i+1)*n])
}

// LoadWeight implements [backend.Device]. The matrix is used in place, the bias is copied as float32.
func (d *Device) LoadWeight(m gguf.Tensor, bias *gguf.Tensor) (backend.Weight, error) {
	if len(m.Shape) != 2 {
		return nil, fmt.Errorf("tensor %q: %d dimensions, a matrix has 2", m.Name, len(m.Shape))
	}
	w := &weight{Matrix: cpu.Matrix{Type: m.Type, Rows: m.Shape[1], Cols: m.Shape[0], Data: m.Data}}
	if bias == nil {
		return w, nil
	}
	var err error
	if w.bias, err = loadVector(*bias); err != nil {
		return nil, err
	}
	if len(w.bias) != w.Rows {
		return nil, fmt.Errorf("tensor %q: %d elements, the matrix has %d rows", bias.Name, len(w.bias), w.Rows)
	}
	return w, nil
}

// norm is the gain vector of an RMSNorm.
type norm struct {
	gains []float32
	eps   float32
}

func (n *norm) Len() int { return len(n.gains) }

// LoadNorm implements [backend.Device].
func (d *Device) LoadNorm(gains gguf.Tensor, eps float32) (backend.Norm, error) {
	g, err := loadVector(gains)
	if err != nil {
		return nil, err
	}
	return &norm{gains: g, eps: eps}, nil
}

func loadVector(t gguf.Tensor) ([]float32, error) {
	if len(t.Shape) != 1 {
		return nil, fmt.Errorf("tensor %q: %d dimensions, a vector has 1", t.Name, len(t.Shape))
	}
	v := make([]float32, t.Shape[0])
	t.Type.Dequantize(v, t.Data)
	return v, nil
}

// tensor holds activations in memory, rows × cols, in the form that products take.
type tensor struct {
	rows, cols int
	f          []float32 // its capacity is SpareTokens more
	acts       cpu.Acts  // of f, for a product
	rounded    bool      // acts holds the rounded form of f; set when f is written
}

func (t *tensor) Shape() (rows, cols int) { return t.rows, t.cols }

func (t *tensor) row(i int) []float32 { return t.f[i*t.cols : (i+1)*t.cols] }

// NewTensor implements [backend.Device].
func (d *Device) NewTensor(rows, cols int) (backend.Tensor, error) {
	if rows <= 0 || cols <= 0 || rows > math.MaxInt/4/cols-cpu.SpareTokens {
		return nil, fmt.Errorf("activations of %d × %d: impossible size", rows, cols)
	}
	return &tensor{rows: rows, cols: cols, f: make([]float32, rows*cols, (rows+cpu.SpareTokens)*cols)}, nil
}
