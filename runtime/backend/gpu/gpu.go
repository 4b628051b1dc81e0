// Package gpu is the backend that runs the kernels of package kernels on a metal.Device. Operations of a pass are
// encoded into one command buffer as they are called; End commits it, waits, and reads the output of the head.
//
// An operation becomes one or two dependency levels. The residual sum of [backend.Pass] ProjectAdd (and the gather of
// Embed) is encoded only when the next operation is known, because it also prepares the next norm: it stores g·x and
// the parts of Σ x², and the next operation multiplies its sums by 1/rms(x). So a layer is 5 levels, and a token of a
// model of 24 layers 1 + 24·5 + 2 = 123: the gather, the layers, the head, the merge.
//
// Passes of 1 to 8 rows sum in one order: a row's results are the same to the last bit whatever other rows are in the
// pass, and however its visible slots lie in memory. Longer passes (prefill, large batches) use simdgroup matrices, and
// their sums may differ from those of short passes in the last bits. Among long passes, a row's results are the same
// whatever other rows are in the pass, but keys are summed in the order of their slots.
package gpu

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Options choose how the device is used. The zero value works.
type Options struct {
	// Mapped are memory-mapped files, each from its beginning, that contain tensors given to LoadWeight. Their pages
	// are passed to the device without a copy: a file is one buffer. Other weights are copied.
	Mapped [][]byte
	// Notice is told, once, that a pass waits long for kernels to be compiled, in words for a user. It is called on a
	// goroutine of its own. nil means nobody.
	Notice func(string)
}

// Device is a metal.Device as a [backend.Device].
type Device struct {
	metal     metal.Device
	limits    metal.Limits
	mapped    []mapping
	libraries map[string]metal.Library // by type of weights; "" has the kernels that read none
	refused   *metal.CompileError      // why the kernels have products of equal operands; nil if they have mixed ones
	pipelines pipelineCache
	stores    map[storeKey]bool // shapes of the KV stores so far
	bindings  []metal.Binding   // of the dispatch that is encoded
	buffers   []metal.Buffer    // all that live as long as the device
	none      metal.Buffer      // bound to parameters that a kernel declares but does not use
	frames    []*frame          // of all passes
	spare     []*frame          // of these, those that no pass uses
	alive     map[*memory]bool  // of KV stores
	flights   []*pass           // committed and not waited for, in order
	faulty    bool              // one of the passes has failed on the device
	maxWork   int               // of a command buffer
	scratch   scratch
	tensors   []*tensor
	routers   map[routerKey]*router
	recurrent bool // a layer with a recurrent state was loaded

	mu   sync.Mutex // also of a change of libraries
	last Stats
	dead []*memory // of KV stores that are no longer referenced
}

// Stats describe a pass.
type Stats struct {
	Dispatches  int   // kernels run
	Levels      int   // of kernels that wait for each other: one more than the barriers between them
	WeightBytes int64 // of all weights, each counted as often as an operation used it
}

