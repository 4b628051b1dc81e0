//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// foreign reports whether this system can call C functions without cgo.
const foreign = true

// openDylib loads a dynamic library, which stays loaded.
func openDylib(path string) (uintptr, error) {
	runtime.LockOSThread() // the text of an error is that of a thread
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func findSymbol(libraries []uintptr, name string) (address uintptr, err error) {
	for _, l := range libraries {
		if address, err = purego.Dlsym(l, name); err == nil {
			return address, nil
		}
	}
	return 0, err
}

// callC calls a C function with integers and pointers. It allocates nothing.
func callC(fn uintptr, words []uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, words...)
	return r
}

func (o *objc) bindSeconds() {
	purego.RegisterFunc(&o.sendSeconds, o.msgSend)
}

func (o *objc) bindSize(libraries []uintptr) error {
	entry, err := findSymbol(libraries, sizeEntry(runtime.GOARCH))
	if err != nil {
		return err
	}
	purego.RegisterFunc(&o.sendSize, entry)
	return nil
}
