package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/quote"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Backend says what runs a model. [Soft] can be followed by how: see [ParseBackend].
type Backend string

// The backends.
const (
	CPU   Backend = "cpu"
	Metal Backend = "metal" // the GPU of a Mac
	Soft  Backend = "soft"  // the kernels for it, compiled for this processor and run by Metal's rules: for checking
)

// ParseBackend returns the backend of a name: cpu, metal, or soft[:VARIANT[:SEED]]. The variants of soft are fast,
// fastmath (as Apple's compiler may rearrange arithmetic), check (every access is watched) and ubsan; the seed decides
// about the order of everything that Metal leaves open.
func ParseBackend(name string) (Backend, error) {
	kind, how, more := strings.Cut(name, ":")
	switch b := Backend(kind); {
	case b == Soft:
		if _, _, err := b.how(how); more && err != nil {
			return "", err
		}
	case more || b != CPU && b != Metal:
		return "", fmt.Errorf("%s is not a backend: choose cpu, metal or soft", quote.Text(name))
	}
	return Backend(name), nil
}

// how reads what follows "soft:".
func (b Backend) how(text string) (variant string, seed uint64, err error) {
	variant, number, more := strings.Cut(text, ":")
	if !slices.Contains([]string{"fast", "fastmath", "check", "ubsan"}, variant) {
		return "", 0, fmt.Errorf("%s is not a variant of the backend soft: choose fast, fastmath, check or ubsan",
			quote.Text(text))
	}
	if more {
		if seed, err = strconv.ParseUint(number, 10, 64); err != nil {
			return "", 0, fmt.Errorf("%s is not a variant of the backend soft: "+
				"the seed after the colon must be a number", quote.Text(text))
		}
	}
	return variant, seed, nil
}

// MostThreads is the largest [Options.Threads].
const MostThreads = host.MostThreads

// openDevice opens what the options ask for.
func (e *Engine) openDevice() error {
	name, err := ParseBackend(string(cmp.Or(e.o.Backend, CPU)))
	switch {
	case err != nil:
		return err
	case name == CPU:
		d, err := host.New(host.Options{Threads: e.o.Threads, Exact: e.o.Exact})
		if err != nil {
			return err
		}
		e.device, e.closeDevice = d, d.Close
		return nil
	case e.o.Exact:
		return fmt.Errorf("exact computing is only possible on the backend %s", CPU)
	}
	return e.openGPU()
}

// openGPU opens a Metal device and what runs the kernels on it.
func (e *Engine) openGPU() error {
	var under metal.Device
	var err error
	if e.o.Backend == Metal {
		under, err = openMetal()
	} else {
		variant, seed := "fast", uint64(0)
		if _, how, more := strings.Cut(string(e.o.Backend), ":"); more {
			variant, seed, err = e.o.Backend.how(how)
		}
		if err == nil {
			under, err = openSoft(variant, seed, e.o.Threads)
		}
	}
	if err != nil {
		return fmt.Errorf("backend %s: %w", e.o.Backend, err)
	}
	d, err := gpu.New(under, gpu.Options{Mapped: e.file.Mappings()})
	if err != nil {
		return errors.Join(fmt.Errorf("backend %s: %w", e.o.Backend, err), under.Close())
	}
	e.device, e.closeDevice = d, func() error { return errors.Join(d.Close(), under.Close()) }
	return nil
}

// onDevice returns the router with its network on the device, where that evaluates one.
func (e *Engine) onDevice(ctx context.Context, r *router.Router) (*router.Router, error) {
	done, err := e.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return r.On(e.device), nil
}

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
