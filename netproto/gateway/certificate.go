package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// NewCertificate makes a self-signed certificate for the given names and addresses, as two PEM blocks; the key is
// secret. Clients pin its fingerprint, so it has no subject name and is valid for 20 years.
func NewCertificate(hosts ...string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("new certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{ // x509 draws its number
		Subject:   pkix.Name{CommonName: "pilotfish gateway"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(20, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, fmt.Errorf("new certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("new certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// Fingerprint returns the SHA-256 of a certificate, which clients pin.
func Fingerprint(c tls.Certificate) (netproto.Digest, error) {
	if len(c.Certificate) == 0 {
		return netproto.Digest{}, errors.New("fingerprint: no certificate")
	}
	return sha256.Sum256(c.Certificate[0]), nil
}

func (o Options) certificateOrNew() (tls.Certificate, error) {
	if len(o.Certificate.Certificate) > 0 {
		return o.Certificate, nil
	}
	certificate, key, err := NewCertificate("localhost", "127.0.0.1", "::1")
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}
