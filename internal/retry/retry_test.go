package retry

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestDelay: waits double from the first to the max, and no number of failures is too large.
func TestDelay(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		-2: 0, 0: 0, 1: 50, 2: 100, 3: 200, 4: 400, 5: 500, 6: 500, 1000: 500,
	} {
		assert.Equal(t, want, Delay(failures, 50, 500), "%d failures", failures)
	}
	assert.EqualValues(t, 500, Delay(1, 700, 500))
	assert.EqualValues(t, math.MaxInt64, Delay(1000, 1, math.MaxInt64))
}

// TestSpread: jitter changes a wait by its share in either direction; without jitter it does not change.
func TestSpread(t *testing.T) {
	assert.EqualValues(t, 75, Spread(100, 0.25, 0))
	assert.EqualValues(t, 100, Spread(100, 0.25, 0.5))
	assert.InDelta(t, 125, Spread(100, 0.25, 0.999), 1)
	assert.EqualValues(t, 100, Spread(100, 0, 0.9))
}
