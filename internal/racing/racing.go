// Package racing spares tests the race detector, which makes them 5 to 20 times slower.
package racing

import "testing"

// Spare skips a test where the race detector is on: one of amounts and times, or of a command's flags and output, which
// runs nothing in parallel that other tests, of the package below it or beside it, do not run as well.
func Spare(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("spared the race detector: other tests run the same in parallel")
	}
}
