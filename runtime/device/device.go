// Package device opens the device that runs a model.
package device

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
)

// Backend is the kind of device that runs a model.
type Backend string

// The backends.
const (
	CPU       Backend = "cpu"
	Metal     Backend = "metal"      // the GPU of a Mac
	Soft      Backend = "soft"       // the Metal kernels compiled for this processor, under Metal's rules: for checking
	SoftCheck Backend = "soft:check" // the same, with a check of every access
)

// Parse returns the backend with this name.
func Parse(name string) (Backend, error) {
	switch b := Backend(name); b {
	case CPU, Metal, Soft, SoftCheck:
		return b, nil
	}
	return "", fmt.Errorf("%s is not a backend: choose cpu, metal, soft or soft:check", errs.Quote(name))
}

// Options say how a device computes. The zero value is the CPU with all its threads.
type Options struct {
	Backend Backend
	Threads int      // workers on the CPU; 0 means as many as the Go runtime may use at once
	Exact   bool     // float32 activations and generic Go, on the CPU only
	Mapped  [][]byte // memory of the model's file, which a GPU uses in place
	// Notice is told what takes long, in words for a user. nil means nobody.
	Notice func(string)
}

// Open opens a device, and returns the function that closes it.
func Open(o Options) (d backend.Device, end func() error, err error) {
	name, err := Parse(string(cmp.Or(o.Backend, CPU)))
	switch {
	case err != nil:
		return nil, nil, err
	case name == CPU:
		d, err := host.New(host.Options{Threads: o.Threads, Exact: o.Exact})
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	case o.Exact:
		return nil, nil, fmt.Errorf("exact computing is only possible on the backend %s", CPU)
	}
	d, end, err = openGPU(o)
	if err != nil {
		return nil, nil, fmt.Errorf("backend %s: %w", o.Backend, err)
	}
	return d, end, nil
}

func openGPU(o Options) (backend.Device, func() error, error) {
	under, err := OpenGPU(o)
	if err != nil {
		return nil, nil, err
	}
	return newGPUBackend(under, gpu.Options{Mapped: o.Mapped, Notice: o.Notice})
}

// OpenGPU opens the device below a backend other than the CPU, for checking it. Of the options it takes Backend and
// Threads.
func OpenGPU(o Options) (metal.Device, error) {
	if o.Backend == Metal {
		return openMetal()
	}
	return openSoft(o.Backend == SoftCheck, o.Threads)
}

// newGPUBackend returns the backend that runs kernels on a Metal device. It closes the device at the end, and on an
// error.
func newGPUBackend(under metal.Device, o gpu.Options) (backend.Device, func() error, error) {
	d, err := gpu.New(under, o)
	if err != nil {
		return nil, nil, errors.Join(err, under.Close())
	}
	return d, func() error { return errors.Join(d.Close(), under.Close()) }, nil
}
