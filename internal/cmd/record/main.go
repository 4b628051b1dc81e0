// Command record sends a list of requests to a running inference engine and records its replies: the transcripts that
// tests replay without an engine.
//
//	go run ./internal/cmd/record -url http://127.0.0.1:8080 -engine "llama-server 1.2.3" -key KEY \
//		-cases internal/cmd/record/cases/llama.json -out netproto/upstream/testdata/llama
//
// The engine should have just been started, as docs/operate/engines.md says: the cases depend on their order, and some
// use what an earlier one left in the cache. A case with an unexpected status is reported and not written. There is no
// limit for the time of a reply, since some engines compile during their first requests.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	today := time.Now().UTC().Format(time.DateOnly)
	os.Exit(recordCases(ctx, os.Args[1:], today, os.Stdout, os.Stderr))
}

// testCase is one request of the list.
type testCase struct {
	Name   string          `json:"name"`   // of the transcript's file
	Method string          `json:"method"` // "": GET without a body, else POST
	Path   string          `json:"path"`   // begins with a slash
	Body   json.RawMessage `json:"body"`   // JSON; absent: none
	Key    string          `json:"key"`    // sent instead of the engine's own key
	Status int             `json:"status"` // expected; 0: 200
	Keep   []string        `json:"keep"`   // fields of the reply to record; none: the whole reply
}

// recordCases returns the exit code: 0 done, 1 failed, 2 wrong usage.
func recordCases(ctx context.Context, args []string, today string, stdout, stderr io.Writer) int {
	r := recorder{date: today}
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&r.base, "url", "", "`URL` of the engine, as http://127.0.0.1:8080")
	flags.StringVar(&r.engine, "engine", "", "name and `version` of the engine, for the transcripts")
	flags.StringVar(&r.key, "key", "", "the engine's `key`; it is sent and not written down")
	list := flags.String("cases", "", "the `file` with the requests")
	out := flags.String("out", "", "the `folder` for the transcripts, made if it is not there")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if r.base == "" || r.engine == "" || *list == "" || *out == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "record: give -url, -engine, -cases and -out, and no arguments beside flags")
		return 2
	}
	cases, err := readCases(*list)
	if err == nil {
		err = os.MkdirAll(*out, 0o755)
	}
	if err != nil {
		fmt.Fprintln(stderr, "record:", err)
		return 1
	}
	code := 0
	for _, c := range cases { // also after one that fails
		path := filepath.Join(*out, c.Name+".json")
		if err := r.recordCase(ctx, c, path); err != nil {
			fmt.Fprintf(stderr, "record: case %s: %v\n", c.Name, err)
			code = 1
			continue
		}
		fmt.Fprintln(stdout, path)
	}
	return code
}

func readCases(path string) ([]testCase, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var all []testCase
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, c := range all {
		method := "POST"
		if c.Body == nil {
			method = "GET"
		}
		all[i].Method, all[i].Status = cmp.Or(c.Method, method), cmp.Or(c.Status, http.StatusOK)
	}
	return all, nil
}

// recorder sends requests to one engine.
type recorder struct{ base, engine, key, date string }

func (r recorder) recordCase(ctx context.Context, c testCase, path string) error {
	q, err := http.NewRequestWithContext(ctx, c.Method, strings.TrimRight(r.base, "/")+c.Path, bytes.NewReader(c.Body))
	if err != nil {
		return err
	}
	if c.Body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if key := cmp.Or(c.Key, r.key); key != "" {
		q.Header.Set("Authorization", "Bearer "+key)
	}
	reply, err := http.DefaultTransport.RoundTrip(q) // redirects are recorded
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode != c.Status {
		return fmt.Errorf("status %d, expected %d: %.300s", reply.StatusCode, c.Status, b)
	}
	t := fakeengine.Transcript{Engine: r.engine, Recorded: r.date}
	t.Request = fakeengine.RecordedRequest{Method: c.Method, Path: c.Path, Key: c.Key, Body: c.Body}
	t.Response.Status, t.Response.Kept, t.Response.Headers = reply.StatusCode, c.Keep, map[string]string{}
	for _, name := range []string{"content-type", "retry-after"} {
		if v := reply.Header.Get(name); v != "" {
			t.Response.Headers[name] = v
		}
	}
	if b, err = keepFields(c.Keep, b); err != nil {
		return err
	}
	if json.Valid(b) {
		t.Response.Body = b
	} else {
		t.Response.Text = string(b)
	}
	if b, err = encodeUnescaped(t); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

func encodeUnescaped(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// keepFields removes all but the named fields of a JSON object, if any are named. Some engines return so much about
// themselves that a transcript would be long, and it would include the key.
func keepFields(names []string, b []byte) ([]byte, error) {
	if len(names) == 0 {
		return b, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("keep: %w", err)
	}
	some := map[string]json.RawMessage{}
	for _, name := range names {
		if some[name] = all[name]; some[name] == nil {
			return nil, fmt.Errorf("keep: the reply has no field %q", name)
		}
	}
	return encodeUnescaped(some)
}
