package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// malformed says that bytes are no message; err may be nil.
func malformed(err error) error {
	if errors.Is(err, netproto.ErrTooLong) {
		return fmt.Errorf("%w: %w", netproto.TooLarge, err)
	}
	if err == nil {
		return netproto.Malformed
	}
	return fmt.Errorf("%w: %w", netproto.Malformed, err)
}

// codeOf returns the code that an error goes by on the wire.
func codeOf(err error) netproto.Code {
	if code, ok := errors.AsType[netproto.Code](err); ok {
		return code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return netproto.TooLate
	}
	return netproto.Failed
}

// refusalOf returns what a client is told of an error: its code, and what a Refusal adds to it. Other texts stay here.
func refusalOf(err error) netproto.Refusal {
	if r, ok := errors.AsType[netproto.Refusal](err); ok {
		return r
	}
	return netproto.Refusal{Code: codeOf(err)}
}

// refuse answers a stream with a refusal, as far as that is still possible. It returns the bytes sent.
func refuse(s *quic.Stream, err error) int {
	code := quic.StreamErrorCode(codeOf(err))
	s.CancelRead(code)
	n, err := s.Write(refusalOf(err).Append(nil))
	if err != nil {
		s.CancelWrite(code)
		return n
	}
	_ = s.Close() // fails only where the stream is gone already
	return n
}
