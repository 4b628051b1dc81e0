//go:build !unix

package kerneltest

import "testing"

const fences = false

func allocFenced(_ testing.TB, n int) []byte { return make([]byte, n) }
