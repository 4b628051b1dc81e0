package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/spf13/pflag"
)

// minKey is the minimum length of an API key, in bytes.
const minKey = 16

// serveAccess has the flags that control who may use a server.
type serveAccess struct {
	set       *pflag.FlagSet
	keys      string // file
	open      bool
	origins   []string
	cert, key string // files
}

func (s *serveAccess) registerFlags(p *pflag.FlagSet) {
	s.set = p
	cli.Add(p, "api-key-file", &s.keys, "")
	cli.Add(p, "open", &s.open, false)
	cli.Add(p, "cors-origin", &s.origins, nil)
	cli.Add(p, "cert", &s.cert, "")
	cli.Add(p, "key", &s.key, "")
}

// allowedClients returns the API keys, the origins, and a description of the clients that are served.
func (s *serveAccess) allowedClients(listen string) (keys, origins []string, say string, err error) {
	for _, o := range s.origins {
		if err := checkOrigin(o); err != nil {
			return nil, nil, "", err
		}
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, nil, "", cli.Usagef("--listen %.100q is not an address: give host:port, such as 127.0.0.1:8080",
			listen)
	}
	if s.open { // also if the environment has a key: a flag comes first
		return nil, s.origins, "open to every program that can reach it (--open)", nil
	}
	keys, from, err := s.readAPIKeys()
	switch {
	case err != nil:
		return nil, nil, "", err
	case len(keys) > 0:
		return keys, s.origins, "to programs with an API key of " + from, nil
	case listensOnLoopback(listen):
		return nil, s.origins, "open to programs on this machine, as it listens on loopback only", nil
	}
	return nil, nil, "", cli.Usagef(
		"--listen %s can be reached by others: give API keys with --api-key-file or in %s, or "+
			"serve all programs with --open", listen, cli.ApiKeyVariable)
}

// listensOnLoopback reports whether only this machine can reach an address.
func listensOnLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// allowedHosts returns the names and addresses that requests may be for: on loopback those of this machine, of
// --listen, and of the allowed origins. nil means any.
func (s *serveAccess) allowedHosts(listen string) []string {
	if !listensOnLoopback(listen) || slices.Contains(s.origins, "*") {
		return nil
	}
	host, _, _ := net.SplitHostPort(listen) // allowedClients has checked it
	all := []string{"localhost", "127.0.0.1", "::1", host}
	for _, o := range s.origins {
		if u, err := url.Parse(o); err == nil {
			all = append(all, u.Hostname())
		}
	}
	return all
}

// checkOrigin returns an error if no browser sends this as the origin of a page.
func checkOrigin(o string) error {
	if o == "*" {
		return nil
	}
	u, err := url.Parse(o)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
		return cli.Usagef("--cors-origin %.100q is not an origin: give scheme://host[:port] without a path, or *", o)
	}
	return nil
}

// readAPIKeys reads the keys. An empty key is an error, since its presence shows that a key is wanted. Errors do not
// contain what was read.
func (s *serveAccess) readAPIKeys() (keys []string, from string, err error) {
	if !s.set.Changed("api-key-file") {
		key, set := os.LookupEnv(cli.ApiKeyVariable)
		if !set {
			return nil, "", nil
		}
		key = strings.TrimSpace(key)
		if err := checkAPIKey(key); err != nil {
			return nil, "", fmt.Errorf("%s: %w", cli.ApiKeyVariable, err)
		}
		return []string{key}, cli.ApiKeyVariable, nil
	}
	from = "--api-key-file " + s.keys
	what := fmt.Sprintf("API key of at least %d bytes", minKey)
	err = cli.SecretLines("--api-key-file", s.keys, what, func(_ int, line string) error {
		keys = append(keys, line)
		return checkAPIKey(line)
	})
	return keys, from, err
}

// checkAPIKey returns an error for keys that are too short to be safe, and for those that are invalid in a header.
func checkAPIKey(key string) error {
	if len(key) < minKey {
		return fmt.Errorf("the API key has %d bytes: give at least %d", len(key), minKey)
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return errors.New("the API key has characters that a header cannot carry: give letters, digits and signs")
		}
	}
	return nil
}

// checkCertificate returns an error if --cert and --key are given and do not match.
func (s *serveAccess) checkCertificate() error {
	if s.cert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(s.cert, s.key); err != nil {
		return fmt.Errorf("--cert %s, --key %s: %w", s.cert, s.key, err)
	}
	return nil
}
