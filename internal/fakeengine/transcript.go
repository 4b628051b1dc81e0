package fakeengine

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Transcript is a request to a real engine with its reply, as internal/cmd/record writes it. It implements
// http.RoundTripper, which returns the recorded reply.
type Transcript struct {
	Engine   string          `json:"engine"`
	Recorded string          `json:"recorded"` // the day, as 2026-11-22
	Request  RecordedRequest `json:"request"`
	Response struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`        // content-type and retry-after, if present
		Kept    []string          `json:"kept,omitempty"` // if set, the body has only these of its fields
		Body    json.RawMessage   `json:"body,omitempty"`
		Text    string            `json:"text,omitempty"` // a body that is not JSON
	} `json:"response"`

	sent []byte // the body of the last request
}

// RecordedRequest is the request of a [Transcript].
type RecordedRequest struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Key    string          `json:"key,omitempty"` // sent instead of the right one
	Body   json.RawMessage `json:"body,omitempty"`
}

// ReadTranscript reads a file.
func ReadTranscript(path string) (*Transcript, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := &Transcript{}
	if err := json.Unmarshal(b, t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Field decodes a field of the recorded request, with a path of names.
func (t *Transcript) Field(into any, names ...string) error {
	b := t.Request.Body
	for _, name := range names {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(b, &fields); err != nil {
			return err
		}
		b = fields[name]
	}
	return json.Unmarshal(b, into)
}

// RoundTrip implements http.RoundTripper. A request to another path than the recorded one is an error.
func (t *Transcript) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != t.Request.Method || r.URL.Path != t.Request.Path {
		return nil, fmt.Errorf("%s %s was recorded, not %s %s", t.Request.Method, t.Request.Path, r.Method, r.URL.Path)
	}
	var err error
	if t.sent, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	for name, value := range t.Response.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(t.Response.Status)
	w.Write(t.Response.Body)
	return w.Result(), nil
}

// Recorded is a folder of transcripts. It implements http.RoundTripper: a request without a body gets the reply in the
// file with the name of its path, such as server-info.json.
type Recorded string

// RoundTrip implements http.RoundTripper.
func (folder Recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	name := strings.ReplaceAll(path.Base(r.URL.Path), "_", "-")
	t, err := ReadTranscript(filepath.Join(string(folder), name+".json"))
	if err != nil {
		return nil, err
	}
	return t.RoundTrip(r)
}

// Unlike returns the fields, except for the named ones, in which the last request differs from the recorded one: the
// real engine was never asked in that way.
func (t *Transcript) Unlike(but ...string) ([]string, error) {
	var recorded, sent map[string]any
	if err := json.Unmarshal(t.Request.Body, &recorded); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(t.sent, &sent); err != nil {
		return nil, err
	}
	return differingFields("", recorded, sent, but), nil
}

func differingFields(path string, a, b map[string]any, but []string) (names []string) {
	for _, all := range []map[string]any{a, b} {
		for name := range all {
			full := path + name
			if slices.Contains(but, full) || slices.Contains(names, full) {
				continue
			}
			x, inA := a[name].(map[string]any)
			y, inB := b[name].(map[string]any)
			if inA && inB {
				names = append(names, differingFields(full+".", x, y, but)...)
			} else if !reflect.DeepEqual(a[name], b[name]) {
				names = append(names, full)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Reply decodes the engine's reply.
func (t *Transcript) Reply(into any) error { return json.Unmarshal(t.Response.Body, into) }
