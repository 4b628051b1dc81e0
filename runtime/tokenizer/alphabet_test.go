package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAlphabet: each byte has its own character, and no other character stands for a byte.
func TestAlphabet(t *testing.T) {
	bytes := map[rune]byte{}
	for b := range 256 {
		bytes[letterOf(byte(b))] = byte(b)
	}
	assert.Len(t, bytes, 256)
	for r := rune(-1); r < 0x300; r++ {
		want, is := bytes[r]
		b, ok := byteOf(r)
		assert.Equal(t, is, ok, "%#x", r)
		assert.True(t, !is || b == want, "%#x", r)
	}
}
