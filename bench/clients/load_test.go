//go:build clients

package clients

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// load is what TestLoad asks of a server.
type load struct {
	connections, seconds, tokens int
	model                        string // file; "" for one of random weights
}

// disturbers is how many readers take nothing, and how many clients go away, at a time.
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

// tally is what became of requests.
type tally struct {
	mu                      sync.Mutex
	whole, first            []time.Duration
	statuses                map[int]int
	lost, tokens, cut, gone int
	most                    int64 // memory of the server, KiB
}

// TestLoad streams answers over many connections at once for a while, beside readers that take nothing and clients that
// go away. No answer of the others is lost or cut, and memory is bounded.
func TestLoad(t *testing.T) {
	l := readLoad(t)
	if l.model == "" {
		l.model = randomModel(t)
	}
	s := startServer(t, l.model, "--parallel", "8", "--queue", "256", "--reader-timeout", "5s")
	one(t, s, l, &tally{statuses: map[int]int{}}) // the first one makes what all share
	before := s.memory(t)
	got := &tally{statuses: map[int]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(l.seconds)*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range l.connections {
		all.Go(func() {
			for ctx.Err() == nil {
				one(t, s, l, got)
			}
		})
	}
	for range disturbers {
		all.Go(func() { takesNothing(ctx, s, got) })
		all.Go(func() { goesAway(ctx, s, got) })
	}
	all.Go(func() {
		for ctx.Err() == nil {
			got.most = max(got.most, s.memory(t))
			time.Sleep(100 * time.Millisecond)
		}
	})
	all.Wait()
	assert.Zero(t, got.lost, "answers that did not come whole")
	assert.Equal(t, map[int]int{http.StatusOK: len(got.whole)}, got.statuses)
	t.Logf("%d connections for %d s, answers of at most %d tokens: "+
		"%d answers (%.0f a second), %d tokens (%.0f a second)",
		l.connections, l.seconds, l.tokens, len(got.whole), float64(len(got.whole))/float64(l.seconds), got.tokens,
		float64(got.tokens)/float64(l.seconds))
	t.Logf("first token: %s", quantiles(got.first))
	t.Logf("whole answer: %s", quantiles(got.whole))
	t.Logf("beside them %d readers that took nothing, %d clients that went away", got.cut, got.gone)
	t.Logf("memory: %d MiB after the first answer, %d MiB at most, %d MiB in the end", before>>10, got.most>>10,
		s.memory(t)>>10)
	assert.Less(t, got.most, before+512<<10, "KiB")
	idle(t, s)
}

// one streams an answer, and notes what became of it.
func one(t *testing.T, s *server, l load, got *tally) {
	begin := time.Now()
	answer, err := stream(context.Background(), s, http.DefaultClient,
		fmt.Sprintf(`{"prompt":"Once upon a time %d","max_tokens":%d,"stream":true}`,
			begin.UnixNano()%100, l.tokens))
	got.mu.Lock()
	defer got.mu.Unlock()
	if err != nil {
		got.lost++
		t.Log(err)
		return
	}
	got.mu.Unlock()
	var first time.Duration
	tokens, done := 0, false
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if first == 0 {
			first = time.Since(begin)
		}
		done = done || lines.Text() == "data: [DONE]"
		if strings.Contains(lines.Text(), `"text":"`) {
			tokens++
		}
	}
	answer.Body.Close()
	got.mu.Lock()
	got.statuses[answer.StatusCode]++
	if !done || lines.Err() != nil {
		got.lost++
	}
	got.tokens += tokens
	got.first, got.whole = append(got.first, first), append(got.whole, time.Since(begin))
}

// narrow is a client whose connections take little more than what is read.
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
func stream(ctx context.Context, s *server, client *http.Client, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+apiKey)
	return client.Do(r)
}

// long asks for more text than the buffers of connections hold.
const long = `{"prompt":"a","max_tokens":8000,"stream":true,"logprobs":5,"logit_bias":{"65":100}}`

// takesNothing asks for long texts and reads nothing of them.
func takesNothing(ctx context.Context, s *server, got *tally) {
	client := narrow()
	for ctx.Err() == nil {
		answer, err := stream(ctx, s, client, long)
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

// goesAway asks for long texts and leaves after the first piece.
func goesAway(ctx context.Context, s *server, got *tally) {
	client := narrow()
	for ctx.Err() == nil {
		answer, err := stream(ctx, s, client, long)
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

// quantiles says how durations are spread.
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

// memory returns what the server keeps in memory now, in KiB.
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

// idle waits until nothing is being answered.
func idle(t *testing.T, s *server) {
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get(strings.TrimSuffix(s.url, "/v1") + "/health")
		require.NoError(t, err)
		b, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		answer.Body.Close()
		if bytes.Contains(b, []byte(`"active":0`)) {
			return
		}
		require.Less(t, time.Since(begin), 15*time.Second, "what nobody waits for goes on: %s", b)
	}
}
