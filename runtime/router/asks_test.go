package router

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAsks: a router that never escalates is known in advance.
func TestAsks(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want bool
	}{
		"no policy": {Options{}, false}, "never": {Options{Policy: Never}, false},
		"always": {Options{Policy: Always}, true}, "margin": {Options{Policy: Margin}, true},
		"a threshold of 0": {Options{Policy: Margin, Threshold: new(0.0)}, false},
		"a threshold":      {Options{Policy: Entropy, Threshold: new(0.1)}, true},
		"a budget":         {Options{Policy: Margin, Budget: 0.1}, true},
		"a tiny budget":    {Options{Policy: Random, Budget: 1e-9}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New(c.o)
			require.NoError(t, err)
			assert.Equal(t, c.want, r.Asks())
		})
	}
}
