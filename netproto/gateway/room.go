package gateway

import (
	"net/netip"
	"sync"
	"time"
)

// room counts the connections, before and after their Hello, and selects a victim when there are too many:
//
//   - first a connection that never asked anything, the oldest of the address with the most connections;
//   - then an idle one, without an open ask, the one idle for longest, but only from an address with more
//     connections than the new one's, so that an address that fills the gateway displaces its own connections.
//
// The same order applies within an address, an access token and a device at its own limit. If there is no victim, the
// new connection is refused.
type room struct {
	limit, perAddress, perDevice int
	perToken                     int // if there are several access tokens

	mu        sync.Mutex
	all       int
	byAddress map[netip.Prefix]set
	byDevice  map[*device]set // of the connections after their Welcome
	byToken   map[*client]set // of these, those with an access token
}

// set is a set of connections.
type set map[*connection]struct{}

func newRoom(o Options) *room {
	return &room{limit: o.MaxConns, perAddress: o.shares.MaxConnsPerAddress, perDevice: o.shares.MaxConnsPerDevice,
		perToken: max(1, o.MaxConns/2), byAddress: map[netip.Prefix]set{}, byDevice: map[*device]set{},
		byToken: map[*client]set{}}
}

// enter adds a connection. If another one must be removed for it, that one is returned and the caller closes it.
func (r *room) enter(c *connection) (victim *connection, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	here := r.byAddress[c.address]
	switch {
	case len(here) >= r.perAddress:
		if victim = least(here, idle); victim == nil {
			return nil, busy(time.Second, "the %d connections that one address may have are in use", r.perAddress)
		}
	case r.all >= r.limit:
		if victim = r.victim(len(here)); victim == nil {
			return nil, busy(time.Second, "all %d connections of the gateway are in use", r.limit)
		}
	}
	r.remove(victim)
	add(r.byAddress, c.address, c)
	r.all++
	return victim, nil
}

// welcome assigns a connection in the room to a device. If another connection of the device, or of its access token,
// must be removed for it, the caller closes that one. several says whether there are several access tokens.
func (r *room) welcome(c *connection, d *device, several bool) (victim *connection, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.byDevice[d]) >= r.perDevice:
		if victim = least(r.byDevice[d], idle); victim == nil {
			return nil, busy(time.Second, "the %d connections that one device may have are in use", r.perDevice)
		}
	case several && len(r.byToken[d.client]) >= r.perToken:
		if victim = least(r.byToken[d.client], idle); victim == nil {
			return nil, busy(time.Second, "the %d connections that one access token may have are in use", r.perToken)
		}
	}
	r.remove(victim)
	c.belong(d)
	if _, in := r.byAddress[c.address][c]; in { // else it was removed in the meantime
		add(r.byDevice, d, c)
		if d.id.client != "" {
			add(r.byToken, d.client, c)
		}
	}
	return victim, nil
}

// leave removes a connection, if it is still in the room.
func (r *room) leave(c *connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(c)
}

func (r *room) remove(c *connection) {
	if c == nil {
		return
	}
	if _, in := r.byAddress[c.address][c]; in {
		drop(r.byAddress, c.address, c)
		if d := c.use().device; d != nil {
			drop(r.byDevice, d, c)
			drop(r.byToken, d.client, c)
		}
		r.all--
	}
}

func add[K comparable](all map[K]set, key K, c *connection) {
	if all[key] == nil {
		all[key] = set{}
	}
	all[key][c] = struct{}{}
}

func drop[K comparable](all map[K]set, key K, c *connection) {
	if delete(all[key], c); len(all[key]) == 0 {
		delete(all, key)
	}
}

// victim returns the connection to remove for a new one, if its address has newcomers connections already; nil if there
// is none.
func (r *room) victim(newcomers int) *connection {
	if c := r.ofMost(0, silent); c != nil {
		return c
	}
	return r.ofMost(newcomers+1, idle)
}

// ofMost returns the victim among the connections that satisfy so. It is from the address with the most connections, of
// those with more than the given number.
func (r *room) ofMost(most int, so func(use) bool) (found *connection) {
	for _, here := range r.byAddress {
		if len(here) <= most { // this check first: a look at all connections takes time
			continue
		}
		if c := least(here, so); c != nil {
			found, most = c, len(here)
		}
	}
	return found
}

// use describes how a connection is used.
type use struct {
	device *device   // nil before the Hello
	since  time.Time // when the last ask began or ended; when the connection began, if there was no ask
	asked  bool      // there was an ask
	open   int       // asks and syncs under way
}

func idle(u use) bool   { return u.open == 0 }
func silent(u use) bool { return !u.asked }

// least returns the first victim among the connections that satisfy so: one that never asked before one that has, then
// the one unused for longest.
func least(all set, so func(use) bool) (first *connection) {
	var its use
	for c := range all {
		u := c.use()
		if so(u) && (first == nil || its.asked && !u.asked || its.asked == u.asked && u.since.Before(its.since)) {
			first, its = c, u
		}
	}
	return first
}
