package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestHarmless: output of a model is printed as text on a terminal, not as control sequences.
func TestHarmless(t *testing.T) {
	assert.Equal(t, "a\tb\n␛[2J␇␡é日\uFFFDx", strings.Map(harmless, "a\tb\n\x1b[2J\a\x7fé日\u009bx"))
	assert.Equal(t, "␀␍", strings.Map(harmless, "\x00\r"))
}
