//go:build !linux

package hugemem

// Size returns the size of a huge page in bytes, 0 if there are none. macOS has none on Apple Silicon, and Windows
// requires a special right for large pages.
func Size() int { return 0 }

// Alloc fails: see [Size].
func Alloc(int) ([]byte, error) { return nil, ErrNone }

// Free does nothing.
func Free([]byte) error { return nil }