// New compiles the kernels that read no weights; the kernels for a type of weights are compiled when the first weight
// of that type is loaded. Closing the device does not close the metal.Device.
func New(dev metal.Device, o Options) (*Device, error) {
	d := &Device{
		metal: dev, limits: dev.Limits(),
		libraries: map[string]metal.Library{}, stores: map[storeKey]bool{}, alive: map[*memory]bool{},
		routers: map[routerKey]*router{}, maxWork: maxWork,
	}
	d.pipelines = pipelineCache{compile: d.compilePipeline, notice: o.Notice, all: map[pipelineKey]*compilation{}}
	for _, bytes := range o.Mapped {
		d.mapped = append(d.mapped, mapping{bytes: bytes})
	}
	_, err := d.kernelLibrary("")
	if err == nil {
		d.none, err = d.newBuffer(16)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// kernelLibrary returns the kernels for a type of weights. If the compiler refuses the first of them, it is tried once
// more with products of equal operands, as are all later ones if that succeeds.
func (d *Device) kernelLibrary(weight string) (metal.Library, error) {
	if l, ok := d.libraries[weight]; ok {
		return l, nil
	}
	l, err := d.compileLibrary(weight, d.refused != nil)
	if first, ok := errors.AsType[*metal.CompileError](err); ok && len(d.libraries) == 0 {
		if l, err = d.compileLibrary(weight, true); err == nil {
			d.refused = first
		} else {
			err = fmt.Errorf("%w; with matrix products of equal operands: %w", first, err)
		}
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.libraries[weight] = l
	return l, nil
}

// compileLibrary compiles the source of the kernels for a type of weights. Of the first library it also makes a
// pipeline that multiplies matrices: some compilers refuse that only then.
func (d *Device) compileLibrary(weight string, equal bool) (metal.Library, error) {
	l, err := d.metal.NewLibrary(kernels.Source(weight, equal))
	if err != nil || len(d.libraries) > 0 {
		return l, err
	}
	key := pipelineKey{weight, attendWideKernel(64), false}
	p, err := newPipeline(l, key)
	if err != nil {
		l.Close()
		return nil, err
	}
	d.pipelines.add(key, p)
	return l, nil
}

// Name implements [backend.Device]. It ends with the reason if the kernels have matrix products of equal operands.
func (d *Device) Name() string {
	name := fmt.Sprintf("gpu (%s)", d.metal.Name())
	if d.refused != nil {
		reason, _, _ := strings.Cut(d.refused.Log, "\n")
		name += ", equal operands because of " + reason
	}
	return name
}

// GPU returns Apple's name of the GPU, or the name of its software substitute.
func (d *Device) GPU() string { return d.metal.Name() }

// LastPass describes the last pass that has ended.
func (d *Device) LastPass() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Close implements [backend.Device].
func (d *Device) Close() error {
	d.waitForPasses(nil)
	d.pipelines.closeAll()
	for _, b := range d.buffers {
		b.Close()
	}
	for _, t := range d.tensors {
		t.closeBuffers()
	}
	for m := range d.alive {
		m.closeBuffers()
	}
	for _, f := range d.frames {
		f.closeBuffers()
	}
	d.scratch.closeBuffers()
	for _, l := range d.libraries {
		l.Close()
	}
	d.buffers, d.tensors, d.alive, d.libraries = nil, nil, nil, nil
	return nil
}

// newBuffer makes a buffer that is closed with the device.
func (d *Device) newBuffer(length int) (metal.Buffer, error) {
	b, err := d.metal.NewBuffer(max(length, 16))
	if err == nil {
		d.buffers = append(d.buffers, b)
	}
	return b, err
}

// growableBuffer is a buffer that is replaced by a larger one if it is too small. Its contents are lost then.
type growableBuffer struct{ metal.Buffer }

func (g *growableBuffer) growTo(d *Device, length int) error {
	if g.Buffer != nil && len(g.Bytes()) >= length {
		return nil
	}
	d.waitForPasses(nil) // passes in flight may use it
	g.closeBuffer()
	b, err := d.metal.NewBuffer(max(length, 16))
	if err != nil {
		return err
	}
	g.Buffer = b
	return nil
}

// extendTo is growTo that keeps the contents.
func (g *growableBuffer) extendTo(d *Device, length int) error {
	if g.Buffer != nil && len(g.Bytes()) >= length {
		return nil
	}
	d.waitForPasses(nil)
	before := *g
	g.Buffer = nil
	if err := g.growTo(d, length); err != nil {
		*g = before
		return err
	}
	if before.Buffer != nil {
		copy(g.Bytes(), before.Bytes())
		before.closeBuffer()
	}
	return nil
}

func (g *growableBuffer) closeBuffer() {
	if g.Buffer != nil {
		g.Close()
		g.Buffer = nil
	}
}

// scratch is the memory that passes need in addition to tensors.
type scratch struct {
	q          growableBuffer // [T, H, head room]; with norms of heads in a long pass, then [T, Hkv, head room]
	parts, ml  growableBuffer // [T, splits, H·Dh] and [T, splits, H, 2] of attention
	best, sums growableBuffer // output of the head's threadgroups
	drawn      growableBuffer // the same of a draw
	routed     growableBuffer // [wanted rows, outputs of a router's first layer]
	projected  growableBuffer // [T, channels of the convolution, gates, β, α] of a recurrent layer
	mixed      growableBuffer // [T, queries, values, β] after the convolution
}

func (s *scratch) closeBuffers() {
	for _, g := range []*growableBuffer{
		&s.q, &s.parts, &s.ml, &s.best, &s.sums, &s.drawn, &s.routed, &s.projected, &s.mixed,
	} {
		g.closeBuffer()
	}
}

// tensor holds activations, rows × cols. Memory is allocated when a pass first uses it.
type tensor struct {
	rows, cols int
	values     growableBuffer
	normed     growableBuffer // g·x
	squares    growableBuffer // the parts of Σ x²
}

func (t *tensor) Shape() (rows, cols int) { return t.rows, t.cols }

// NewTensor implements [backend.Device].
func (d *Device) NewTensor(rows, cols int) (backend.Tensor, error) {
	if rows <= 0 || cols <= 0 || rows > d.limits.BufferLength/4/cols {
		return nil, fmt.Errorf("activations of %d × %d: impossible size", rows, cols)
	}
	t := &tensor{rows: rows, cols: cols}
	d.tensors = append(d.tensors, t)
	return t, nil
}

// allocateRows allocates memory for a pass over n rows. There is at most one part of Σ x² for 16 columns.
func (t *tensor) allocateRows(d *Device, n int) error {
	return errors.Join(
		t.values.growTo(d, 4*t.rows*t.cols),
		t.normed.growTo(d, 4*n*t.cols),
		t.squares.growTo(d, 4*n*ceilDiv(t.cols, minRows)),
	)
}

func (t *tensor) closeBuffers() {
	t.values.closeBuffer()
	t.normed.closeBuffer()
	t.squares.closeBuffer()
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
