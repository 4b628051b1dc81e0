package gateway

import (
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// connections are the connections of one call of Serve.
type connections struct {
	mu      sync.Mutex
	all     map[*connection]struct{}
	serving sync.WaitGroup
}

func (o *connections) startServing(c *connection) {
	o.mu.Lock()
	o.all[c] = struct{}{}
	o.mu.Unlock()
	o.serving.Go(func() {
		c.serveConnection()
		o.mu.Lock()
		delete(o.all, c)
		o.mu.Unlock()
	})
}

func (o *connections) forEachConnection(do func(*connection)) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.all {
		do(c)
	}
	return len(o.all)
}

// drainAll announces the end to all clients, and closes the connections that are open after a while. Clients close a
// connection after the last answer. It returns how many connections had to be closed.
func (o *connections) drainAll(patience time.Duration) (closed int) {
	o.forEachConnection(func(c *connection) { o.serving.Go(c.drainAndClose) })
	done := make(chan struct{})
	go func() {
		o.serving.Wait()
		close(done)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		closed = o.forEachConnection(func(c *connection) {
			// it ends in any case
			o.serving.Go(func() { _ = c.qc.CloseWithError(quic.ApplicationErrorCode(netproto.Draining), "") })
		})
		<-done
	}
	return closed
}
