package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// A ConnectError reports why there is no connection to the gateway. It matches ErrNoReply as well.
type ConnectError struct {
	Addr string // of the gateway, host:port
	Err  error  // why the last attempt failed, or how long there has been no reply
}

// Error names the gateway and the cause.
func (e *ConnectError) Error() string {
	return fmt.Sprintf("no connection to the gateway at %s: %v", e.Addr, e.Err)
}

// Unwrap returns ErrNoReply and the cause.
func (e *ConnectError) Unwrap() []error { return []error{ErrNoReply, e.Err} }

// Configuration reports whether only a change of the configuration can help: the address names no host, the certificate
// is not the pinned one or not trusted, or the gateway refuses the access token, the model or the version of the
// protocol. All other errors may pass, such as a closed port or a busy gateway.
func (e *ConnectError) Configuration() bool { return isConfigurationError(e.Err) }

// Unreachable reports whether the gateway gave no answer at all. A refusal is an answer.
func (e *ConnectError) Unreachable() bool {
	_, refused := errors.AsType[netproto.Code](e.Err)
	return !refused
}

func isConfigurationError(err error) bool {
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
	case netproto.WrongVersion, netproto.WrongTokenizer, netproto.WrongSecret:
		return true
	}
	return false
}

func isLastingError(err error) bool {
	if isConfigurationError(err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrProtocol) {
		return true
	}
	code, ok := errors.AsType[netproto.Code](err)
	return ok && code.Lasting()
}

func noReplyError(from string, since time.Time) error {
	return fmt.Errorf("no reply from %s within %v", from, time.Since(since).Round(time.Millisecond))
}

// convertError converts an error of reading or of QUIC: it adds the code with which the gateway closed the connection
// or stream. Bytes that are no message break the protocol. An error of the certificate or the system is returned
// without the text that QUIC adds. What the peer wrote, perhaps before it has proven anything, cannot control a
// terminal.
func convertError(err error) error { return errs.Printable(classifyError(err)) }

func classifyError(err error) error {
	if _, bad := errors.AsType[*netproto.ParseError](err); bad {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if pin, ok := errors.AsType[*PinError](err); ok {
		return pin
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return untrusted
	}
	if system, ok := errors.AsType[*os.SyscallError](err); ok {
		return system.Err
	}
	if own, ok := errors.AsType[*quic.TransportError](err); ok && !own.Remote && own.ErrorCode == quic.InternalError {
		return errors.New(own.ErrorMessage) // an error of the socket, which QUIC keeps as a text
	}
	if app, ok := errors.AsType[*quic.ApplicationError](err); ok && app.Remote {
		return fmt.Errorf("%w: %w", codeFromWire(uint64(app.ErrorCode)), err)
	}
	if stream, ok := errors.AsType[*quic.StreamError](err); ok && stream.Remote {
		return fmt.Errorf("%w: %w", codeFromWire(uint64(stream.ErrorCode)), err)
	}
	return err
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func isClosedLocally(err error) bool {
	app, ok := errors.AsType[*quic.ApplicationError](err)
	return ok && !app.Remote
}

func codeFromWire(n uint64) netproto.Code {
	if n > 255 {
		return netproto.Failed
	}
	return netproto.Code(n)
}

func parseRefusal(b []byte) error {
	r, _, err := netproto.ParseRefusal(b)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return r
}
