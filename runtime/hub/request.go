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

// get sends a request. The body must be read through wait.reader, and wait stopped afterwards: a server that sends
// nothing for too long ends the request.
func (p *puller) get(
	ctx context.Context, client *http.Client, method string, u *url.URL, header http.Header,
) (*http.Response, *stall, error) {
	ctx, wait := watchStall(ctx, p.opt.Stall)
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		wait.stop()
		return nil, nil, fmt.Errorf("%s: not an address", plain(u))
	}
	for key, values := range header {
		req.Header[key] = values
	}
	req.Header.Set("Accept-Encoding", "identity") // lengths and ranges count the bytes of the file
	res, err := client.Do(req)
	if err != nil {
		err = wait.explain(err)
		wait.stop()
		return nil, nil, connectError(u, err)
	}
	res.Body = wait.body(res.Body)
	return res, wait, nil
}

// connectError returns the error of a request without a response. It is worth another attempt unless the name does not
// exist or the server's certificate is wrong.
func connectError(u *url.URL, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if at, parseErr := u.Parse(e.URL); parseErr == nil {
			u = at // the target of a redirect
		}
		err = e.Err // without e: it prints the address with its query
	}
	err = fmt.Errorf("%s: %w", plain(u), err)
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

// StatusError is a response of the hub, or of a server that it redirected to, without the file.
type StatusError struct {
	Code int    // HTTP status
	URL  string // the request's, without its query, which may hold a signature
	Hint string // possible cause and advice; "" if unknown
}

// Error implements error.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s answers %d %s", e.URL, e.Code, http.StatusText(e.Code))
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// plain returns an address without query and user, for messages, shortened if it is longer than those of hubs.
func plain(u *url.URL) string {
	const most = 400
	s := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	if len(s) > most {
		return errs.Quote(s)
	}
	return s
}

// statusError returns the error for a response without the file, with advice.
func (p *puller) statusError(res *http.Response) error {
	e := &StatusError{Code: res.StatusCode, URL: plain(res.Request.URL), Hint: p.hint(res)}
	if e.Code >= 500 || e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &transientError{err: e, after: time.Duration(min(max(seconds, 0), 60)) * time.Second}
	}
	return e
}

// hint explains a status of the hub to the user.
func (p *puller) hint(res *http.Response) string {
	code := res.Header.Get("X-Error-Code")
	switch {
	case res.Request.URL.Host != p.endpoint.Host:
		return ""
	case code == "GatedRepo" || res.StatusCode == http.StatusForbidden:
		return "access is restricted: accept the conditions on the repository's page, and give in HF_TOKEN a token " +
			"that may read it"
	case res.StatusCode == http.StatusUnauthorized && p.opt.Token == "":
		return "no such repository, or a private one: check the name, or give a token in HF_TOKEN"
	case res.StatusCode == http.StatusUnauthorized:
		return "no such repository, or a token that is not valid for it: check the name and HF_TOKEN"
	case code == "RevisionNotFound":
		return "there is no such branch, tag or commit"
	case code == "EntryNotFound":
		return "there is no such file"
	case res.StatusCode == http.StatusNotFound:
		return "no such repository, revision or file: check the name"
	case res.StatusCode == http.StatusTooManyRequests:
		return "too many requests: wait a while, or give a token in HF_TOKEN"
	}
	return printable(res.Header.Get("X-Error-Message"))
}

// printable returns a server's text without the characters that may control a terminal, shortened if it is long.
func printable(s string) string {
	s = strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) { // also those of U+0080 to U+009F
			return -1
		}
		return c
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), 200)], "")
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

// errStalled is the cause of a request that ended because the server sent nothing for too long.
var errStalled = errors.New("the connection has gone silent")

// stall cancels a request when nothing has arrived for a while.
type stall struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
}

// watchStall starts to watch for a first sign of activity.
func watchStall(ctx context.Context, after time.Duration) (context.Context, *stall) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &stall{ctx, cancel, time.AfterFunc(after, func() { cancel(errStalled) }), after}
}

func (s *stall) stop() {
	s.timer.Stop()
	s.cancel(nil)
}

// explain returns the reason why stall ended a request, or err if it did not.
func (s *stall) explain(err error) error {
	if cause := context.Cause(s.ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

// body returns r with each Read counted as activity.
func (s *stall) body(r io.ReadCloser) io.ReadCloser { return &stallBody{r, s} }

type stallBody struct {
	io.ReadCloser
	stall *stall
}

// Read implements io.Reader.
func (b *stallBody) Read(dst []byte) (int, error) {
	n, err := b.ReadCloser.Read(dst)
	if n > 0 {
		b.stall.timer.Reset(b.stall.after)
	}
	if err != io.EOF {
		err = b.stall.explain(err)
	}
	return n, err
}

// transientError is a failure that another try may mend. Only what happens on the network is one: a full disk is not.
type transientError struct {
	err   error
	after time.Duration // the server's wish how long to wait; 0 where it has none
	moved bool          // bytes arrived before it failed, so it does not count against the attempts
}

func (e *transientError) Error() string { return e.err.Error() }
func (e *transientError) Unwrap() error { return e.err }

// retry calls try until it succeeds, fails for good, or has failed opt.Attempts times in a row without bringing
// anything. It waits between tries, longer each time and never exactly as long as others do.
func (p *puller) retry(ctx context.Context, try func() error) error {
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
