package cli

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestInterrupts: Ctrl-C calls the handler, if one is set; a key that came before is kept for the next handler, and a
// signal is not.
func TestInterrupts(t *testing.T) {
	own := new(Interrupts)
	ctx, n := context.WithValue(t.Context(), interruptsKey{}, own), 0
	assert.Same(t, own, InterruptsOf(ctx))
	assert.NotNil(t, InterruptsOf(t.Context()))
	assert.False(t, own.taken(), "there is no handler")
	release := TakeInterrupts(ctx, func() { n++ })
	assert.Zero(t, n)
	assert.True(t, own.taken())
	own.Key()
	assert.Equal(t, 2, n)
	assert.False(t, own.Left())
	release()
	assert.False(t, own.taken())
	own.Key()
	assert.True(t, own.Left())
	assert.False(t, own.Left(), "only once")
	own.Key()
	for range 2 {
		release = TakeInterrupts(ctx, func() { n++ })
		assert.Equal(t, 3, n, "the key counts once")
		release()
	}
	assert.False(t, own.Left())
	assert.Equal(t, 130, (&Interruption{Signal: os.Interrupt}).code())
}
