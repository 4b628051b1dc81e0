package gateway

import "github.com/pilotfish-ai/pilotfish/internal/held"

// Shares has the limits that are no options.
type Shares = derivedLimits

// With returns options with these limits in place of those that follow from them.
func (o Options) With(d Shares) Options {
	o.derived = d
	return o
}

// Conns returns the number of counted connections.
func (g *Gateway) Conns() int {
	g.limiter.mu.Lock()
	defer g.limiter.mu.Unlock()
	return g.limiter.all
}

// Known returns the number of devices and addresses that are remembered, not counting their sessions.
func (g *Gateway) Known() (devices, places int) {
	g.clients.mu.Lock()
	defer g.clients.mu.Unlock()
	return len(g.clients.devices), len(g.clients.byAddress)
}

// Guests returns the number of connections that are tracked for changes of access tokens.
func (g *Gateway) Guests() int {
	g.clients.mu.Lock()
	defer g.clients.mu.Unlock()
	return len(g.clients.guests)
}

// Hold returns what waits for the end of the only connection, and for that of the only session, from now on.
func (g *Gateway) Hold() (connection, session *held.Context) {
	for c := range g.clients.guests {
		connection = &held.Context{Context: c.activeCtx}
		c.activeCtx = connection
	}
	for _, s := range g.sessions.byKey {
		session = &held.Context{Context: s.ctx}
		s.ctx = session
	}
	return connection, session
}
