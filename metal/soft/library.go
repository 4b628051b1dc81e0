package soft

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// library is compiled source.
type library struct {
	device *Device
	module *module
}

// NewPipeline implements metal.Library.
func (l *library) NewPipeline(function string, constants ...metal.Constant) (metal.Pipeline, error) {
	if l.device.isClosed() {
		return nil, metal.ErrClosed
	}
	fail := func(format string, a ...any) (metal.Pipeline, error) {
		return nil, &metal.CompileError{Function: function, Log: fmt.Sprintf(format, a...)}
	}
	i := slices.IndexFunc(l.module.Kernels, func(k translate.Kernel) bool { return k.Name == function })
	if i < 0 {
		var names []string
		for _, k := range l.module.Kernels {
			names = append(names, k.Name)
		}
		return fail("the library has no such function, but %s", strings.Join(names, ", "))
	}
	p := &pipeline{
		Kernel: l.module.Kernels[i], device: l.device, module: l.module, index: i,
		values: make([][]byte, len(l.module.Constants)), memory: l.module.memory[i], given: map[string]bool{},
	}
	for _, c := range constants {
		if err := p.setConstant(c); err != nil {
			return fail("%v", err)
		}
	}
	for n, c := range l.module.Constants {
		if p.values[n] == nil && !c.Optional && slices.Contains(p.Constants, c.Name) {
			return fail("function constant %d (%s) has no value", c.Index, c.Name)
		}
	}
	if p.memory > maxThreadgroupMemory {
		return fail("declares %d bytes of threadgroup memory, more than %d", p.memory, maxThreadgroupMemory)
	}
	if slices.ContainsFunc(p.Params, func(a translate.Parameter) bool { return a.If != "" }) {
		p.evaluateConditions()
	}
	return p, nil
}

// Close implements metal.Library. Pipelines stay valid.
func (l *library) Close() {}

// pipeline is a kernel with its function constants.
type pipeline struct {
	translate.Kernel
	device *Device
	module *module
	index  int             // of the kernel
	values [][]byte        // of the module's constants; nil if not set
	memory int             // bytes of threadgroup memory that the kernel declares
	given  map[string]bool // conditions of parameters
	closed bool
}

func (p *pipeline) setConstant(c metal.Constant) error {
	i := slices.IndexFunc(p.module.Constants, func(d translate.Constant) bool { return d.Index == c.Index })
	if i < 0 {
		return fmt.Errorf("the library has no function constant %d", c.Index)
	}
	d := p.module.Constants[i]
	var value []byte
	var types []string
	switch v := c.Value.(type) {
	case bool:
		value, types = []byte{0}, []string{"bool"}
		if v {
			value[0] = 1
		}
	case int32:
		value, types = binary.NativeEndian.AppendUint32(nil, uint32(v)), []string{"int", "int32_t"}
	case uint32:
		value, types = binary.NativeEndian.AppendUint32(nil, v), []string{"uint", "uint32_t"}
	case float32:
		value, types = binary.NativeEndian.AppendUint32(nil, math.Float32bits(v)), []string{"float"}
	}
	if !slices.Contains(types, d.Type) {
		return fmt.Errorf("function constant %d (%s) is %s, but its value is %T", c.Index, d.Name, d.Type, c.Value)
	}
	p.values[i] = value
	return nil
}

func (p *pipeline) hasParameter(a translate.Parameter) bool { return a.If == "" || p.given[a.If] }

// evaluateConditions computes which parameters the kernel has. It first waits for committed command buffers: they may
// run with other constants.
func (p *pipeline) evaluateConditions() {
	d := p.device
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.running {
		d.idle.Wait()
	}
	if d.closed {
		return
	}
	p.activateConstants()
	w := d.workers[0]
	c := d.emptyDispatch(len(p.module.Kernels))
	c.grid, c.group = [4]uint32{1, 1, 1}, [4]uint32{1, 1, 1}
	w.runThreadgroups(p.module, c)
	for i, name := range p.module.Conditions {
		p.given[name] = w.cStruct().conditions[i]
	}
}

func (p *pipeline) activateConstants() {
	if p.module.active == p {
		return
	}
	p.module.active = p
	for i, v := range p.values {
		p.module.setConstant(i, v)
	}
}

// Name implements metal.Pipeline.
func (p *pipeline) Name() string { return p.Kernel.Name }

// Threads implements metal.Pipeline.
func (p *pipeline) Threads() int {
	if p.MaxThreads > 0 {
		return p.MaxThreads
	}
	return translate.MaxThreads
}

// SIMDWidth implements metal.Pipeline.
func (p *pipeline) SIMDWidth() int { return simdWidth }

// ThreadgroupMemory implements metal.Pipeline.
func (p *pipeline) ThreadgroupMemory() int { return p.memory }

// Close implements metal.Pipeline.
func (p *pipeline) Close() {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	p.closed = true
}
