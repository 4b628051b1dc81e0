//go:build clients

package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// load holds the parameters of TestLoad.
type load struct {
	connections, seconds, tokens int
	model                        string // file; "" for one of random weights
}

// disturbers is the number of concurrent clients that read nothing, and of clients that disconnect.
const disturbers = 8

// readLoad reads PILOTFISH_LOAD, "CONNECTIONS SECONDS TOKENS [MODEL]".
func readLoad(t *testing.T) (l load) {
	t.Helper()
	l = load{connections: 64, seconds: 30, tokens: 32}
	if text := os.Getenv("PILOTFISH_LOAD"); text != "" {
		n, err := fmt.Sscan(text, &l.connections, &l.seconds, &l.tokens, &l.model)
		if n < 3 {
			require.NoError(t, err)
		}
	}
	return l
}

// tally counts the outcomes of requests.
type tally struct {
	mu                      sync.Mutex
	whole, first            []time.Duration
	statuses                map[string]int // by path and status
	lost, tokens, cut, gone int
	memory                  []int64 // memory of the server in KiB, once a second
}

// request is one kind of request. The verb %d in its body is replaced by a new number each time.
type request struct {
	path, body string
	status     int
	done       string // part of every complete answer
}

// requests returns requests to all paths: streams and complete answers, texts with a common prefix, tools, more schemas
// than the cache holds, stored answers, scores, and invalid requests.
func requests(tokens int) []request {
	system := strings.Repeat("You answer briefly and say where it was found. ", 20)
	all := []request{
		{"/completions", `{"prompt":"Once upon a time %d","max_tokens":TOKENS,"stream":true,
			"stream_options":{"include_usage":true}}`, 200, "data: [DONE]"},
		{"/chat/completions", `{"messages":[{"role":"system","content":"SYSTEM"},
			{"role":"user","content":"Who was number %d?"}],"max_tokens":TOKENS,"stream":true,
			"stream_options":{"include_usage":true}}`, 200, "data: [DONE]"},
		{"/chat/completions", `{"messages":[{"role":"user","content":"Weather of %d?"}],"max_tokens":TOKENS,
			"tool_choice":"required","tools":[{"type":"function","function":{"name":"weather",
			"parameters":{"properties":{"town%[1]d":{"type":"string"}}}}}]}`, 200, `"finish_reason":`},
		{"/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":TOKENS,"logprobs":true,
			"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object",
			"properties":{"name%d":{"type":"string","maxLength":5},"of":{"enum":[1,2,%[1]d]}}}}}}`,
			200, `"finish_reason":`},
		{"/responses", `{"input":"Tell me of %d","max_output_tokens":TOKENS,"stream":true,
			"instructions":"SYSTEM"}`, 200, `"output_tokens":`},
		{"/messages", `{"system":"SYSTEM","messages":[{"role":"user","content":"And of %d?"}],"max_tokens":TOKENS,
			"stream":true}`, 200, "message_stop"},
		{"/messages/count_tokens", `{"messages":[{"role":"user","content":"And of %d?"}]}`, 200, "input_tokens"},
		{"/completions", `{"prompt":"A text %d that is scored","echo":true,"logprobs":1,"max_tokens":0}`,
			200, "token_logprobs"},
		{"/chat/completions", `{"messages":[{"role":"user","content":"%d`, 400, "error"},
		{"/chat/completions", `{"messages":[],"unheard_of_%d":1}`, 400, "error"},
		{"/nowhere%d", `{}`, 404, ""},
	}
	for i := range all {
		all[i].body = strings.NewReplacer("TOKENS", fmt.Sprint(tokens), "SYSTEM", system).Replace(all[i].body)
	}
	return all
}

// TestLoad sends requests of all kinds over many connections at the same time, in company of clients that read nothing
// and clients that disconnect. No answer of the other clients is lost or cut, memory is bounded, and no connection
// stays open. In a run of ten minutes or more, memory stops growing once the caches are full.
func TestLoad(t *testing.T) {
	l := readLoad(t)
	if l.model == "" {
		l.model = randomModel(t)
	}
	// the store of answers and the cache of grammars fill up soon: each number makes new entries
	s := startServer(t, l.model, "--parallel", "16") // with 256 requests that wait
	kinds := requests(l.tokens)
	got := &tally{statuses: map[string]int{}}
	for i := range kinds { // the first requests allocate what all requests share
		one(t, s, kinds[i], i, got)
	}
	http.DefaultClient.CloseIdleConnections()
	idle(t, s)
	before, open := s.memory(t), s.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(l.seconds)*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for c := range l.connections {
		all.Go(func() {
			for i := c; ctx.Err() == nil; i++ {
				one(t, s, kinds[i%len(kinds)], i*l.connections+c, got)
			}
		})
	}
	for range disturbers {
		all.Go(func() { takesNothing(ctx, s, got) })
		all.Go(func() { goesAway(ctx, s, got) })
	}
	all.Go(func() {
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for ; ctx.Err() == nil; <-second.C {
			got.memory = append(got.memory, s.memory(t))
		}
	})
	all.Wait()
	idle(t, s)
	http.DefaultClient.CloseIdleConnections()
	got.report(t, l, before)
	assert.Zero(t, got.lost, "incomplete answers")
	assert.Less(t, slices.Max(got.memory), before+512<<10, "KiB")
	for s.open(t) > open { // connections that are closed, if not all stay open until the test is timed out
		time.Sleep(10 * time.Millisecond)
	}
	if l.seconds >= 600 {
		third := len(got.memory) / 3
		before, late := middle(got.memory[third:2*third]), middle(got.memory[2*third:])
		assert.Less(t, late, before+before/20, "memory in KiB: last third of the time, second third")
	}
}

// report logs the outcome of a load.
func (got *tally) report(t *testing.T, l load, before int64) {
	t.Logf("%d connections for %d s, answers of max %d tokens: "+
		"%d answers (%.0f a second), %d tokens (%.0f a second)",
		l.connections, l.seconds, l.tokens, len(got.whole), float64(len(got.whole))/float64(l.seconds), got.tokens,
		float64(got.tokens)/float64(l.seconds))
	t.Logf("first byte: %s", quantiles(got.first))
	t.Logf("whole answer: %s", quantiles(got.whole))
	t.Logf("by path and status: %v", got.statuses)
	t.Logf("also %d clients that read nothing, %d clients that disconnected", got.cut, got.gone)
	t.Logf("memory: %d MiB before, max %d MiB", before>>10, slices.Max(got.memory)>>10)
	var tenths []int64
	for i := range 10 {
		if part := got.memory[i*len(got.memory)/10 : (i+1)*len(got.memory)/10]; len(part) > 0 {
			tenths = append(tenths, middle(part)>>10)
		}
	}
	t.Logf("medians of the tenths of the time: %v MiB", tenths)
}

// middle returns the median.
func middle(all []int64) int64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// used matches the number of tokens of an answer.
var used = regexp.MustCompile(`"(?:completion|output)_tokens":(\d+)`)

// one sends a request and records the outcome.
func one(t *testing.T, s *server, r request, number int, got *tally) {
	begin := time.Now()
	path, body := r.path, r.body
	if strings.Contains(path, "%d") {
		path = fmt.Sprintf(path, number)
	}
	if strings.Contains(body, "%") {
		body = fmt.Sprintf(body, number)
	}
	status, first, text, err := post(s, path, body)
	got.mu.Lock()
	defer got.mu.Unlock()
	if err != nil || status != r.status || !strings.Contains(text, r.done) {
		got.lost++
		t.Log(path, status, err, text)
		return
	}
	if all := used.FindAllStringSubmatch(text, -1); all != nil {
		n, _ := strconv.Atoi(all[len(all)-1][1])
		got.tokens += n
	}
	got.statuses[fmt.Sprint(r.path, " ", status)]++
	got.first, got.whole = append(got.first, first), append(got.whole, time.Since(begin))
}

// post returns a complete answer and the time until its first byte.
func post(s *server, path, body string) (status int, first time.Duration, text string, err error) {
	begin := time.Now()
	answer, err := stream(context.Background(), s, http.DefaultClient, path, body)
	if err != nil {
		return 0, 0, "", err
	}
	defer answer.Body.Close()
	start := make([]byte, 1)
	n, _ := io.ReadFull(answer.Body, start) // an answer may be empty
	first = time.Since(begin)
	rest, err := io.ReadAll(answer.Body)
	return answer.StatusCode, first, string(start[:n]) + string(rest), err
}

// narrow returns a client with connections that buffer little.
func narrow() *http.Client {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		wrong := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF,
				4096)
		})
		return errors.Join(wrong, err)
	}}
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
}

