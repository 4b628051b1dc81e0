package engine

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
)

// Errors of connecting to a gateway, for programs that put the parts together through this package.
type (
	ConnectError = client.ConnectError
	PinError     = client.PinError
)

// Remedy is the kind of change that makes a connection to a gateway possible. Each program words its own advice.
type Remedy int

// The remedies.
const (
	NoRemedy    Remedy = iota // nothing that is known
	NewPin                    // if the gateway has a new certificate: its fingerprint
	GivePin                   // the fingerprint of a certificate that no authority signs for
	RightHost                 // a name that exists
	RightSecret               // the gateway's access token
	SameFamily                // a small model with the vocabulary of the gateway's
	SameVersion               // one version of the program on both sides
	ReadRefusal               // what the gateway says itself
)

// RemedyFor returns the remedy for an error of connecting.
func RemedyFor(err error) Remedy {
	_, wrongPin := errors.AsType[*PinError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	code, _ := errors.AsType[netproto.Code](err)
	switch {
	case wrongPin:
		return NewPin
	case untrusted:
		return GivePin
	case unknown:
		return RightHost
	case code == netproto.WrongSecret:
		return RightSecret
	case code == netproto.WrongTokenizer:
		return SameFamily
	case code == netproto.WrongVersion:
		return SameVersion
	case code != netproto.NoReason:
		return ReadRefusal
	}
	return NoRemedy
}
