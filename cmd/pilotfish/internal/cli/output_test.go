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

// TestFigures: figures for people, and nothing for those that are missing.
func TestFigures(t *testing.T) {
	for x, want := range map[float64][2]string{0: {"0.0", "0.0%"}, 0.125: {"0.1", "12.5%"}, 0.99951: {"1.0", "100.0%"},
		999.94: {"999.9", "99994.0%"}, 1000: {"1000", "100000.0%"}, 1234.5678: {"1235", "123456.8%"}} {
		assert.Equal(t, want, [2]string{Number(&x), Percent(&x)})
	}
	assert.Empty(t, Number(nil)+Percent(nil))
	assert.Equal(t, 1500.25, Ms(1500*time.Millisecond+250*time.Microsecond))
	assert.Equal(t, []float64{4, 0, 0, 0}, []float64{PerSecond(2, time.Second/2), PerSecond(0, time.Second),
		PerSecond(-1, time.Second), PerSecond(2, 0)})
}
