package client

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// reason adds the code that the gateway closed a connection or stream with to an error of QUIC.
func reason(err error) error {
	if app, ok := errors.AsType[*quic.ApplicationError](err); ok && app.Remote {
		return fmt.Errorf("%w: %w", codeOf(uint64(app.ErrorCode)), err)
	}
	if stream, ok := errors.AsType[*quic.StreamError](err); ok && stream.Remote {
		return fmt.Errorf("%w: %w", codeOf(uint64(stream.ErrorCode)), err)
	}
	return err
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
