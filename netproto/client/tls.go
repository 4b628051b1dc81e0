package client

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"sync"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// A PinError says that the gateway shows another certificate than the one that is pinned: it is another machine, or its
// certificate was made anew, or someone stands in between.
type PinError struct {
	Want, Have netproto.Digest // fingerprints
}

// Error shows both fingerprints.
func (e *PinError) Error() string {
	return fmt.Sprintf("the gateway's certificate has the fingerprint %s, pinned is %s", e.Have, e.Want)
}

// tlsConfig trusts the pinned certificate and no other, or what the system's roots vouch for.
func (o Options) tlsConfig(host string, t tls.ClientSessionCache) *tls.Config {
	c := &tls.Config{
		ServerName: host, NextProtos: []string{netproto.ALPN}, MinVersion: tls.VersionTLS13,
		ClientSessionCache: t,
	}
	if o.ServerName != "" {
		c.ServerName = o.ServerName
	}
	if pin := o.Pin; pin != (netproto.Digest{}) {
		c.InsecureSkipVerify = true // names and roots are replaced by the pin, also where a session is resumed
		c.VerifyConnection = func(s tls.ConnectionState) error { return verifyPin(pin, s) }
	}
	return c
}

func verifyPin(pin netproto.Digest, s tls.ConnectionState) error {
	have := netproto.Digest{}
	if len(s.PeerCertificates) > 0 {
		have = sha256.Sum256(s.PeerCertificates[0].Raw)
	}
	if subtle.ConstantTimeCompare(pin[:], have[:]) != 1 {
		return &PinError{Want: pin, Have: have}
	}
	return nil
}

// tickets keeps tickets of differently pinned gateways apart, so that 0-RTT data goes only to one that was verified. TLS
// throws a ticket away when a handshake with it fails. That is mostly a network that is gone for a while, after which
// the ticket is worth most, so that it survives some failures.
type tickets struct {
	cache tls.ClientSessionCache
	pin   netproto.Digest

	mu     sync.Mutex
	failed int // handshakes since the last new ticket
}

func (t *tickets) key(server string) string { return t.pin.String() + " " + server }

// Get returns the ticket for a server.
func (t *tickets) Get(server string) (*tls.ClientSessionState, bool) {
	return t.cache.Get(t.key(server))
}

// Put stores a ticket, or deletes it when s is nil.
func (t *tickets) Put(server string, s *tls.ClientSessionState) {
	const survives = 16
	t.mu.Lock()
	defer t.mu.Unlock()
	if s != nil {
		t.failed = 0
	} else if t.failed++; t.failed <= survives {
		return
	}
	t.cache.Put(t.key(server), s)
}
