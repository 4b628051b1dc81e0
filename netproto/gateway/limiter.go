package gateway

import (
	"net/netip"
	"sync"
	"time"
)

// connectionLimiter counts the connections, before and after their Hello, and selects a victim when there are too many:
//
//   - first a connection that never asked anything, the oldest of the address with the most connections;
//   - then an idle one, without an open ask, the one idle for longest, but only from an address with more
//     connections than the new one's, so that an address that fills the gateway displaces its own connections.
//
// The same order applies within an address, an access token and a device at its own limit. If there is no victim, the
// new connection is refused.
type connectionLimiter struct {
	limit, perAddress, perDevice int
	perToken                     int // if there are several access tokens

	mu        sync.Mutex
	all       int
	byAddress map[netip.Prefix]connectionSet
	byDevice  map[*device]connectionSet // of the connections after their Welcome
	byToken   map[*client]connectionSet // of these, those with an access token
}

// connectionSet is a set of connections.
type connectionSet map[*connection]struct{}

func newConnectionLimiter(o Options) *connectionLimiter {
	return &connectionLimiter{limit: o.MaxConns, perAddress: o.derived.MaxConnsPerAddress,
		perDevice: o.derived.MaxConnsPerDevice, perToken: max(1, o.MaxConns/2),
		byAddress: map[netip.Prefix]connectionSet{}, byDevice: map[*device]connectionSet{},
		byToken: map[*client]connectionSet{}}
}

// admitConnection counts a connection. If another one must be removed for it, that one is returned and the caller
// closes it.
func (r *connectionLimiter) admitConnection(c *connection) (victim *connection, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	here := r.byAddress[c.address]
	switch {
	case len(here) >= r.perAddress:
		if victim = leastUsed(here, isIdle); victim == nil {
			return nil, busyRefusal(time.Second, "the %d connections that one address may have are in use",
				r.perAddress)
		}
	case r.all >= r.limit:
		if victim = r.chooseVictim(len(here)); victim == nil {
			return nil, busyRefusal(time.Second, "all %d connections of the gateway are in use", r.limit)
		}
	}
	r.removeLocked(victim)
	addToSet(r.byAddress, c.address, c)
	r.all++
	return victim, nil
}

// assignDevice sets the device of an admitted connection. If another connection of the device, or of its access token,
// must be removed for it, the caller closes that one. several says whether there are several access tokens.
func (r *connectionLimiter) assignDevice(c *connection, d *device, several bool) (victim *connection, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.byDevice[d]) >= r.perDevice:
		if victim = leastUsed(r.byDevice[d], isIdle); victim == nil {
			return nil, busyRefusal(time.Second, "the %d connections that one device may have are in use", r.perDevice)
		}
	case several && len(r.byToken[d.client]) >= r.perToken:
		if victim = leastUsed(r.byToken[d.client], isIdle); victim == nil {
			return nil, busyRefusal(time.Second, "the %d connections that one access token may have are in use",
				r.perToken)
		}
	}
	r.removeLocked(victim)
	c.setDevice(d)
	if _, in := r.byAddress[c.address][c]; in { // else it was removed in the meantime
		addToSet(r.byDevice, d, c)
		if d.id.client != "" {
			addToSet(r.byToken, d.client, c)
		}
	}
	return victim, nil
}

func (r *connectionLimiter) removeConnection(c *connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(c)
}

func (r *connectionLimiter) removeLocked(c *connection) {
	if c == nil {
		return
	}
	if _, in := r.byAddress[c.address][c]; in {
		removeFromSet(r.byAddress, c.address, c)
		if d := c.currentUsage().device; d != nil {
			removeFromSet(r.byDevice, d, c)
			removeFromSet(r.byToken, d.client, c)
		}
		r.all--
	}
}

func addToSet[K comparable](all map[K]connectionSet, key K, c *connection) {
	if all[key] == nil {
		all[key] = connectionSet{}
	}
	all[key][c] = struct{}{}
}

func removeFromSet[K comparable](all map[K]connectionSet, key K, c *connection) {
	if delete(all[key], c); len(all[key]) == 0 {
		delete(all, key)
	}
}

// chooseVictim returns the connection to remove for a new one, if its address has newcomers connections already; nil if
// there is none.
func (r *connectionLimiter) chooseVictim(newcomers int) *connection {
	if c := r.victimByAddress(0, hasNeverAsked); c != nil {
		return c
	}
	return r.victimByAddress(newcomers+1, isIdle)
}

// victimByAddress returns the victim among the connections that satisfy so. It is from the address with the most
// connections, of those with more than the given number.
func (r *connectionLimiter) victimByAddress(most int, so func(usage) bool) (found *connection) {
	for _, here := range r.byAddress {
		if len(here) <= most { // this check first: a look at all connections takes time
			continue
		}
		if c := leastUsed(here, so); c != nil {
			found, most = c, len(here)
		}
	}
	return found
}

// usage describes how a connection is used.
type usage struct {
	device *device   // nil before the Hello
	since  time.Time // when the last ask began or ended; when the connection began, if there was no ask
	asked  bool      // there was an ask
	open   int       // asks and syncs under way
}

func isIdle(u usage) bool        { return u.open == 0 }
func hasNeverAsked(u usage) bool { return !u.asked }

// leastUsed returns the first victim among the connections that satisfy so: one that never asked before one that has,
// then the one unused for longest.
func leastUsed(all connectionSet, so func(usage) bool) (first *connection) {
	var its usage
	for c := range all {
		u := c.currentUsage()
		if so(u) && (first == nil || its.asked && !u.asked || its.asked == u.asked && u.since.Before(its.since)) {
			first, its = c, u
		}
	}
	return first
}
