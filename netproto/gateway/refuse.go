package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// malformedError returns the error for bytes that are not a valid message; err may be nil.
func malformedError(err error) error {
	if errors.Is(err, netproto.ErrTooLong) {
		return fmt.Errorf("%w: %w", netproto.TooLarge, err)
	}
	if err == nil {
		return netproto.Malformed
	}
	return fmt.Errorf("%w: %w", netproto.Malformed, err)
}

func errorCode(err error) netproto.Code {
	if code, ok := errors.AsType[netproto.Code](err); ok {
		return code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return netproto.TooLate
	}
	return netproto.Failed
}

// refusalOf returns the part of an error that is sent to the client: its code, and what a Refusal adds. The text of
// other errors is not sent.
func refusalOf(err error) netproto.Refusal {
	if r, ok := errors.AsType[netproto.Refusal](err); ok {
		return r
	}
	return netproto.Refusal{Code: errorCode(err)}
}

// writeRefusal answers a stream with a refusal, if that is still possible. It returns the number of bytes sent.
func writeRefusal(s *quic.Stream, err error) int {
	code := quic.StreamErrorCode(errorCode(err))
	s.CancelRead(code)
	n, err := s.Write(refusalOf(err).Append(nil))
	if err != nil {
		s.CancelWrite(code)
		return n
	}
	_ = s.Close() // fails only if the stream has ended already
	return n
}
