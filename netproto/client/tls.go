package client

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
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

// tlsConfig trusts the pinned certificate and no other, or without a pin those that an authority signed which this
// system trusts.
func (o Options) tlsConfig(host string, t tls.ClientSessionCache) *tls.Config {
	c := &tls.Config{
		ServerName: host, NextProtos: []string{netproto.ALPN}, MinVersion: tls.VersionTLS13,
		ClientSessionCache: t,
	}
	if o.ServerName != "" {
		c.ServerName = o.ServerName
	}
	if pin := o.Pin; pin != (netproto.Digest{}) {
		// The pin is checked instead of names and authorities, also where a session is resumed.
		c.InsecureSkipVerify = true
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

// tickets are those for one gateway under one pin, so that 0-RTT data goes only to one that was verified. A ticket is
// for one connection (RFC 8446, C.4): taking it removes it from the cache. Where the connection does not come about,
// mostly because the network is gone for a while, the ticket is worth most; it then serves for some more attempts.
type tickets struct {
	cache tls.ClientSessionCache
	addr  string // host:port
	pin   netproto.Digest

	mu     sync.Mutex
	taken  *tls.ClientSessionState // by the attempt under way
	again  *tls.ClientSessionState // of an attempt that failed
	failed int                     // attempts since the last new ticket
}

func (t *tickets) key(server string) string {
	return strings.Join([]string{t.pin.String(), server, t.addr}, " ")
}

// Get takes the ticket for a server.
func (t *tickets) Get(server string) (*tls.ClientSessionState, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.cache.Get(t.key(server))
	if ok {
		t.cache.Put(t.key(server), nil)
	} else {
		s = t.again
	}
	t.taken, t.again = s, nil
	return s, s != nil
}

// Put stores a ticket. Without one it says that the attempt failed which took the last one.
func (t *tickets) Put(server string, s *tls.ClientSessionState) {
	const attempts = 16
	t.mu.Lock()
	defer t.mu.Unlock()
	if s != nil {
		t.cache.Put(t.key(server), s)
		t.taken, t.again, t.failed = nil, nil, 0
	} else if t.failed++; t.failed <= attempts {
		t.taken, t.again = nil, t.taken
	}
}

// refused drops a ticket that is of no use: the gateway was heard, and broke the handshake off.
func (t *tickets) refused(err error) {
	broken, ok := errors.AsType[*quic.TransportError](err)
	if !ok || !broken.Remote || !broken.ErrorCode.IsCryptoError() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken, t.again = nil, nil
}
