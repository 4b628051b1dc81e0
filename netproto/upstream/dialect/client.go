package dialect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Client sends requests to one engine.
type Client struct {
	base     *url.URL
	secret   netproto.Secret // "" if the engine needs none
	http     *http.Client
	aborting sync.WaitGroup
	aborts   chan struct{} // holds a value for each abort under way
}

// ParseURL parses the address of an engine: http or https, a host, and optionally a path.
func ParseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("not a URL: use one such as http://127.0.0.1:8000")
	case u.User != nil:
		return nil, errors.New("leave the user and password out of the URL; a key is given in a file")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL must begin with http:// or https://, as in http://127.0.0.1:8000")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host: use one such as http://127.0.0.1:8000")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("leave out the query and the fragment of the URL")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// NewClient returns a client for an engine. The secret is sent with every request. Several clients may share a
// transport. Close it after the last request.
func NewClient(base *url.URL, secret netproto.Secret, transport http.RoundTripper) *Client {
	const most = 64 // concurrent aborts; above that the server notices cancelled requests later
	return &Client{base: base, secret: secret, aborts: make(chan struct{}, most), http: &http.Client{
		Transport: transport,
		// a redirect would send the secret and contexts to another address
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close waits until the aborts under way are sent.
func (c *Client) Close() { c.aborting.Wait() }

// postAbort tells the engine, in the background, that nobody waits for a request any more.
func (c *Client) postAbort(ctx context.Context, path string, body any) {
	const patience = 2 * time.Second
	select {
	case c.aborts <- struct{}{}:
	default:
		return
	}
	c.aborting.Go(func() {
		defer func() { <-c.aborts }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = c.Post(ctx, path, body, nil) // otherwise the server notices later
	})
}

// NewTransport returns a transport that keeps as many idle connections as there may be concurrent requests: cancelling
// a request closes its connection.
func NewTransport(parallel int) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: parallel,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}
}

// maxReply is the maximum size of a reply: the texts and probabilities of 256 tokens take some 64 KiB, the rows of an
// audit of a long context a few MiB.
const maxReply = 32 << 20

// Get requests a JSON document.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.doJSON(ctx, http.MethodGet, path, nil, into)
}

// Post sends a JSON document and reads another. If the engine closes the connection at that moment, the request is sent
// again: all requests here may be repeated.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return c.doJSON(ctx, http.MethodPost, path, b, into)
}

func (c *Client) doJSON(ctx context.Context, method, path string, body []byte, into any) error {
	at := *c.base
	at.Path += path
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.Header["Idempotency-Key"] = nil // it is not sent: a nil value makes net/http repeat the request if needed
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.secret != "" {
		r.Header.Set("Authorization", "Bearer "+string(c.secret))
	}
	w, err := c.http.Do(r)
	if err != nil {
		return err // the error has the address and nothing of the body
	}
	defer w.Body.Close()
	b, err := io.ReadAll(io.LimitReader(w.Body, maxReply+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case len(b) > maxReply:
		return fmt.Errorf("%s %s: %w: more than %d MiB", method, path, ErrReply, maxReply>>20)
	case w.StatusCode != http.StatusOK:
		return newStatusError(method+" "+path, w, b)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s %s: %w: %w", method, path, ErrReply, plainJSONError(err))
	}
	return nil
}

// plainJSONError returns the part of an encoding/json error that does not quote the document.
func plainJSONError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %s has a value of another type", wrong.Field)
	}
	return errors.New("it is not valid JSON")
}

// StatusError is a reply with an error status. Its text has none of the engine's words, which may quote the request;
// see Said.
type StatusError struct {
	Request    string // method and path
	Status     int    // of HTTP
	Said       string // the engine's message, shortened
	RetryAfter time.Duration
}

// Error returns the request and its status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %d %s", e.Request, e.Status, http.StatusText(e.Status))
}

// Unwrap returns the code for the client of the gateway.
func (e *StatusError) Unwrap() error {
	switch e.Status {
	case http.StatusRequestEntityTooLarge:
		return netproto.TooLarge
	case http.StatusTooManyRequests:
		return netproto.TooFast
	case http.StatusServiceUnavailable:
		return netproto.Busy
	}
	return netproto.Failed
}

// newStatusError parses the body of an error response: {"error":{"message"}}, {"error":"…"}, {"message":…},
// {"detail":…} or a text.
func newStatusError(request string, w *http.Response, b []byte) *StatusError {
	e := &StatusError{Request: request, Status: w.StatusCode, RetryAfter: parseRetryAfter(w.Header.Get("Retry-After"))}
	var said struct {
		Error   json.RawMessage `json:"error"`
		Message any             `json:"message"`
		Detail  any             `json:"detail"`
	}
	e.Said = string(b)
	if json.Unmarshal(b, &said) == nil {
		var inner struct{ Message any }
		if json.Unmarshal(said.Error, &inner) == nil {
			said.Message = inner.Message
		} else if text := ""; json.Unmarshal(said.Error, &text) == nil {
			said.Message = text
		}
		for _, v := range []any{said.Detail, said.Message} {
			if s, _ := v.(string); s != "" {
				e.Said = s
			}
		}
	}
	const longest = 300
	e.Said = strings.ToValidUTF8(e.Said[:min(len(e.Said), longest)], "")
	return e
}

// parseRetryAfter parses seconds; it ignores dates, which engines do not send.
func parseRetryAfter(s string) time.Duration {
	const most = 3600
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return time.Duration(min(n, most) * float64(time.Second))
}

// Status returns the HTTP status of an error; 0 if it has none.
func Status(err error) int {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status
	}
	return 0
}

// Said returns the text of an error with the engine's message, for requests without text of users.
func Said(err error) string {
	e, ok := errors.AsType[*StatusError](err)
	if !ok || e.Said == "" {
		return err.Error()
	}
	return fmt.Sprintf("%s: %q", err, e.Said)
}
