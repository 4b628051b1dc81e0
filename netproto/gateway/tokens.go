package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// digest is the SHA-256 of a secret.
type digest [sha256.Size]byte

// credentials is what admitted a connection: the name of an access token and its secret at that time. It is zero on an
// open gateway.
type credentials struct {
	name   string
	digest digest
}

func credentialsOf(t *Token) credentials {
	if t == nil {
		return credentials{}
	}
	return credentials{t.Name, sha256.Sum256([]byte(t.Secret))}
}

// SetTokens replaces the access tokens while the gateway serves. The rules of New apply, and there must be at least one
// token; after an error nothing has changed. Connections with a removed token, or a token with another secret, are
// closed with WrongSecret. The others continue under the new limits: rates keep their state, devices stay counted, and
// connected devices stay connected even if fewer are allowed now.
func (g *Gateway) SetTokens(tokens []Token) error {
	if len(tokens) == 0 {
		return errors.New("gateway: no access token is left: an open gateway has to be started without tokens")
	}
	tokens = slices.Clone(tokens)
	if err := CheckTokens(tokens); err != nil {
		return err
	}
	for _, c := range g.clients.replaceTokens(tokens) {
		c.closeWithReason(netproto.WrongSecret, "the access token was taken back")
	}
	return nil
}

// replaceTokens replaces the access tokens, and returns the connections that they no longer admit.
func (c *clients) replaceTokens(tokens []Token) (out []*connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.owners
	c.tokens, c.digests, c.owners = tokens, nil, map[string]*client{}
	for i, t := range tokens {
		owner := before[t.Name]
		if owner == nil {
			owner = &client{name: t.Name, number: clientNumber("token " + t.Name), bucket: newBucket(0, 0)}
		}
		owner.token.Store(&tokens[i])
		setBucket(owner.bucket, t.AskRate, 0)
		c.owners[t.Name] = owner
		c.digests = append(c.digests, credentialsOf(&t).digest)
	}
	for guest, shown := range c.guests {
		if !c.isStillValid(shown) {
			out = append(out, guest)
		}
	}
	return out
}

// isStillValid reports whether these credentials would still be admitted. The caller holds the lock.
func (c *clients) isStillValid(p credentials) bool {
	owner := c.owners[p.name]
	if owner == nil {
		return len(c.tokens) == 0
	}
	now := credentialsOf(owner.token.Load()).digest
	return subtle.ConstantTimeCompare(now[:], p.digest[:]) == 1
}
