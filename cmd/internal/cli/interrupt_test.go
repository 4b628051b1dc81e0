package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestInterrupts: Ctrl-C calls the current handler. A signal without one ends the command; a key without one is for the
// next handler, or for whoever asks for it, once.
func TestInterrupts(t *testing.T) {
	i, calls := new(Interrupts), 0
	ctx := context.WithValue(t.Context(), interruptsKey{}, i)
	assert.Same(t, i, InterruptsOf(ctx))
	assert.NotSame(t, InterruptsOf(t.Context()), InterruptsOf(t.Context()))
	take := func() (release func()) { return TakeInterrupts(ctx, func() { calls++ }) }

	assert.False(t, i.callHandler())
	assert.False(t, i.Left(), "a signal is not kept")
	release := take()
	assert.True(t, i.callHandler())
	i.Key()
	assert.Equal(t, 2, calls)
	assert.False(t, i.Left(), "it was handled")
	release()
	assert.False(t, i.callHandler())
	i.Key()
	i.Key()
	assert.Equal(t, 2, calls)
	release = take()
	assert.Equal(t, 3, calls, "at once, and once")
	assert.False(t, i.Left())
	release()
	i.Key()
	assert.True(t, i.Left())
	assert.False(t, i.Left())
	take()()
	assert.Equal(t, 3, calls)
}
