// Package racing skips tests under the race detector, which makes them 5 to 20 times slower.
package racing

import "testing"

// Spare skips a test if the race detector is on. It is for tests of amounts and times, or of a command's flags and
// output, if other tests run the same concurrent code.
func Spare(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("spared the race detector: other tests run the same in parallel")
	}
}
