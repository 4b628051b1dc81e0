//go:build !seeded

package bubble

import "testing"

// Exact reports whether all that happens in Seeded follows from its seed.
const Exact = false

// Seeded runs f in a bubble, like Test. Only with the build tag seeded, and the overlay of internal/cmd/seeded, it uses
// the seed.
func Seeded(t *testing.T, _ uint64, f func(*testing.T)) {
	t.Helper()
	Test(t, f)
}
