package gpu

import "github.com/pilotfish-ai/pilotfish/gguf"

// KernelType is the type that weights of type t have on the device: t where the kernels read it, else F16, which they are
// converted to when a model is loaded.
func KernelType(t gguf.Type) gguf.Type {
	if hasKernels(t) {
		return t
	}
	return gguf.F16
}
