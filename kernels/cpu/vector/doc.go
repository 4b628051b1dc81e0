// Package vector holds the operations of the forward pass beside its matrix products, on slices of float32: RMS norm,
// rotary positions, exponentials (softmax, SwiGLU, log-sum-exp), the scores and weighted sums of attention, conversion
// to half precision.
//
// Each has a file with its formula and plain Go, which the assembly is tested against; assembly stands in files of the
// same name, such as norm_amd64.s. dispatch_amd64.go and dispatch_arm64.go say which functions an instruction set has.
package vector
