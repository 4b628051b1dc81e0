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
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Client sends requests to one engine.
type Client struct {
	base   *url.URL
	secret netproto.Secret // "" where the engine wants none
	http   *http.Client
}

// ParseURL reads the address of an engine: http or https, a host, and a path at most.
func ParseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("this is no URL: give one such as http://127.0.0.1:8000")
	case u.User != nil:
		return nil, errors.New("leave the user and password out of the URL; a key is given in a file")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL must begin with http:// or https://, as in http://127.0.0.1:8000")
	case u.Hostname() == "":
		return nil, errors.New("the URL names no host: give one such as http://127.0.0.1:8000")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("leave out what follows ? or # in the URL")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// NewClient returns a client for an engine. The secret goes with every request. Several clients may share a transport.
func NewClient(base *url.URL, secret netproto.Secret, transport http.RoundTripper) *Client {
	return &Client{base: base, secret: secret, http: &http.Client{
		Transport: transport,
		// a redirect would carry the secret, and contexts, to wherever it points
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// NewTransport returns a transport that keeps as many idle connections as there may be requests at a time: a request
// that is cancelled costs its connection.
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

// maxReply is the longest body of a reply that is read: the texts and probabilities of 256 tokens take some 64 KiB,
// the rows of an audit of a long context a few MiB.
const maxReply = 32 << 20

// Get reads a JSON document.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// Post sends a JSON document and reads another. A request that meets a connection which the engine was just closing is
// sent again: all requests here may be repeated.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return c.do(ctx, http.MethodPost, path, b, into)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, into any) error {
	at := *c.base
	at.Path += path
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.Header["Idempotency-Key"] = nil // it is not sent: it tells net/http that the request may be repeated
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.secret != "" {
		r.Header.Set("Authorization", "Bearer "+string(c.secret))
	}
	w, err := c.http.Do(r)
	if err != nil {
		return err // it names the address, and nothing of the body
	}
	defer w.Body.Close()
	b, err := io.ReadAll(io.LimitReader(w.Body, maxReply+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case len(b) > maxReply:
		return fmt.Errorf("%s %s: %w: more than %d MiB", method, path, ErrReply, maxReply>>20)
	case w.StatusCode != http.StatusOK:
		return statusError(method+" "+path, w, b)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s %s: %w: %w", method, path, ErrReply, plain(err))
	}
	return nil
}

// plain keeps of an error of encoding/json what does not repeat the document.
func plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %s has a value of another type", wrong.Field)
	}
	return errors.New("it is not JSON as a whole")
}

// StatusError is a reply that says no. Its text holds no words of the engine, which may repeat what was asked; Said
// does.
type StatusError struct {
	Request    string // method and path
	Status     int    // of HTTP
	Type       string // that the engine calls the error by, such as "exceed_context_size_error"; "" if none
	Said       string // the engine's words, cut
	RetryAfter time.Duration
}

// Error says which request got which status.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.Request, e.Status, http.StatusText(e.Status))
	if e.Type != "" {
		text += " (" + e.Type + ")"
	}
	return text
}

// Unwrap returns the code that the client of the gateway is told.
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

// statusError reads what came with a status: {"error":{"message","type"}}, {"error":"…"}, {"message":…}, {"detail":…}
// or a text.
func statusError(request string, w *http.Response, b []byte) *StatusError {
	e := &StatusError{Request: request, Status: w.StatusCode, RetryAfter: retryAfter(w.Header.Get("Retry-After"))}
	var said struct {
		Error   json.RawMessage `json:"error"`
		Message any             `json:"message"`
		Detail  any             `json:"detail"`
		Type    any             `json:"type"`
	}
	e.Said = string(b)
	if json.Unmarshal(b, &said) == nil {
		var inner struct{ Message, Type any }
		if json.Unmarshal(said.Error, &inner) == nil {
			said.Message, said.Type = inner.Message, inner.Type
		} else if text := ""; json.Unmarshal(said.Error, &text) == nil {
			said.Message = text
		}
		for _, v := range []any{said.Detail, said.Message} {
			if s, ok := v.(string); ok && s != "" {
				e.Said = s
			}
		}
		e.Type = identifier(said.Type)
	}
	const longest = 300
	e.Said = strings.ToValidUTF8(e.Said[:min(len(e.Said), longest)], "")
	return e
}

// identifier returns v if it is a name, and cannot be a sentence.
func identifier(v any) string {
	s, _ := v.(string)
	for _, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') || len(s) > 40 {
			return ""
		}
	}
	return s
}

// retryAfter reads seconds; a date, which engines do not send, counts as nothing.
func retryAfter(s string) time.Duration {
	const most = 3600
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return time.Duration(min(n, most) * float64(time.Second))
}

// Status returns the status of HTTP that an error stands for; 0 if it is none.
func Status(err error) int {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status
	}
	return 0
}

// Type returns the name that an engine gives an error, "" if there is none.
func Type(err error) string {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Type
	}
	return ""
}

// Said is the text of an error with the engine's own words, for errors about requests that hold no text of a user.
func Said(err error) string {
	e, ok := errors.AsType[*StatusError](err)
	if !ok || e.Said == "" {
		return err.Error()
	}
	return fmt.Sprintf("%s: %q", err, e.Said)
}
