package cloud

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestStopsWait: whoever stops background work waits until what it is doing has ended: it uses the model, the gateway
// and the log, which are closed next.
func TestStopsWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun, ended, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
		stop := runInBackground(time.Hour, func(time.Time) {
			close(begun)
			<-ended
		}, nil, nil)
		<-begun // after an hour, by the clock of the bubble
		go func() {
			stop()
			stopped <- struct{}{}
		}()
		synctest.Wait()
		assert.Empty(t, stopped)
		close(ended)
		<-stopped
	})
}
