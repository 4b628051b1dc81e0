package gpu

import (
	"errors"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// LoadDelta implements [backend.Device].
func (d *Device) LoadDelta(backend.DeltaConfig, backend.DeltaWeights) (backend.Delta, error) {
	return nil, errors.New("this device cannot run layers with a recurrent state; the CPU can")
}

// Delta implements [backend.Pass].
func (p *pass) Delta(_, _ backend.Tensor, _ backend.Norm, _ backend.Delta, _ int) {
	panic("gpu: no layer with a recurrent state was loaded")
}
