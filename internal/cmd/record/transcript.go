package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxReply is the maximum size of a reply, in bytes.
const maxReply = 1 << 20

// transcript is one request with its reply.
type transcript struct {
	Engine   string
	Recorded string // the day, as 2026-11-22
	Request  request
	Response response
}

type request struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Key    string          `json:"key,omitempty"` // sent instead of the right one
	Body   json.RawMessage `json:"body,omitempty"`
}

// response has the body in Body if it is JSON, without blanks, else in Text.
type response struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`        // content-type and retry-after, if present
	Kept    []string          `json:"kept,omitempty"` // if set, the body has only these of its fields
	Body    json.RawMessage   `json:"body,omitempty"`
	Text    string            `json:"text,omitempty"`
}

// recorder sends requests to one engine.
type recorder struct {
	base, engine, key, date string
	client                  *http.Client
}

// record sends the request of a case and returns the transcript as a file.
func (r *recorder) record(ctx context.Context, c testCase) ([]byte, error) {
	answer, err := r.ask(ctx, c)
	if err != nil {
		return nil, err
	}
	if answer.Status != c.Status {
		return nil, fmt.Errorf("status %d, expected %d: %.300s%.300s", answer.Status, c.Status, answer.Body,
			answer.Text)
	}
	if err := answer.keep(c.Keep); err != nil {
		return nil, err
	}
	return transcript{r.engine, r.date, request{c.Method, c.Path, c.Key, c.Body}, answer}.file()
}

func (r *recorder) ask(ctx context.Context, c testCase) (response, error) {
	q, err := http.NewRequestWithContext(ctx, c.Method, strings.TrimRight(r.base, "/")+c.Path, bytes.NewReader(c.Body))
	if err != nil {
		return response{}, err
	}
	if c.Body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if key := cmp.Or(c.Key, r.key); key != "" {
		q.Header.Set("Authorization", "Bearer "+key)
	}
	reply, err := r.client.Do(q)
	if err != nil {
		return response{}, err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(io.LimitReader(reply.Body, maxReply+1))
	if err == nil && len(b) > maxReply {
		err = fmt.Errorf("a reply of more than %d bytes", maxReply)
	}
	return newResponse(reply, b), err
}

func newResponse(reply *http.Response, b []byte) response {
	a := response{Status: reply.StatusCode, Headers: map[string]string{}}
	for _, name := range []string{"content-type", "retry-after"} {
		if v := reply.Header.Get(name); v != "" {
			a.Headers[name] = v
		}
	}
	if json.Valid(b) {
		a.Body = b
	} else {
		a.Text = string(b)
	}
	return a
}

// keep removes all but the named fields of the body, if any are named. Some engines return so much about themselves
// that a transcript would be long, and it would include the key.
func (a *response) keep(names []string) error {
	if len(names) == 0 {
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(a.Body, &all); err != nil {
		return errors.New("keep: the reply is not a JSON object")
	}
	some := map[string]json.RawMessage{}
	for _, name := range names {
		v, ok := all[name]
		if !ok {
			return fmt.Errorf("keep: the reply has no field %q", name)
		}
		some[name] = v
	}
	b, err := compact(some)
	a.Body, a.Kept = b, names
	return err
}

// file returns the transcript as a JSON object with a line for each part.
func (t transcript) file() ([]byte, error) {
	var b bytes.Buffer
	for i, part := range []struct {
		name  string
		value any
	}{{"engine", t.Engine}, {"recorded", t.Recorded}, {"request", t.Request}, {"response", t.Response}} {
		v, err := compact(part.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		b.WriteString([]string{"{\n", ",\n", ",\n", ",\n"}[i])
		fmt.Fprintf(&b, "%q: %s", part.name, v)
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

// compact returns v as JSON without blanks, and without unnecessary escapes.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
