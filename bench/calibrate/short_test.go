package calibrate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestShort: a threshold has only as many digits as separate it from the neighboring confidences.
func TestShort(t *testing.T) {
	for name, c := range map[string]struct {
		low, high float64
		want      string
	}{
		"far apart": {0, 0.123456, "0.1"}, "near": {0.11, 0.123456, "0.12"},
		"nearest": {0.123455, 0.123456, "0.123456"}, "at 1": {0.9, 1, "1"}, "both 0": {0, 0, "0"},
		"near 1":                 {0.99, 0.99995797872543, "0.999"},
		"near 1, and each other": {0.99995, 0.99995797872543, "0.999957"},
	} {
		assert.Equal(t, c.want, fmt.Sprint(shortestDecimal(c.low, c.high)), name)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		low, high := r.Float64(), r.Float64()
		if r.IntN(2) == 0 { // near 1, and near each other
			low, high = 1-low*1e-5, 1-high*1e-5
		}
		low, high = min(low, high), max(low, high)
		x := shortestDecimal(low, high)
		require.Greater(t, x, low)
		require.LessOrEqual(t, x, high)
	}
}
