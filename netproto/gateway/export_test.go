package gateway

// Conns is how many connections are counted.
func (g *Gateway) Conns() int {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	return g.room.all
}

// Known is how many devices and addresses something is kept of, beside their sessions.
func (g *Gateway) Known() (devices, places int) {
	g.clients.mu.Lock()
	defer g.clients.mu.Unlock()
	return len(g.clients.devices), len(g.clients.places)
}

// Guests is how many connections something is kept of, for when access tokens change.
func (g *Gateway) Guests() int {
	g.clients.mu.Lock()
	defer g.clients.mu.Unlock()
	return len(g.clients.guests)
}
