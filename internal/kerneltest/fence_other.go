//go:build !unix

package kerneltest

import "testing"

const fences = false

// fenced returns n bytes. This system has no fences.
func fenced(_ testing.TB, n int) []byte { return make([]byte, n) }
