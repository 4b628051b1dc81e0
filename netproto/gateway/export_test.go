package gateway

// Conns is how many connections are counted.
func (g *Gateway) Conns() int {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	return g.room.all
}
