// Package client is the edge's side of pilotfish/1. It keeps a QUIC connection to a gateway, which reconnects
// automatically, and sessions that ask about token paths over it.
package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Errors of the client. Refusals of the gateway are netproto.Refusal and unwrap to a netproto.Code.
var (
	ErrClosed   = errors.New("the client is closed")
	ErrProtocol = errors.New("the gateway breaks the protocol")
	ErrNoReply  = errors.New("no connection to the gateway")
)

// Client holds the connection to a gateway. It is safe for concurrent use.
type Client struct {
	opt  Options
	addr string // host:port as given
	host string
	port uint16

	ctx     context.Context // ends at Close
	cancel  context.CancelCauseFunc
	tasks   sync.WaitGroup
	tickets *tickets
	plain   *netproto.Codec // without dictionary: for asks that are sent before the Welcome

	mu       sync.Mutex
	closed   bool
	current  *link // nil: none
	attempt  *attempt
	failures int   // attempts in a row
	failure  error // why the last of them failed; nil after a success
	welcome  netproto.Welcome
	links    map[*link]struct{}
	stats    Stats
}

// Stats counts the events of a client.
type Stats struct {
	Connections int // made
	Early       int // of these with 0-RTT
}

// Dial connects to the gateway at host:port. It returns when the gateway has said Welcome or the attempt has failed,
// after ConnectTimeout at the latest. With [Options.Lazy] it returns at once, and fails only for invalid options or an
// invalid address. An error of the network or the gateway is a [ConnectError]. It unwraps to a netproto.Code if the
// gateway refused, and to a [PinError] if its certificate is not the pinned one.
func Dial(ctx context.Context, addr string, opt Options) (*Client, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	host, port, err := splitAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	plain, err := netproto.NewCodec(opt.Identity.Vocab, netproto.Dictionary{})
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	c := &Client{opt: opt, addr: addr, host: host, port: port, plain: plain, links: map[*link]struct{}{}}
	c.tickets = &tickets{cache: opt.Tickets, addr: addr, pin: opt.Pin}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	if opt.Lazy {
		_, _, err := c.currentOrAttempt() // later asks wait for it
		return c, err
	}
	if err := c.connectOnce(ctx); err != nil {
		_ = c.Close() // the first error is more useful
		return nil, fmt.Errorf("dial: %w", err)
	}
	return c, nil
}

func (c *Client) connectOnce(ctx context.Context) error {
	l, a, err := c.currentOrAttempt()
	if l != nil || err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.done:
	}
	if a.err != nil {
		return a.err
	}
	return a.link.waitForWelcome(ctx)
}

// Connect waits until there is a connection on which the gateway has said Welcome, and returns this Welcome. It gives
// up when ctx ends or after half a minute.
func (c *Client) Connect(ctx context.Context) (netproto.Welcome, error) {
	ctx, cancel := c.withPatience(ctx)
	defer cancel()
	l, err := c.waitForLink(ctx)
	if err == nil {
		err = l.waitForWelcome(ctx)
	}
	if err != nil {
		return netproto.Welcome{}, fmt.Errorf("connect: %w", err)
	}
	return l.agreed, nil
}

// Welcome returns the latest Welcome of the gateway: its model and limits. It is zero before the first connection.
func (c *Client) Welcome() netproto.Welcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.welcome
}

// Connected reports whether there is a connection to the gateway. If there is none, an attempt to make one is begun.
func (c *Client) Connected() bool {
	l, _, _ := c.currentOrAttempt() // the error is that the client is closed: then there is no connection
	return l != nil
}

// Addr is the gateway's address as it was given, host:port.
func (c *Client) Addr() string { return c.addr }

// Stats returns the counts so far.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// startTask registers a task that Close waits for.
func (c *Client) startTask() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.tasks.Add(1)
	}
	return !c.closed
}

// Close ends all sessions and asks and releases all resources.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.current = nil
	links := make([]*link, 0, len(c.links))
	for l := range c.links {
		links = append(links, l)
	}
	c.mu.Unlock()
	c.cancel(ErrClosed)
	var errs []error
	for _, l := range links {
		errs = append(errs, l.closeWithSocket(netproto.NoReason))
	}
	c.tasks.Wait()
	return errors.Join(errs...)
}
