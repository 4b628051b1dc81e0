package client

import (
	"context"
	"fmt"
	"io"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/streams"
)

// streamAhead sends the tokens that follow an answer to the channel as they arrive. It ends when there are no more, or
// when ctx or the session ends; then it asks the gateway to stop. It returns nil if no tokens follow.
func (s *Session) streamAhead(ctx context.Context, r reply) <-chan int32 {
	if r.rest == nil {
		return nil
	}
	out := make(chan int32, r.most) // has room for all of them, so that sending never blocks
	ctx, cancel := s.boundContext(ctx, 0)
	s.c.tasks.Go(func() {
		defer cancel()
		defer context.AfterFunc(ctx, func() { r.cancelAhead(netproto.Cancelled) })()
		err := s.c.readAheadTokens(r.rest, r.most, out)
		close(out)
		if err == nil {
			streams.Finish(r.rest)
		} else {
			r.cancelAhead(netproto.Malformed) // without effect if the stream has ended or was cancelled
		}
	})
	return out
}

// readAheadTokens reads at most the given number of tokens from a stream.
func (c *Client) readAheadTokens(s *quic.Stream, most int, out chan<- int32) error {
	const longest = 5 // bytes in a token
	for range most {
		_, b, err := netproto.ReadFrame(s, longest)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		a, _, err := netproto.ParseAhead(b)
		if err != nil {
			return err
		}
		if int(a.Token) >= c.opt.Identity.Vocab {
			return fmt.Errorf("%w: token %d follows an answer", ErrProtocol, a.Token)
		}
		out <- a.Token
	}
	return nil
}
