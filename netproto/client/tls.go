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

// A PinError reports that the gateway has another certificate than the pinned one: it is another machine, its
// certificate was replaced, or there is a man in the middle.
type PinError struct {
	Want, Have netproto.Digest // fingerprints
}

// Error returns a text with both fingerprints.
func (e *PinError) Error() string {
	return fmt.Sprintf("the gateway's certificate has the fingerprint %s, pinned is %s", e.Have, e.Want)
}

// tlsConfig trusts only the pinned certificate, or without a pin those signed by an authority that the system trusts.
func (o Options) tlsConfig(host string, t tls.ClientSessionCache) *tls.Config {
	c := &tls.Config{
		ServerName: host, NextProtos: []string{netproto.ALPN}, MinVersion: tls.VersionTLS13,
		ClientSessionCache: t,
	}
	if o.ServerName != "" {
		c.ServerName = o.ServerName
	}
	if pin := o.Pin; pin != (netproto.Digest{}) {
		// The pin replaces the check of names and authorities, also for resumed sessions.
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

// tickets are those for one gateway with one pin, so that 0-RTT data goes only to a verified gateway. A ticket is for
// one connection (RFC 8446, C.4): taking it removes it from the cache. If the connection fails, usually because the
// network is away for a while, the ticket is kept for some more attempts.
type tickets struct {
	cache tls.ClientSessionCache
	addr  string // host:port
	pin   netproto.Digest

	mu     sync.Mutex
	taken  *tls.ClientSessionState // by the attempt under way
	again  *tls.ClientSessionState // of a failed attempt
	failed int                     // attempts since the last new ticket
}

func (t *tickets) cacheKey(server string) string {
	return strings.Join([]string{t.pin.String(), server, t.addr}, " ")
}

// Get takes the ticket for a server.
func (t *tickets) Get(server string) (*tls.ClientSessionState, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.cache.Get(t.cacheKey(server))
	if ok {
		t.cache.Put(t.cacheKey(server), nil)
	} else {
		s = t.again
	}
	t.taken, t.again = s, nil
	return s, s != nil
}

// Put stores a ticket. If s is nil, the attempt that took the last ticket has failed.
func (t *tickets) Put(server string, s *tls.ClientSessionState) {
	const attempts = 16
	t.mu.Lock()
	defer t.mu.Unlock()
	if s != nil {
		t.cache.Put(t.cacheKey(server), s)
		t.taken, t.again, t.failed = nil, nil, 0
	} else if t.failed++; t.failed <= attempts {
		t.taken, t.again = nil, t.taken
	}
}

func (t *tickets) dropRefusedTicket(err error) {
	broken, ok := errors.AsType[*quic.TransportError](err)
	if !ok || !broken.Remote || !broken.ErrorCode.IsCryptoError() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken, t.again = nil, nil
}
