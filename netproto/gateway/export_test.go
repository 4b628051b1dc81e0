package gateway

import "github.com/pilotfish-ai/pilotfish/internal/held"

// Count counts what waits for the end of the only session.
func (g *Gateway) Count() *held.Context {
	g.sessions.mu.Lock()
	defer g.sessions.mu.Unlock()
	x := g.sessions.used.Front().Value.(*session)
	counted := &held.Context{Context: x.ctx}
	x.ctx = counted
	return counted
}

// Conns returns the number of counted connections.
func (g *Gateway) Conns() int {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	return g.room.all
}

// Known returns the number of devices and addresses that are remembered, not counting their sessions.
func (g *Gateway) Known() (devices, places int) {
	g.clients.mu.Lock()
	defer g.clients.mu.Unlock()
	return len(g.clients.devices), len(g.clients.places)
}

// Guests returns the number of connections that are tracked for changes of access tokens.
func (g *Gateway) Guests() int {
	g.clients.mu.Lock()
	defer g.clients.mu.Unlock()
	return len(g.clients.guests)
}
