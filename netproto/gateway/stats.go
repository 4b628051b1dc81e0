package gateway

// Stats is what a gateway holds at one moment. All of it is counted without waiting for the upstream.
type Stats struct {
	Serving     int // sockets on which clients are let in; 0 before Serve, and when it is about to end
	Connections int // open
	Greeting    int // of these, those that have not said who they are
	Devices     int // connected, or with a rate that has not recovered
	Sessions    int // texts that are remembered
	Tokens      int // of their contexts, drafts included
	Asks        int // open: what waits for a place, and what the upstream works on
	Waiting     int // of these, those that wait for a place
	Places      int // at the upstream; 0: it takes any number of asks
}

// Stats returns the state of this moment.
func (g *Gateway) Stats() Stats {
	s := Stats{Serving: int(g.serving.Load()), Greeting: int(g.pending.Load())}
	g.room.mu.Lock()
	s.Connections = g.room.all
	g.room.mu.Unlock()
	g.clients.mu.Lock()
	s.Devices = len(g.clients.devices)
	g.clients.mu.Unlock()
	g.sessions.mu.Lock()
	s.Sessions, s.Tokens = len(g.sessions.byKey), g.sessions.tokens
	g.sessions.mu.Unlock()
	a := g.admission
	a.mu.Lock()
	s.Asks, s.Waiting = a.open, a.open-(a.places-a.free)
	a.mu.Unlock()
	s.Places = g.info.Parallel
	return s
}
