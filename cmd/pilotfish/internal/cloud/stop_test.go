package cloud

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// slowLog is the handler of a log that is written only after written is closed.
type slowLog struct {
	slog.Handler
	begun, written chan struct{}
}

// Handle implements [slog.Handler].
func (l slowLog) Handle(context.Context, slog.Record) error {
	close(l.begun)
	<-l.written
	return nil
}

// TestStopsWait: whoever stops background work waits until what it is doing has ended: it uses the model, the gateway
// and the log, which are closed next.
func TestStopsWait(t *testing.T) {
	t.Setenv(cloudVariable+"CONFIG", "/nowhere/cloud.yaml")
	for name, start := range map[string]func(*slog.Logger) (stop func()){
		"reload": func(log *slog.Logger) func() {
			hangups := make(chan os.Signal, 1)
			hangups <- os.Interrupt
			return (&reloader{f: new(cloudCommandFlags), log: log}).watch(hangups)
		},
		"recomputed": func(log *slog.Logger) func() {
			s := engine.ServiceStats{}
			return watchRecomputing(func() engine.ServiceStats { s.Recomputed++; return s }, log)
		},
	} {
		bubble.Test(t, func(t *testing.T) {
			l := slowLog{slog.NewTextHandler(os.Stderr, nil), make(chan struct{}), make(chan struct{})}
			stop := start(slog.New(l))
			<-l.begun // after half a minute, by the clock of the bubble
			stopped := make(chan struct{}, 1)
			go func() {
				stop()
				stopped <- struct{}{}
			}()
			synctest.Wait()
			assert.Empty(t, stopped, name)
			close(l.written)
			<-stopped
		})
	}
}
