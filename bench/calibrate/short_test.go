package calibrate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestShort: thresholds are written with few digits, also those near 1.
func TestShort(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 0.123456: "0.123", 0.000123456: "0.000123", 0.5: "0.5", 0.87654: "0.877",
		0.99995797872543: "0.999958",
	} {
		assert.Equal(t, want, fmt.Sprint(short(x)))
		assert.InDelta(t, x, short(x), 0.005*min(x, 1-x)+1e-15)
	}
}
