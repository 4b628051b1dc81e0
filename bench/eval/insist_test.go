package eval

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// gone is a cloud that cannot open sessions.
type gone struct{}

func (gone) Session(context.Context) (engine.Cloud, func(), error) {
	return nil, nil, context.DeadlineExceeded
}

// TestInsist: failures of the cloud are retried after pauses that double, from a second unless another pause is given;
// after the last one the error is returned.
func TestInsist(t *testing.T) {
	for pause, want := range map[time.Duration]time.Duration{0: (1 + 2 + 4) * time.Second,
		time.Minute: 7 * time.Minute} {
		bubble.Test(t, func(t *testing.T) {
			o := demoOptions(t, 1, Run{Policy: router.Never})
			o.Far, o.Pause = gone{}, pause
			begin := time.Now()
			assert.ErrorIs(t, o.Run(t.Context()), context.DeadlineExceeded)
			assert.Equal(t, want, time.Since(begin))
		})
	}
}
