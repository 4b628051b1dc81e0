// Package vector holds the operations of the forward pass apart from its matrix products, on slices of float32: RMS
// norm, rotary positions, exponentials (softmax, SwiGLU, log-sum-exp), the scores and weighted sums of attention,
// conversion to half precision.
//
// Each operation has a file with its formula in plain Go; tests compare the assembly with it. Assembly is in files of
// the same name, such as norm_amd64.s. dispatch_amd64.go and dispatch_arm64.go list the functions of each instruction
// set.
package vector
