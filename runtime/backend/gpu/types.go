package gpu

import "github.com/pilotfish-ai/pilotfish/gguf"

// KernelType returns the type that weights of type t have on the device: t if the kernels support it. Of the other
// types, IQ4_NL and Q3_K are converted to another type without loss, and the rest to F16 when a model is loaded, or to
// F32 if a weight is too large for F16.
func KernelType(t gguf.Type) gguf.Type {
	switch {
	case hasKernels(t):
		return t
	case t == gguf.IQ4_NL:
		return gguf.Q8_0
	case t == gguf.Q3_K:
		return gguf.Q6_K
	}
	return gguf.F16
}
