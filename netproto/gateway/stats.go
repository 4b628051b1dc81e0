package gateway

// Stats is the state of a gateway at one moment. Collecting it does not wait for the upstream.
type Stats struct {
	Serving     int // sockets that accept clients; 0 before Serve and during its end
	Connections int // open
	Sessions    int // stored texts
	Tokens      int // of their contexts, drafts included
	Asks        int // open: waiting for a place, or at the upstream
	Waiting     int // of these, those waiting for a place
}

// Stats returns the current state.
func (g *Gateway) Stats() Stats {
	s := Stats{Serving: int(g.serving.Load())}
	g.limiter.mu.Lock()
	s.Connections = g.limiter.all
	g.limiter.mu.Unlock()
	g.sessions.mu.Lock()
	s.Sessions, s.Tokens = len(g.sessions.byKey), g.sessions.tokens
	g.sessions.mu.Unlock()
	a := g.admission
	a.mu.Lock()
	s.Asks, s.Waiting = a.open, a.open-(a.places-a.free)
	a.mu.Unlock()
	return s
}
