package router

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAsks: a router that never escalates is known in advance.
func TestAsks(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want bool
	}{
		{Options{}, false}, {Options{Policy: Never}, false},
		{Options{Policy: Always}, true}, {Options{Policy: Margin}, true},
		{Options{Policy: Margin, Threshold: new(0.0)}, false}, {Options{Policy: Entropy, Threshold: new(0.1)}, true},
		{Options{Policy: Margin, Budget: 0.1}, true}, {Options{Policy: Random, Budget: 1e-9}, true},
	} {
		r, err := New(c.o)
		require.NoError(t, err)
		assert.Equal(t, c.want, r.Asks(), "%+v", c.o)
	}
}
