package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// A ConnectError says why there is no connection to the gateway. It is ErrNoReply, too.
type ConnectError struct {
	Addr string // of the gateway, host:port
	Err  error  // why the last attempt failed, or for how long there has been no reply
}

// Error says which gateway it is, and why.
func (e *ConnectError) Error() string {
	return fmt.Sprintf("no connection to the gateway at %s: %v", e.Addr, e.Err)
}

// Unwrap returns ErrNoReply and the cause.
func (e *ConnectError) Unwrap() []error { return []error{ErrNoReply, e.Err} }

// Configuration reports whether only a change of the configuration can help: the address names no host, the certificate
// is not the pinned one or not trusted, or the gateway refuses the access token, the model or the version of the
// protocol. Waiting helps against all other errors, such as a port that is closed or a gateway that is busy.
func (e *ConnectError) Configuration() bool { return configuration(e.Err) }

// Unreachable reports whether the gateway gave no answer, which a refusal would be.
func (e *ConnectError) Unreachable() bool {
	_, refused := errors.AsType[netproto.Code](e.Err)
	return !refused
}

func configuration(err error) bool {
	_, wrongPin := errors.AsType[*PinError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if wrongPin || untrusted {
		return true
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return lookup.IsNotFound && !lookup.IsTemporary
	}
	const noApplicationProtocol = 0x100 + 120 // RFC 9001, 4.8, and RFC 7301, 3.2
	if broken, ok := errors.AsType[*quic.TransportError](err); ok && broken.Remote {
		return broken.ErrorCode == noApplicationProtocol
	}
	switch code, _ := errors.AsType[netproto.Code](err); code {
	case netproto.WrongVersion, netproto.WrongTokenizer, netproto.WrongTemplate, netproto.WrongSecret:
		return true
	}
	return false
}

// lasting reports whether an attempt would fail the same way the next time.
func lasting(err error) bool {
	if configuration(err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrProtocol) {
		return true
	}
	code, ok := errors.AsType[netproto.Code](err)
	return ok && code.Lasting()
}

// noReply says that nothing was heard from an address since a time.
func noReply(from string, since time.Time) error {
	return fmt.Errorf("no reply from %s within %v", from, time.Since(since).Round(time.Millisecond))
}

// reason adds the code that the gateway closed a connection or stream with to an error of QUIC. What the certificate or
// the system is to blame for is returned by itself, without the words that QUIC puts around it.
func reason(err error) error {
	if pin, ok := errors.AsType[*PinError](err); ok {
		return pin
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return untrusted
	}
	if system, ok := errors.AsType[*os.SyscallError](err); ok {
		return system.Err
	}
	if app, ok := errors.AsType[*quic.ApplicationError](err); ok && app.Remote {
		return fmt.Errorf("%w: %w", codeOf(uint64(app.ErrorCode)), err)
	}
	if stream, ok := errors.AsType[*quic.StreamError](err); ok && stream.Remote {
		return fmt.Errorf("%w: %w", codeOf(uint64(stream.ErrorCode)), err)
	}
	return err
}

// isTimeout reports whether an error means that something took too long.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// hungUp reports whether a connection ended because this side ended it.
func hungUp(err error) bool {
	app, ok := errors.AsType[*quic.ApplicationError](err)
	return ok && !app.Remote
}

func codeOf(n uint64) netproto.Code {
	if n > 255 {
		return netproto.Failed
	}
	return netproto.Code(n)
}

// refusal returns the error that a Refusal stands for.
func refusal(b []byte) error {
	r, _, err := netproto.ParseRefusal(b)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return r
}
