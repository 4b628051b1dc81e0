package mtl

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// simdWidth is the number of threads of a simdgroup that the kernels are written for. All of Apple's own GPUs have it.
const simdWidth = 32

// pipeline is an MTLComputePipelineState.
type pipeline struct {
	d        *Device
	pipeline id // 0 when closed
	name     string
	threads  int
	memory   int
}

// newPipeline reads the limits of a new pipeline state, and refuses it if kernels cannot run correctly with them.
func (d *Device) newPipeline(s *scope, o id, name string) (*pipeline, error) {
	p := &pipeline{
		d: d, pipeline: o, name: name,
		threads: int(s.send(o, selMaxTotalThreadsPerThreadgroup)),
		memory:  int(s.send(o, selStaticThreadgroupMemoryLength)),
	}
	wrong := ""
	if width := s.send(o, selThreadExecutionWidth); width != simdWidth {
		wrong = fmt.Sprintf("its simdgroups have %d threads instead of %d on %s", width, simdWidth, d.Name())
	} else if p.memory > d.limits.ThreadgroupMemory {
		wrong = fmt.Sprintf("it declares %d bytes of threadgroup memory, %s has %d",
			p.memory, d.Name(), d.limits.ThreadgroupMemory)
	} else if p.threads < simdWidth {
		wrong = fmt.Sprintf("its threadgroups have at most %d threads on %s", p.threads, d.Name())
	}
	if wrong != "" {
		s.releaseObject(o)
		return nil, &metal.CompileError{Function: name, Log: wrong}
	}
	return p, nil
}

func (p *pipeline) Name() string { return p.name }

func (p *pipeline) Threads() int { return p.threads }

func (p *pipeline) SIMDWidth() int { return simdWidth }

func (p *pipeline) ThreadgroupMemory() int { return p.memory }

func (p *pipeline) Close() { p.d.releaseWhenUnused(&p.pipeline, (*scope).releaseObject) }
