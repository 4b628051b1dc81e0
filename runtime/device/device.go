// Package device opens the device that runs a model.
package device

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
)

// Backend is the kind of device that runs a model. [Soft] can have a variant and a seed: see [Parse].
type Backend string

// The backends.
const (
	CPU   Backend = "cpu"
	Metal Backend = "metal" // the GPU of a Mac
	Soft  Backend = "soft"  // the Metal kernels compiled for this processor, under Metal's rules: for checking
)

// Parse returns the backend with this name: cpu, metal, or soft[:VARIANT[:SEED]]. The variants of soft are fast
// and check (every access is checked); the seed decides the order of everything that Metal leaves open.
func Parse(name string) (Backend, error) {
	kind, how, more := strings.Cut(name, ":")
	switch b := Backend(kind); {
	case b == Soft:
		if _, _, err := b.how(how); more && err != nil {
			return "", err
		}
	case more || b != CPU && b != Metal:
		return "", fmt.Errorf("%s is not a backend: choose cpu, metal or soft", errs.Quote(name))
	}
	return Backend(name), nil
}

// how parses the text after "soft:".
func (b Backend) how(text string) (variant string, seed uint64, err error) {
	variant, number, more := strings.Cut(text, ":")
	if variant != "fast" && variant != "check" {
		return "", 0, fmt.Errorf("%s is not a variant of the backend soft: choose fast or check", errs.Quote(text))
	}
	if more {
		if seed, err = strconv.ParseUint(number, 10, 64); err != nil {
			return "", 0, fmt.Errorf("%s is not a variant of the backend soft: "+
				"the seed after the colon must be a number", errs.Quote(text))
		}
	}
	return variant, seed, nil
}

// Options say how a device computes. The zero value is the CPU with all its threads.
type Options struct {
	Backend Backend
	Threads int      // workers on the CPU; 0 means as many as the Go runtime may use at once
	Exact   bool     // float32 activations and generic Go, on the CPU only
	Mapped  [][]byte // memory of the model's file, which a GPU uses in place
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

// openGPU opens a Metal device and the backend that runs kernels on it.
func openGPU(o Options) (backend.Device, func() error, error) {
	var under metal.Device
	var err error
	if o.Backend == Metal {
		under, err = openMetal()
	} else {
		under, err = o.openSoft()
	}
	if err != nil {
		return nil, nil, err
	}
	return over(under, o.Mapped)
}

// openSoft opens the software device, by default with fast kernels.
func (o Options) openSoft() (metal.Device, error) {
	variant, seed := "fast", uint64(0)
	if _, how, more := strings.Cut(string(o.Backend), ":"); more {
		var err error
		if variant, seed, err = o.Backend.how(how); err != nil {
			return nil, err
		}
	}
	return openSoft(variant, seed, o.Threads)
}

// over returns the backend that runs kernels on a Metal device. It closes the device at the end, and on an error.
func over(under metal.Device, mapped [][]byte) (backend.Device, func() error, error) {
	d, err := gpu.New(under, gpu.Options{Mapped: mapped})
	if err != nil {
		return nil, nil, errors.Join(err, under.Close())
	}
	return d, func() error { return errors.Join(d.Close(), under.Close()) }, nil
}
