//go:build !unix

package kerneltest

import "testing"

// fenced returns n bytes. There is no fence on this system.
func fenced(_ testing.TB, n int) []byte { return make([]byte, n) }
