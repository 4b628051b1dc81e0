package client

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"

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
func (o Options) tlsConfig(host string) *tls.Config {
	c := &tls.Config{
		ServerName: host, NextProtos: []string{netproto.ALPN}, MinVersion: tls.VersionTLS13,
		ClientSessionCache: ticketsFor{o.Tickets, o.Pin},
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

// ticketsFor keeps tickets of differently pinned gateways apart, so that 0-RTT data goes only to one that was verified.
type ticketsFor struct {
	tls.ClientSessionCache
	pin netproto.Digest
}

func (t ticketsFor) Get(key string) (*tls.ClientSessionState, bool) {
	return t.ClientSessionCache.Get(t.pin.String() + " " + key)
}

func (t ticketsFor) Put(key string, s *tls.ClientSessionState) {
	t.ClientSessionCache.Put(t.pin.String()+" "+key, s)
}
