package engine

import (
	"runtime"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/device"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// Backend is the kind of device that runs a model.
type Backend = device.Backend

// The backends.
const (
	CPU   = device.CPU
	Metal = device.Metal
	Soft  = device.Soft
)

// ParseBackend returns the backend with this name: see [device.Parse].
func ParseBackend(name string) (Backend, error) { return device.Parse(name) }

// MostThreads is the largest [Options.Threads].
const MostThreads = host.MostThreads

// KernelType returns the type that weights of type t have on a GPU: a different one if there are no kernels for t.
func KernelType(t gguf.Type) gguf.Type { return gpu.KernelType(t) }

// LeftOut returns the names of the tensors of a file that a model is loaded without: [transformer.LeftOut].
func LeftOut(f *gguf.File) []string { return transformer.LeftOut(f) }

// Device describes the device that runs the model, for reports.
func (e *Engine) Device() string { return e.name }

// Threads returns the number of CPU threads that compute, or that may compute if a GPU runs the model.
func (e *Engine) Threads() int {
	if d, ok := e.device.(*host.Device); ok {
		return d.Threads()
	}
	return runtime.GOMAXPROCS(0)
}

// LastEncoded describes the last forward call; false if no GPU runs the model.
func (e *Engine) LastEncoded() (s gpu.Stats, ok bool) {
	d, ok := e.device.(*gpu.Device)
	if ok {
		s = d.LastPass()
	}
	return s, ok
}
