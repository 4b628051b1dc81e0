package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
)

// silence is how long a server may send nothing before a connection counts as broken.
const silence = 30 * time.Second

// sendRequest ends a request if the server sends nothing for too long. The body of the response must be closed.
func (p *puller) sendRequest(ctx context.Context, u *url.URL, header http.Header) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(silence, func() { cancel(errStalled) })
	watched := &watchedBody{ctx: ctx, timer: timer, end: func() { timer.Stop(); cancel(nil) }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		watched.end()
		return nil, fmt.Errorf("%s: not an address", redactURL(u))
	}
	for key, values := range header {
		req.Header[key] = values
	}
	req.Header.Set("Accept-Encoding", "identity") // lengths and ranges count the bytes of the file
	res, err := p.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		watched.end()
		return nil, connectError(u, err)
	}
	watched.ReadCloser, res.Body = res.Body, watched
	return res, nil
}

// errStalled is the cause of a request that ended because the server sent nothing for too long.
var errStalled = errors.New("the connection has gone silent")

// watchedBody is a body of which each Read with bytes is a sign of life.
type watchedBody struct {
	io.ReadCloser
	ctx   context.Context
	timer *time.Timer
	end   func()
}

// Read implements io.Reader.
func (b *watchedBody) Read(dst []byte) (int, error) {
	n, err := b.ReadCloser.Read(dst)
	if n > 0 {
		b.timer.Reset(silence)
	}
	if cause := context.Cause(b.ctx); cause != nil && err != nil && err != io.EOF {
		err = cause
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchedBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// connectError returns a transient error unless the name does not exist, the server's certificate is wrong or a
// redirect was refused.
func connectError(u *url.URL, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if at, parseErr := u.Parse(e.URL); parseErr == nil {
			u = at // the target of a redirect
		}
		err = e.Err // without e: it prints the address with its query
	}
	err = fmt.Errorf("%s: %w", redactURL(u), err)
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return err
	}
	if errors.Is(err, errRedirects) || errors.Is(err, errUnsafe) {
		return err
	}
	return &transientError{err: err}
}

// errRedirects is the error for too many redirects.
var errRedirects = errors.New("the server redirects again and again: check HF_ENDPOINT")

// errUnsafe is the error for a redirect to an address that is not on the web, or from https to http.
var errUnsafe = errors.New("the server redirects to an address that is not https: check HF_ENDPOINT")

// checkRedirect limits the number of redirects and refuses those from https to http: on an unencrypted connection an
// attacker could replace a file if the hub does not report its SHA-256.
func checkRedirect(req *http.Request, via []*http.Request) error {
	scheme := req.URL.Scheme
	switch {
	case len(via) >= 10:
		return errRedirects
	case scheme != "https" && (scheme != "http" || via[len(via)-1].URL.Scheme != "http"):
		return errUnsafe
	}
	return nil
}

func redactURL(u *url.URL) string {
	const most = 400
	s := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	if len(s) > most {
		return errs.Quote(s)
	}
	return s
}

// statusError shows the address without its query, which may hold a signature.
func (p *puller) statusError(res *http.Response) error {
	text := fmt.Sprintf("%s answers %d %s", redactURL(res.Request.URL), res.StatusCode, http.StatusText(res.StatusCode))
	if said := sanitizeServerText(res.Header.Get("X-Error-Message")); said != "" {
		text += ": " + said
	}
	if res.Request.URL.Host == p.endpoint.Host {
		switch res.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			text += ": check the name, accept the conditions on the repository's page if there are any, and give in " +
				"HF_TOKEN a token that may read it"
		case http.StatusNotFound:
			text += ": no such repository, revision or file: check the name"
		case http.StatusTooManyRequests:
			text += ": wait a while, or give a token in HF_TOKEN"
		}
	}
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests ||
		res.StatusCode == http.StatusRequestTimeout {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &transientError{err: errors.New(text), after: time.Duration(min(max(seconds, 0), 60)) * time.Second}
	}
	return errors.New(text)
}

func sanitizeServerText(s string) string {
	s = strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) { // also those of U+0080 to U+009F
			return -1
		}
		return c
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), 200)], "")
}

// endpointURL escapes each element as one, so a slash in it stays part of it.
func (p *puller) endpointURL(elements ...string) *url.URL {
	escaped := make([]string, len(elements))
	for i, e := range elements {
		escaped[i] = url.PathEscape(e)
	}
	return p.endpoint.JoinPath(escaped...)
}

func (p *puller) resolveURL(r Ref, name string) *url.URL {
	return p.endpointURL(append([]string{r.Owner, r.Name, "resolve", r.Revision}, strings.Split(name, "/")...)...)
}

// tokenTransport adds the token to requests to the endpoint. Redirects lead to other hosts with signed addresses, which
// must not receive the token.
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

// transientError is a failure that another try may mend. Only what happens on the network is one: a full disk is not.
type transientError struct {
	err   error
	after time.Duration // the server's wish how long to wait; 0 where it has none
	moved bool          // bytes arrived before it failed, so it does not count against the attempts
}

func (e *transientError) Error() string { return e.err.Error() }
func (e *transientError) Unwrap() error { return e.err }

// retryTransient calls try until it succeeds, fails for good, or has failed opt.Attempts times in a row without
// bringing anything. It waits between tries, longer each time and never exactly as long as others do.
func (p *puller) retryTransient(ctx context.Context, try func() error) error {
	for failed := 0; ; {
		err := try()
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		again, ok := errors.AsType[*transientError](err)
		if !ok {
			return err
		}
		if again.moved {
			failed = 0
		}
		if failed++; failed >= p.opt.Attempts {
			return fmt.Errorf("gave up after %d tries: %w", failed, again.err)
		}
		pause := retry.Spread(retry.Delay(failed, time.Second, 30*time.Second), 0.5, rand.Float64())
		pause = max(pause, again.after)
		p.opt.Notice(fmt.Sprintf("%v; trying again in %.1fs", again.err, pause.Seconds()))
		if err := retry.Wait(ctx, pause); err != nil {
			return err
		}
	}
}
