package client

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// errOlder is why a connection ended whose Hello was of a version that the gateway does not speak: the next one says an
// older version, at once. To whoever waits for the connection it is not a failure.
var errOlder = fmt.Errorf("%w: in an older version of the protocol", errRepeat)

// speaks returns the version that a Hello says.
func (c *Client) speaks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// older reports whether a Hello failed for its version and there is an older one to try. The client says that one
// from then on: a gateway that is replaced by one of a later version still takes it. Where the oldest is refused as
// well, the next attempt begins with the latest again.
func (c *Client) older(said int, err error) bool {
	if !errors.Is(err, netproto.WrongVersion) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = netproto.Version
	if said > netproto.OldestVersion {
		c.version = said - 1
	}
	return c.version < said
}

// offers returns the version of the connection and how many tokens ahead an ask can get: before the Welcome, what the
// gateway can have at best.
func (l *link) offers() (version, ahead int) {
	select {
	case <-l.ready:
		if l.err == nil {
			return l.agreed.Version, l.agreed.Ahead
		}
	default:
	}
	if l.said < netproto.VerifyVersion {
		return l.said, 0
	}
	return l.said, netproto.MaxAhead
}
