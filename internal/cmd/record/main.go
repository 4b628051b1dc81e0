// Command record sends a list of requests to a running inference engine and records its replies: the transcripts that
// tests replay without an engine.
//
//	go run ./internal/cmd/record -url http://127.0.0.1:8080 -engine "llama-server 1.2.3" -key KEY \
//		-cases internal/cmd/record/cases/llama.json -out netproto/upstream/testdata/llama
//
// The engine should have just been started, as docs/engines.md says: the cases depend on their order, and some use what
// an earlier one left in the cache. A case with an unexpected status is reported and not written. There is no limit for
// the time of a reply, since some engines compile during their first requests.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	today := time.Now().UTC().Format(time.DateOnly)
	os.Exit(run(ctx, os.Args[1:], today, os.Stdout, os.Stderr))
}

// run returns the exit code: 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, today string, stdout, stderr io.Writer) int {
	r := recorder{date: today}
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&r.base, "url", "", "`URL` of the engine, as http://127.0.0.1:8080")
	flags.StringVar(&r.engine, "engine", "", "name and `version` of the engine, for the transcripts")
	flags.StringVar(&r.key, "key", "", "the engine's `key`; it is sent and not written down")
	cases := flags.String("cases", "", "the `file` with the requests")
	out := flags.String("out", "", "the `folder` for the transcripts, made if it is not there")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if r.base == "" || r.engine == "" || *cases == "" || *out == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "record: give -url, -engine, -cases and -out, and no arguments beside flags")
		return 2
	}
	if u, err := url.Parse(r.base); err != nil || u.Host == "" {
		fmt.Fprintf(stderr, "record: -url %q: give scheme and host, as http://127.0.0.1:8080\n", r.base)
		return 2
	}
	all, err := readCases(*cases)
	if err == nil {
		err = os.MkdirAll(*out, 0o755)
	}
	if err != nil {
		fmt.Fprintln(stderr, "record:", err)
		return 1
	}
	r.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	defer r.client.CloseIdleConnections()
	return r.all(ctx, all, *out, stdout, stderr)
}

// all records the cases in order; it continues after one that fails.
func (r *recorder) all(ctx context.Context, cases []testCase, folder string, stdout, stderr io.Writer) int {
	code := 0
	for _, c := range cases {
		b, err := r.record(ctx, c)
		path := filepath.Join(folder, c.Name+".json")
		if err == nil {
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			fmt.Fprintf(stderr, "record: case %s: %v\n", c.Name, err)
			code = 1
			continue
		}
		fmt.Fprintf(stdout, "%s, %d bytes\n", path, len(b))
	}
	return code
}
