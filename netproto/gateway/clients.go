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

// shareWeight returns the weight of its share of the capacity; 0 means 1.
func (c *client) shareWeight() uint64 {
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

	mu        sync.Mutex
	tokens    []Token
	digests   []digest                    // of the secrets, so that all compared values have equal length
	owners    map[string]*client          // of access tokens, by name
	guests    map[*connection]credentials // that were admitted
	byAddress map[netip.Prefix]*client    // on an open gateway
	devices   map[deviceID]*device        // connected, or with a bucket that is not full again
}

func newClients(o Options) *clients {
	c := &clients{deviceRate: o.DeviceRate, seed: maphash.MakeSeed(),
		guests: map[*connection]credentials{}, byAddress: map[netip.Prefix]*client{}, devices: map[deviceID]*device{}}
	c.replaceTokens(o.Tokens)
	return c
}

// authenticateSecret returns the access token of a secret, nil on an open gateway. It compares with every secret, in
// constant time. The caller holds the lock.
func (c *clients) authenticateSecret(secret netproto.Secret) (*Token, error) {
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

// registerConnection registers a connection of a device, unless its access token has reached its limit of devices. A
// Hello without a device gets a new one.
func (c *clients) registerConnection(h netproto.Hello, from netip.Prefix, by *connection) (*device, error) {
	if h.Device == (netproto.Device{}) {
		_, _ = rand.Read(h.Device[:]) // always returns nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	token, err := c.authenticateSecret(h.Secret)
	if err != nil {
		return nil, err
	}
	owner := c.clientFor(token, from)
	id := deviceID{owner.name, h.Device}
	d := c.devices[id]
	if d != nil && token != nil && d.client != owner { // of a token that was revoked and issued again
		d = nil
	}
	if (d == nil || d.conns == 0) && token != nil && token.MaxDevices > 0 && owner.devices >= token.MaxDevices {
		return nil, busyRefusal(time.Second, "all %d devices that this access token allows are connected",
			token.MaxDevices)
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
	c.guests[by] = credentialsOf(token)
	return d, nil
}

func (c *clients) hasSeveralTokens() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tokens) > 1
}

func (c *clients) clientFor(token *Token, from netip.Prefix) *client {
	if token != nil {
		return c.owners[token.Name]
	}
	who := c.byAddress[from]
	if who == nil {
		who = &client{number: clientNumber("address " + from.String()), bucket: newBucket(c.deviceRate, 0)}
		c.byAddress[from] = who
	}
	return who
}

func clientNumber(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.LittleEndian.Uint64(sum[:])
}

func (c *clients) unregisterConnection(d *device, by *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.guests, by)
	if d.conns--; d.conns == 0 {
		d.client.devices--
		if d.hasFullBuckets() && c.devices[d.id] == d {
			delete(c.devices, d.id)
		}
	}
}

func (d *device) currentDomain() uint64 {
	switch t := d.client.token.Load(); {
	case t == nil || t.Share: // open gateways and sharing tokens have one domain
		return 0
	case t.Private:
		return d.number
	}
	return d.client.number
}

func (d *device) hasFullBuckets() bool { return isFull(d.bucket) && isFull(d.syncs) }

// removeDisconnected removes devices and addresses that are disconnected, once their rate limits have recovered: if it
// removed them earlier, they could reconnect and get a full bucket.
func (c *clients) removeDisconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, d := range c.devices {
		if d.conns == 0 && d.hasFullBuckets() {
			delete(c.devices, id)
		}
	}
	for from, who := range c.byAddress {
		if who.devices == 0 && isFull(who.bucket) {
			delete(c.byAddress, from)
		}
	}
}

func (d *device) takeMessagePermit() (wait time.Duration) {
	if wait = takePermit(d.bucket); wait > 0 {
		return wait
	}
	return takePermit(d.client.bucket)
}

func (d deviceID) eventNames() (client, device string) {
	return strings.ToValidUTF8(d.client, "?"), d.device.Name()
}

// addressPrefix returns the unit that counts as one address: an IPv4 address, or the /64 of an IPv6 address, since one
// host can use all addresses of a /64.
func addressPrefix(a net.Addr) netip.Prefix {
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
