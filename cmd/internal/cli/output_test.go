package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestHarmless: output of a model is printed as text on a terminal, not as control sequences.
func TestHarmless(t *testing.T) {
	assert.Equal(t, "a\tb\n␛[2J␇␡é日\uFFFDx", Harmless("a\tb\n\x1b[2J\a\x7fé日\u009bx"))
	assert.Equal(t, "␀␍\uFFFD", Harmless("\x00\r\x9b"))
}

// TestFigures: durations in milliseconds, and rates.
func TestFigures(t *testing.T) {
	assert.Equal(t, 1500.25, Ms(1500*time.Millisecond+250*time.Microsecond))
	assert.Equal(t, []float64{4, 0, 0, 0}, []float64{PerSecond(2, time.Second/2), PerSecond(0, time.Second),
		PerSecond(-1, time.Second), PerSecond(2, 0)})
}
