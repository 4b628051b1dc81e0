package engine

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/mtl"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
)

// Backend says what runs a model.
type Backend string

// The backends.
const (
	CPU   Backend = "cpu"
	Metal Backend = "metal" // the GPU of a Mac
	Soft  Backend = "soft"  // the kernels for it, compiled for this processor and run with Metal's rules: for checking
)

// Backends lists them.
func Backends() []Backend { return []Backend{CPU, Metal, Soft} }

// openDevice opens what the options ask for.
func (e *Engine) openDevice() error {
	switch e.o.Backend {
	case "", CPU:
		d, err := host.New(host.Options{Threads: e.o.Threads, Exact: e.o.Exact})
		if err != nil {
			return err
		}
		e.device, e.closeDevice = d, d.Close
		return nil
	case Metal, Soft:
		if e.o.Exact {
			return fmt.Errorf("exact computing needs the backend %s", CPU)
		}
		return e.openGPU()
	}
	return fmt.Errorf("backend %q: known are %v", e.o.Backend, Backends())
}

// openGPU opens a Metal device and what runs the kernels on it.
func (e *Engine) openGPU() error {
	var under metal.Device
	var err error
	if e.o.Backend == Metal {
		under, err = mtl.Open(mtl.Options{})
	} else {
		under, err = openSoft(e.o.Threads)
	}
	if err != nil {
		return fmt.Errorf("backend %s: %w", e.o.Backend, err)
	}
	d, err := gpu.New(under, gpu.Options{Mapped: e.file.Mapped()})
	if err != nil {
		return errors.Join(fmt.Errorf("backend %s: %w", e.o.Backend, err), under.Close())
	}
	e.device, e.closeDevice = d, func() error { return errors.Join(d.Close(), under.Close()) }
	return nil
}

// Device says what runs the model, for reports.
func (e *Engine) Device() string { return e.device.Name() }

// Threads is the number of threads that compute, or that may where a GPU does.
func (e *Engine) Threads() int {
	if d, ok := e.device.(*host.Device); ok {
		return d.Threads()
	}
	return runtime.GOMAXPROCS(0)
}

// Encoded is what a GPU was given to do for one forward call.
type Encoded struct {
	Dispatches int // kernels run
	Levels     int // of kernels that wait for those before
}

// LastEncoded tells of the last forward call; false where no GPU runs the model.
func (e *Engine) LastEncoded() (Encoded, bool) {
	d, ok := e.device.(*gpu.Device)
	if !ok {
		return Encoded{}, false
	}
	s := d.LastPass()
	return Encoded{Dispatches: s.Dispatches, Levels: s.Levels}, true
}
