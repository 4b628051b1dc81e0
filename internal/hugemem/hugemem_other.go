//go:build !linux

package hugemem

// Size is the size of a huge page in bytes, 0 where there are none. macOS has none on Apple Silicon, and Windows gives
// large pages to none but accounts with a right of their own.
func Size() int { return 0 }

// Alloc fails: see [Size].
func Alloc(int) ([]byte, error) { return nil, ErrNone }

// Free has nothing to give back.
func Free([]byte) error { return nil }
