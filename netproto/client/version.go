package client

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// errOlder means that the gateway does not speak the version of the Hello: the next attempt uses an older version,
// without a pause. Waiting asks do not see it as a failure.
var errOlder = fmt.Errorf("%w: in an older version of the protocol", errRepeat)

// speaks returns the version for the next Hello.
func (c *Client) speaks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// older reports whether a Hello failed because of its version and there is an older version to try. The client keeps
// the older version afterwards: a gateway upgraded to a later version still accepts it. If the oldest is refused as
// well, the next attempt starts again with the latest.
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

// offers returns the version of the connection and the maximum number of tokens ahead of an ask. Before the Welcome it
// returns the maxima of the protocol.
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
