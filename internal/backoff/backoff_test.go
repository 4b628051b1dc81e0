package backoff

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAfter(t *testing.T) {
	p := Pauses{First: time.Second, Longest: 30 * time.Second, Spread: 0.5}
	for failures, seconds := range []time.Duration{0, 1, 2, 4, 8, 16, 30, 30, 30} {
		middle := seconds * time.Second
		assert.Equal(t, middle, p.After(failures, 0.5), failures)
		assert.Equal(t, middle/2, p.After(failures, 0), failures)
		assert.Equal(t, middle*3/2, p.After(failures, 1), failures)
	}
	assert.Zero(t, p.After(-1, 1))
	assert.Equal(t, 45*time.Second, p.After(math.MaxInt, 1))
	p.Spread = 0
	assert.Equal(t, 4*time.Second, p.After(3, 0.9))
	p.First = time.Minute
	assert.Equal(t, 30*time.Second, p.After(1, 0))
}
