package selfcheck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// probe is a device that notes what is compiled and run on another one, and how much memory its buffers have.
type probe struct {
	metal.Device

	mu      sync.Mutex
	kernels map[kernelKey]*Kernel
	bytes   int64 // of all open buffers
	plant   bool  // the next command buffer that is waited for fails
}

// kernelKey is a source or a pipeline; a kernel that is made with several constants is one.
type kernelKey struct{ weights, name string }

func newProbe(d metal.Device) *probe { return &probe{Device: d, kernels: map[kernelKey]*Kernel{}} }

// note notes how long something took to compile: the first time, as a system may keep what it has compiled.
func (p *probe) note(key kernelKey, took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kernels[key]
	if k == nil {
		k = &Kernel{Weights: key.weights, Name: key.name, Took: took}
		p.kernels[key] = k
	}
	switch {
	case err != nil:
		k.Error = err.Error()
	case k.Error != "":
		k.Refused, k.Error = k.Error, ""
	}
}

func (p *probe) listKernels() (all []Kernel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.kernels {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b Kernel) int {
		return cmp.Or(strings.Compare(a.Weights, b.Weights), strings.Compare(a.Name, b.Name))
	})
	return all
}

// weightsOf returns the type of weights of a source of package kernels, "" if its kernels read none.
func weightsOf(source string) string {
	_, rest, _ := strings.Cut(source, "#define WEIGHT ")
	weights, _, _ := strings.Cut(rest, "\n")
	return weights
}

// NewLibrary implements [metal.Device].
func (p *probe) NewLibrary(source string) (metal.Library, error) {
	began := time.Now()
	l, err := p.Device.NewLibrary(source)
	weights := weightsOf(source)
	p.note(kernelKey{weights: weights}, time.Since(began), err)
	if err != nil {
		return nil, err
	}
	return &probeLibrary{l, p, weights}, nil
}

type probeLibrary struct {
	metal.Library
	p       *probe
	weights string
}

// NewPipeline implements [metal.Library].
func (l *probeLibrary) NewPipeline(function string, constants ...metal.Constant) (metal.Pipeline, error) {
	began := time.Now()
	made, err := l.Library.NewPipeline(function, constants...)
	key := kernelKey{l.weights, function}
	l.p.note(key, time.Since(began), err)
	if err != nil {
		return nil, err
	}
	return &probePipeline{made, key}, nil
}

type probePipeline struct {
	metal.Pipeline
	key kernelKey
}

// NewBuffer implements [metal.Device].
func (p *probe) NewBuffer(length int) (metal.Buffer, error) {
	b, err := p.Device.NewBuffer(length)
	if err != nil {
		return nil, err
	}
	p.addBytes(int64(length))
	return &probeBuffer{Buffer: b, p: p, length: int64(length)}, nil
}

// WrapBuffer implements [metal.Device]. The memory is not the device's own.
func (p *probe) WrapBuffer(pages []byte) (metal.Buffer, error) {
	b, err := p.Device.WrapBuffer(pages)
	if err != nil {
		return nil, err
	}
	return &probeBuffer{Buffer: b, p: p}, nil
}

func (p *probe) addBytes(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += n
}

func (p *probe) bufferBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

type probeBuffer struct {
	metal.Buffer
	p      *probe
	length int64
	once   sync.Once
}

// Close implements [metal.Buffer].
func (b *probeBuffer) Close() {
	b.once.Do(func() { b.p.addBytes(-b.length) })
	b.Buffer.Close()
}

// NewCommands implements [metal.Device].
func (p *probe) NewCommands() (metal.Commands, error) {
	c, err := p.Device.NewCommands()
	if err != nil {
		return nil, err
	}
	return &probeCommands{Commands: c, p: p}, nil
}

type probeCommands struct {
	metal.Commands
	p     *probe
	bound []metal.Binding
}

// SetPipeline implements [metal.Commands].
func (c *probeCommands) SetPipeline(p metal.Pipeline) {
	mine := p.(*probePipeline)
	c.p.mu.Lock()
	c.p.kernels[mine.key].Runs++
	c.p.mu.Unlock()
	c.Commands.SetPipeline(mine.Pipeline)
}

// SetBuffers implements [metal.Commands].
func (c *probeCommands) SetBuffers(first int, bindings []metal.Binding) {
	c.bound = c.bound[:0]
	for _, b := range bindings {
		c.bound = append(c.bound, metal.Binding{Buffer: b.Buffer.(*probeBuffer).Buffer, Offset: b.Offset})
	}
	c.Commands.SetBuffers(first, c.bound)
}

// Wait implements [metal.Commands].
func (c *probeCommands) Wait() (metal.Timing, error) {
	timing, err := c.Commands.Wait()
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.plant && err == nil {
		err = fmt.Errorf("%w: %w", metal.ErrFault, errPlanted)
	}
	c.p.plant = false
	return timing, err
}

var errPlanted = errors.New("planted by the self-check")
