package gpu

import (
	"fmt"
	"os"
	"reflect"
	"syscall"

	"github.com/ebitengine/purego"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// clPage is that of every system that the library is made for.
const clPage = 4096

// loadCL binds the functions of an OpenCL library.
func loadCL(path string) (*clAPI, error) {
	if os.Getpagesize() != clPage {
		return nil, fmt.Errorf("%w: pages of %d bytes, not %d", metal.ErrNoDevice, os.Getpagesize(), clPage)
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", metal.ErrNoDevice, err)
	}
	var a clAPI
	for v, i := reflect.ValueOf(&a).Elem(), 0; i < v.NumField(); i++ {
		symbol, err := purego.Dlsym(handle, "cl"+v.Type().Field(i).Name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", metal.ErrNoDevice, err)
		}
		purego.RegisterFunc(v.Field(i).Addr().Interface(), symbol)
	}
	return &a, nil
}

// clMap maps zeroed memory for length bytes, at least. It begins on a page.
func clMap(length int) ([]byte, error) {
	return syscall.Mmap(-1, 0, length, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

func clUnmap(m []byte) error { return syscall.Munmap(m) }
