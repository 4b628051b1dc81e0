package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// TicketKey encrypts the tickets with which devices reconnect without a round trip (0-RTT). The owner of the key can
// read data that was sent before the handshake was complete. Replicas with the same key, or a gateway that is restarted
// with it, accept each other's tickets.
type TicketKey [32]byte

func (g *Gateway) initCryptoKeys() error {
	g.tls = &tls.Config{NextProtos: []string{netproto.ALPN}, MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.cert.Load(), nil }}
	cert, err := g.opt.certificateOrNew()
	if err != nil {
		return err
	}
	g.cert.Store(&cert)
	if g.resetKey, err = deriveResetKey(cert); err != nil {
		return err
	}
	if len(g.opt.TicketKeys) == 0 {
		return nil
	}
	address := quic.TokenGeneratorKey(deriveKey(g.opt.TicketKeys[0][:], "pilotfish address validation"))
	g.tokenKey = &address
	return g.SetTicketKeys(g.opt.TicketKeys)
}

// deriveResetKey derives the key of stateless resets from the key of the certificate. After a restart, clients then
// learn with their first packet that their connection is gone.
func deriveResetKey(c tls.Certificate) (key quic.StatelessResetKey, err error) {
	private, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return key, fmt.Errorf("private key: %w", err)
	}
	return quic.StatelessResetKey(deriveKey(private, "pilotfish stateless reset")), nil
}

// deriveKey derives a key that reveals nothing about its source.
func deriveKey(from []byte, what string) (key [sha256.Size]byte) {
	mac := hmac.New(sha256.New, from)
	mac.Write([]byte(what))
	return [sha256.Size]byte(mac.Sum(nil))
}

// SetCertificate replaces the certificate while the gateway serves. New connections use it; open connections continue.
// The key of stateless resets remains that of the first certificate, since open connections have received tokens
// derived from it. Devices that pinned the former certificate need the new fingerprint, unless they have a ticket.
func (g *Gateway) SetCertificate(c tls.Certificate) error {
	if _, err := Fingerprint(c); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if c.PrivateKey == nil {
		return errors.New("gateway: the certificate has no private key")
	}
	g.cert.Store(&c)
	return nil
}

// SetTicketKeys replaces the keys of tickets while the gateway serves. The first key encrypts new tickets, all keys
// decrypt the tickets of devices. If the key of a ticket has been removed, its device only needs one more round trip.
// The key of address validation is derived from the first key at New and does not change.
func (g *Gateway) SetTicketKeys(keys []TicketKey) error {
	if len(keys) == 0 {
		return errors.New("gateway: no ticket key")
	}
	all := make([][32]byte, len(keys))
	for i, k := range keys {
		if k == (TicketKey{}) {
			return errors.New("gateway: a ticket key of zeros")
		}
		all[i] = k
	}
	g.tls.SetSessionTicketKeys(all)
	return nil
}

// Fingerprint returns the SHA-256 of the certificate, for clients to pin.
func (g *Gateway) Fingerprint() netproto.Digest {
	d, _ := Fingerprint(*g.cert.Load()) // New made sure that there is a certificate
	return d
}
