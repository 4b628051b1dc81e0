package engine

import (
	"runtime"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/device"
)

// Backend says what runs a model.
type Backend = device.Backend

// The backends.
const (
	CPU   = device.CPU
	Metal = device.Metal
	Soft  = device.Soft
)

// ParseBackend returns the backend of a name: see [device.Parse].
func ParseBackend(name string) (Backend, error) { return device.Parse(name) }

// MostThreads is the largest [Options.Threads].
const MostThreads = host.MostThreads

// KernelType is the type that weights of type t have on a GPU: another one where there are no kernels for t.
func KernelType(t gguf.Type) gguf.Type { return gpu.KernelType(t) }

// Device says what runs the model, for reports.
func (e *Engine) Device() string { return e.name }

// GPU is Metal's name of the GPU that runs the model, or of what stands in for one; false where none does.
func (e *Engine) GPU() (name string, ok bool) {
	d, ok := e.device.(*gpu.Device)
	if !ok {
		return "", false
	}
	return d.GPU(), true
}

// Threads is the number of threads that compute, or that may where a GPU does.
func (e *Engine) Threads() int {
	if d, ok := e.device.(*host.Device); ok {
		return d.Threads()
	}
	return runtime.GOMAXPROCS(0)
}

// LastEncoded describes the last forward call; false where no GPU runs the model.
func (e *Engine) LastEncoded() (s gpu.Stats, ok bool) {
	d, ok := e.device.(*gpu.Device)
	if ok {
		s = d.LastPass()
	}
	return s, ok
}
