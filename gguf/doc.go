// Package gguf reads and writes GGUF model files: metadata, tensors, and the block formats of their elements.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
package gguf
