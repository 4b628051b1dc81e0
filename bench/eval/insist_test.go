package eval

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// gone is a cloud that cannot open sessions.
type gone struct{}

func (gone) Session(context.Context) (engine.Cloud, func(), error) {
	return nil, nil, context.DeadlineExceeded
}

// TestInsist: failures of the cloud are retried after pauses that double; after the last one the error is returned.
func TestInsist(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &decoding{work: &work{Options: Options{Far: gone{}, Pause: time.Second}}}
		begin := time.Now()
		_, err := d.insist(t.Context(), Run{})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, (1+2+4)*time.Second, time.Since(begin))
	})
}
