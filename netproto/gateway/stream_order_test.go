package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestOrder: a stream waits for all earlier ones and for no later one, and only until its context ends. In virtual
// time.
func TestOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := newStreamOrder()
		for _, id := range []quic.StreamID{4, 8, 12, 16} {
			o.addStream(id)
		}
		waits := func(id quic.StreamID, patience time.Duration) time.Duration {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			start := time.Now()
			o.waitForEarlier(ctx, id)
			return time.Since(start)
		}
		assert.Zero(t, waits(4, time.Hour))
		assert.Equal(t, 5*time.Second, waits(8, 5*time.Second))
		go func() {
			for i, id := range []quic.StreamID{12, 4, 8} {
				time.Sleep(time.Duration(i+1) * time.Second)
				o.markPathKnown(id)
				o.markPathKnown(id)
			}
		}()
		assert.Equal(t, 3*time.Second, waits(8, time.Hour))
		assert.Equal(t, 3*time.Second, waits(16, time.Hour))
		assert.Empty(t, waits(16, time.Hour))
	})
}
