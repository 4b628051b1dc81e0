// Package cpu holds the operations of the model's forward pass on slices of float32: products with weights in every
// type of a GGUF file, normalisation, rotary positions, attention's dot products, exponentials, and a pool of workers.
//
// Weights of the common quantised types (Q8_0, Q5_0, Q4_0, Q4_K, Q5_K, Q6_K) meet activations rounded to 8 bits in blocks of 32,
// multiply in integers and sum in float32. All other types meet float32 activations: F32, F16 and BF16 directly, the rest after
// their rows are dequantised.
//
// Every operation exists in plain Go. On amd64 and arm64 the inner loops are assembly as well, one table of leaves
// per CPU variant, chosen at first use by the features of the CPU; the build tag noasm leaves only Go. [Detect] names
// the choice, and [Microkernels] is the table of what computes which product, which testdata has for review.
//
// Promise: a result depends on the variant, the weight and the one row of activations, on nothing else. How many rows share a
// call, how the rows of a weight are cut into ranges and how many workers there are never change a bit of it.
package cpu