// stream sends a request.
func stream(ctx context.Context, s *server, client *http.Client, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+apiKey)
	return client.Do(r)
}

// long asks for more text than the buffers of connections hold.
const long = `{"prompt":"a","max_tokens":8000,"stream":true,"logprobs":5,"logit_bias":{"65":100}}`

// takesNothing requests long texts and does not read them.
func takesNothing(ctx context.Context, s *server, got *tally) {
	client := narrow()
	for ctx.Err() == nil {
		answer, err := stream(ctx, s, client, "/completions", long)
		if err != nil {
			return
		}
		select {
		case <-time.After(8 * time.Second):
		case <-ctx.Done():
		}
		answer.Body.Close()
		got.mu.Lock()
		got.cut++
		got.mu.Unlock()
	}
}

// goesAway requests long texts and disconnects after the first piece.
func goesAway(ctx context.Context, s *server, got *tally) {
	client := narrow()
	for ctx.Err() == nil {
		answer, err := stream(ctx, s, client, "/completions", long)
		if err != nil {
			return
		}
		_, _ = io.ReadFull(answer.Body, make([]byte, 100))
		answer.Body.Close()
		got.mu.Lock()
		got.gone++
		got.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
	}
}

// quantiles formats the distribution of durations.
func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return all[min(int(q*float64(len(all))), len(all)-1)].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, longest %v", at(0.5), at(0.9), at(0.99), at(1))
}

// memory returns the resident memory of the server in KiB.
func (s *server) memory(t *testing.T) (kib int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		t.Log("*** LEFT OUT: memory, which needs /proc ***")
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte("VmRSS:"))
	_, _ = fmt.Fscan(bytes.NewReader(rest), &kib)
	return kib
}

// open returns the number of files and connections that the server has open.
func (s *server) open(t *testing.T) int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
	if err != nil {
		t.Log("*** LEFT OUT: open files, which need /proc ***")
	}
	return len(all)
}

// idle waits until no request is in flight.
func idle(t *testing.T, s *server) {
	for ; ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get(strings.TrimSuffix(s.url, "/v1") + "/health")
		require.NoError(t, err)
		b, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		answer.Body.Close()
		if bytes.Contains(b, []byte(`"active":0`)) {
			return
		}
	}
}
