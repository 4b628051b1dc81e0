package soft

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/cpu"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// checkPlatform returns an error if the device cannot run here.
func checkPlatform() error {
	switch runtime.GOARCH {
	case "amd64":
		if x := &cpu.X86; !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasBMI2 {
			return fmt.Errorf("%w: the software device needs a processor with AVX2, FMA, F16C and BMI2",
				metal.ErrNoDevice)
		}
		return nil
	case "arm64":
		return nil
	}
	return fmt.Errorf("%w: the software device runs on amd64 and arm64, not on %s", metal.ErrNoDevice, runtime.GOARCH)
}

// loadModule loads a compiled library into memory. It loads a copy, because a process loads a file only once, and
// devices would share its function constants.
func loadModule(path string) (*module, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-*.so")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // a leftover does no harm
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // the text of an error of dlopen is that of a thread
	defer runtime.UnlockOSThread()
	for _, name := range [...]string{"libc.so.6", "libm.so.6"} { // libraries that the module calls
		if _, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return nil, fmt.Errorf("load %s: %w", name, err)
		}
	}
	m := &module{path: path}
	if m.handle, err = purego.Dlopen(f.Name(), purego.RTLD_NOW|purego.RTLD_LOCAL); err != nil {
		return nil, fmt.Errorf("load compiled kernels: %w", err)
	}
	if err := m.bindExports(); err != nil {
		return nil, errors.Join(err, m.unloadModule())
	}
	return m, nil
}

func (m *module) bindExports() error {
	var describe func() string
	var layoutOf func(uint32) uint64
	var memory func(uint32) uint64
	var layout func()
	for name, f := range map[string]any{"msl_describe": &describe, "msl_layout_of": &layoutOf, "msl_memory": &memory,
		"msl_layout": &layout, "msl_set_constant": &m.set} {
		symbol, err := purego.Dlsym(m.handle, name)
		if err != nil {
			return fmt.Errorf("load compiled kernels: %w", err)
		}
		purego.RegisterFunc(f, symbol)
	}
	var err error
	if m.entry, err = purego.Dlsym(m.handle, "msl_run"); err != nil {
		return fmt.Errorf("load compiled kernels: %w", err)
	}
	for i, n := range layoutOfC() {
		if layoutOf(uint32(i)) != n {
			return fmt.Errorf("load compiled kernels: "+
				"number %d of the layout is %d, not %d: worker.go and runtime.h differ", i, layoutOf(uint32(i)), n)
		}
	}
	layout()
	if err := json.Unmarshal([]byte(describe()), &m.Description); err != nil {
		return fmt.Errorf("load compiled kernels: %w", err)
	}
	for i := range m.Kernels {
		m.memory = append(m.memory, int(memory(uint32(i))))
	}
	return nil
}

func (m *module) callEntry(worker, dispatch uint64) int {
	r, _, _ := purego.SyscallN(m.entry, uintptr(worker), uintptr(dispatch))
	return int(int32(r))
}

// setConstant sets function constant i, or removes it if value is nil.
func (m *module) setConstant(i int, value []byte) {
	if value == nil {
		m.set(uint32(i), 0)
		return
	}
	m.set(uint32(i), uintptr(addressOf(value)))
	runtime.KeepAlive(value)
}

func (m *module) unloadModule() error { return purego.Dlclose(m.handle) }
