package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/quote"
)

// puller is one Pull under way.
type puller struct {
	opt      Options // with every default filled in
	endpoint *url.URL
	http     *http.Client
}

// newPuller checks opt and fills in its defaults.
func newPuller(opt Options) (*puller, error) {
	if opt.Dir == "" {
		return nil, errors.New("no folder to put files into")
	}
	if opt.Endpoint == "" {
		opt.Endpoint = DefaultEndpoint
	}
	if opt.Attempts <= 0 {
		opt.Attempts = 6
	}
	if opt.Stall <= 0 {
		opt.Stall = 30 * time.Second
	}
	if opt.Progress == nil {
		opt.Progress = func(int64, int64) {}
	}
	if opt.Notice == nil {
		opt.Notice = func(string) {}
	}
	if opt.Transport == nil {
		opt.Transport = http.DefaultTransport
	}
	endpoint, err := parseEndpoint(opt.Endpoint)
	if err != nil {
		return nil, err
	}
	opt.Token = strings.TrimSpace(opt.Token)
	if strings.ContainsFunc(opt.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("the token holds characters that no token has") // never the token itself
	}
	client := &http.Client{
		Transport:     &tokenTransport{next: opt.Transport, endpoint: endpoint, token: opt.Token},
		CheckRedirect: checkRedirect,
	}
	return &puller{opt: opt, endpoint: endpoint, http: client}, nil
}

// parseEndpoint reads the address of a hub.
func parseEndpoint(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	switch {
	case err != nil:
		return nil, errors.New("the hub's address is not a URL") // err would repeat what may hold a password
	case u.User != nil:
		return nil, errors.New("the hub's address holds a user name; give a token instead")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("the hub's address %s is not like %s", quote.Text(s), DefaultEndpoint)
	}
	return u, nil
}

// url returns an address below the endpoint. Each element is escaped as one, so a slash in it stays part of it.
func (p *puller) url(elements ...string) *url.URL {
	u := *p.endpoint
	for _, e := range elements {
		u.Path += "/" + e
	}
	raw := p.endpoint.EscapedPath()
	for _, e := range elements {
		raw += "/" + url.PathEscape(e)
	}
	u.RawPath = raw
	return &u
}

// resolveURL returns the address of a file.
func (p *puller) resolveURL(r Ref, name string) *url.URL {
	return p.url(append([]string{r.Owner, r.Name, "resolve", r.Revision}, strings.Split(name, "/")...)...)
}

// tokenTransport adds the token to requests for the endpoint, whichever way they came about. Redirects lead to other
// hosts, whose addresses are signed and which must not learn it.
type tokenTransport struct {
	next     http.RoundTripper
	endpoint *url.URL
	token    string
}

// RoundTrip implements http.RoundTripper.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", "pilotfish")
	req.Header.Del("Authorization")
	if t.token != "" && req.URL.Scheme == t.endpoint.Scheme && req.URL.Host == t.endpoint.Host {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.next.RoundTrip(req)
}
