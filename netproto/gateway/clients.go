package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// client is whom asks are counted for: a token of authentication, or an address where there are none.
type client struct {
	name   string
	bucket *bucket // nil: no limit of rate
	conns  int     // guarded by clients.mu
}

// clients knows who may ask and counts connections.
type clients struct {
	tokens    []Token
	digests   [][sha256.Size]byte // of the secrets, so that all comparisons are of equal length
	maxConns  int
	maxShare  int
	mu        sync.Mutex
	conns     int
	byName    map[string]*client // of tokens always, of addresses while they are connected
	anonymous bool
}

func newClients(o Options) *clients {
	c := &clients{tokens: o.Tokens, maxConns: o.MaxConns, maxShare: o.MaxConnsPerClient, byName: map[string]*client{}, anonymous: len(o.Tokens) == 0}
	for _, t := range o.Tokens {
		c.digests = append(c.digests, sha256.Sum256([]byte(t.Secret)))
	}
	return c
}

// authenticate returns the name of the client that shows a secret. It compares with every secret there is, and takes
// as long for one as for another.
func (c *clients) authenticate(secret netproto.Secret, from net.Addr) (name string, token *Token, err error) {
	if c.anonymous {
		return hostOf(from), nil, nil
	}
	shown, found := sha256.Sum256([]byte(secret)), -1
	for i := range c.digests {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(shown[:], c.digests[i][:]), i, found)
	}
	if found < 0 {
		return "", nil, netproto.Refusal{Code: netproto.WrongSecret}
	}
	return strings.ToValidUTF8(c.tokens[found].Name, "?"), &c.tokens[found], nil
}

// hostOf returns an address without its port.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// enter counts a connection of a client, if it is one too many neither for it nor in all.
func (c *clients) enter(secret netproto.Secret, from net.Addr) (*client, error) {
	name, token, err := c.authenticate(secret, from)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.byName[name]
	if who == nil {
		who = &client{name: name}
		if token != nil && token.AskRate > 0 {
			who.bucket = newBucket(token.AskRate, token.AskBurst)
		}
	}
	if who.conns >= c.maxShare || c.conns >= c.maxConns {
		return nil, netproto.Refusal{Code: netproto.Busy, RetryAfter: time.Second, Detail: "too many connections"}
	}
	c.byName[name] = who
	who.conns++
	c.conns++
	return who, nil
}

func (c *clients) leave(who *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns--
	if who.conns--; who.conns == 0 && c.anonymous {
		delete(c.byName, who.name)
	}
}
