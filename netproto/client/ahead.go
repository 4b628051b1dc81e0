package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/streams"
)

// ahead sends the tokens that follow an answer to the channel as they arrive. It ends when there are no more, or when
// ctx or the session ends; then it asks the gateway to stop. It returns nil if no tokens follow.
func (s *Session) ahead(ctx context.Context, r reply) <-chan int32 {
	if r.rest == nil {
		return nil
	}
	out := make(chan int32, r.most) // has room for all of them, so that sending never blocks
	ctx, cancel := s.bound(ctx, 0)
	s.c.tasks.Go(func() {
		defer cancel()
		defer context.AfterFunc(ctx, func() { r.drop(netproto.Cancelled) })()
		err := s.c.follow(r.rest, r.most, out)
		close(out)
		if err == nil && streams.Finish(r.rest) {
			err = fmt.Errorf("%w: more than %d tokens follow an answer", ErrProtocol, r.most)
		}
		if errors.Is(err, ErrProtocol) {
			r.drop(netproto.Malformed)
			s.c.broken()
		}
	})
	return out
}

// follow reads at most the given number of tokens from a stream.
func (c *Client) follow(s *quic.Stream, most int, out chan<- int32) error {
	const longest = 5 // bytes in a token
	for range most {
		_, b, err := netproto.ReadFrame(s, longest)
		if err == io.EOF {
			return nil
		}
		var a netproto.Ahead
		if err == nil {
			a, _, err = netproto.ParseAhead(b)
		}
		if err == nil && int(a.Token) >= c.opt.Identity.Vocab {
			err = fmt.Errorf("%w: token %d follows an answer", ErrProtocol, a.Token)
		}
		if _, bad := errors.AsType[*netproto.ParseError](err); bad || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if err != nil {
			return err
		}
		out <- a.Token
	}
	return nil
}

// broken counts a stream on which the gateway broke the protocol after it had answered the ask.
func (c *Client) broken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Broken++
}
