package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAlphabet: each byte has its own character, and no other character stands for a byte.
func TestAlphabet(t *testing.T) {
	stands := 0
	for r := rune(-1); r < 0x300; r++ {
		if b, ok := runeToByte(r); ok {
			assert.Equal(t, r, byteToRune(b))
			stands++
		}
	}
	assert.Equal(t, 256, stands)
}
