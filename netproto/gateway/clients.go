package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash/maphash"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// client is the unit of rate limits: the owner of an access token, or an address if no token is needed.
type client struct {
	name    string                // of the access token; "" on an open gateway
	number  uint64                // as Question.Client: the same after a restart and in every replica
	token   atomic.Pointer[Token] // nil on an open gateway; another one after SetTokens
	bucket  *rate.Limiter         // an open gateway limits addresses, since anyone can invent devices
	devices int                   // connected; guarded by clients.mu
	busy    int                   // devices with open asks; guarded by admission.mu
}

// weight returns the weight of its share of the capacity; 0 means 1.
func (c *client) weight() uint64 {
	if t := c.token.Load(); t != nil {
		return uint64(t.Weight)
	}
	return 0
}

// device is one device of a client. Sessions, places at the upstream and open asks are counted per device.
type device struct {
	client *client
	id     deviceID
	number uint64 // as Question.Device: the same after a reconnect
	bucket *rate.Limiter
	syncs  *rate.Limiter // text that is streamed early is refused first
	conns  int           // guarded by clients.mu
	open   int           // asks; guarded by admission.mu
	taken  int           // places at the upstream; guarded by admission.mu

	warming, decoding atomic.Int32 // background work; each is limited, and the rest is dropped
}

// How often a device may stream text early. A text needs less than one sync per second, plus one when it begins.
const (
	syncRate  = 16 // a second
	syncBurst = 64
)

// deviceID identifies a device. Two clients that use the same netproto.Device have separate devices.
type deviceID struct {
	client string // name of the access token
	device netproto.Device
}

// clients keeps the access tokens and the connected clients.
type clients struct {
	deviceRate float64
	seed       maphash.Seed

	mu      sync.Mutex
	tokens  []Token
	digests []digest                 // of the secrets, so that all compared values have equal length
	owners  map[string]*client       // of access tokens, by name
	guests  map[*connection]pass     // that were admitted
	places  map[netip.Prefix]*client // of addresses, on an open gateway
	devices map[deviceID]*device     // connected, or with a bucket that is not full again
}

func newClients(o Options) *clients {
	c := &clients{deviceRate: o.DeviceRate, seed: maphash.MakeSeed(),
		guests: map[*connection]pass{}, places: map[netip.Prefix]*client{}, devices: map[deviceID]*device{}}
	c.set(o.Tokens)
	return c
}

// authenticate returns the access token of a secret, nil on an open gateway. It compares with every secret, in constant
// time. The caller holds the lock.
func (c *clients) authenticate(secret netproto.Secret) (*Token, error) {
	if len(c.tokens) == 0 {
		return nil, nil
	}
	shown, found := sha256.Sum256([]byte(secret)), -1
	for i := range c.digests {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(shown[:], c.digests[i][:]), i, found)
	}
	if found < 0 {
		return nil, netproto.Refusal{Code: netproto.WrongSecret}
	}
	return &c.tokens[found], nil
}

// enter registers a connection of a device, unless its access token has reached its limit of devices. A Hello without a
// device gets a new one.
func (c *clients) enter(h netproto.Hello, from netip.Prefix, by *connection) (*device, error) {
	if h.Device == (netproto.Device{}) {
		_, _ = rand.Read(h.Device[:]) // always returns nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	token, err := c.authenticate(h.Secret)
	if err != nil {
		return nil, err
	}
	owner := c.owner(token, from)
	id := deviceID{owner.name, h.Device}
	d := c.devices[id]
	if d != nil && token != nil && d.client != owner { // of a token that was revoked and issued again
		d = nil
	}
	if (d == nil || d.conns == 0) && token != nil && token.MaxDevices > 0 && owner.devices >= token.MaxDevices {
		return nil, busy(time.Second, "all %d devices that this access token allows are connected", token.MaxDevices)
	}
	if d == nil {
		d = &device{
			client: owner, id: id, number: maphash.Comparable(c.seed, id),
			bucket: newBucket(c.deviceRate, 0), syncs: newBucket(syncRate, syncBurst),
		}
		c.devices[id] = d
	}
	if d.conns++; d.conns == 1 {
		d.client = owner // on an open gateway, of the address that it now has
		owner.devices++
	}
	c.guests[by] = passOf(token)
	return d, nil
}

// several reports whether there are several access tokens.
func (c *clients) several() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tokens) > 1
}

// owner returns the client of an access token, or of an address if there is no token.
func (c *clients) owner(token *Token, from netip.Prefix) *client {
	if token != nil {
		return c.owners[token.Name]
	}
	who := c.places[from]
	if who == nil {
		who = &client{number: numberOf("address " + from.String()), bucket: newBucket(c.deviceRate, 0)}
		c.places[from] = who
	}
	return who
}

// numberOf returns the number of a client with a name.
func numberOf(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.LittleEndian.Uint64(sum[:])
}

func (c *clients) leave(d *device, by *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.guests, by)
	if d.conns--; d.conns == 0 {
		d.client.devices--
		if d.rested() && c.devices[d.id] == d {
			delete(c.devices, d.id)
		}
	}
}

// domain returns the domain of the device's sessions, as in Question.Domain.
func (d *device) domain() uint64 {
	switch t := d.client.token.Load(); {
	case t == nil || t.Share: // open gateways and sharing tokens have one domain
		return 0
	case t.Private:
		return d.number
	}
	return d.client.number
}

// rested reports whether the rate limits of the device have recovered.
func (d *device) rested() bool { return isFull(d.bucket) && isFull(d.syncs) }

// tidy removes devices and addresses that are disconnected, once their rate limits have recovered: if it removed them
// earlier, they could reconnect and get a full bucket.
func (c *clients) tidy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, d := range c.devices {
		if d.conns == 0 && d.rested() {
			delete(c.devices, id)
		}
	}
	for from, who := range c.places {
		if who.devices == 0 && isFull(who.bucket) {
			delete(c.places, from)
		}
	}
}

// take takes a permit for one message of the device, or returns how long it will be until there is one.
func (d *device) take() (wait time.Duration) {
	if wait = take(d.bucket); wait > 0 {
		return wait
	}
	return take(d.client.bucket)
}

// names returns the names for events: that of the access token and that of the device.
func (d deviceID) names() (client, device string) {
	return strings.ToValidUTF8(d.client, "?"), d.device.Name()
}

// prefixOf returns the unit that counts as one address: an IPv4 address, or the /64 of an IPv6 address, since one host
// can use all addresses of a /64.
func prefixOf(a net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits) // fails only for an invalid number of bits
	return prefix
}
