package gpu

import "github.com/pilotfish-ai/pilotfish/gguf"

// KernelType is the type that weights of type t have on the device: t where the kernels read it. Of the others,
// IQ4_NL and Q3_K fit into another type to the last bit, and the rest becomes F16 when a model is loaded, or F32
// where a weight is beyond that.
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
