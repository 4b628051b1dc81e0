package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// TestLog: the log has a line for each event that matters to an operator, without secrets.
func TestLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out bytes.Buffer // written by one goroutine, which Close waits for
		log := gateway.NewLog(slog.New(slog.NewTextHandler(&out, nil)))
		opt := gateway.Options{Events: log.Event, Tokens: []gateway.Token{{Name: "lab", Secret: secretA}}}
		w := newWorld(t, &ether{}, opt, &fake{})
		r := w.enter(guest{secret: secretA, device: 5, from: "10.2.0.1"})
		r.asks(1, path(5, 1))
		for range 30 {
			w.turned(guest{secret: "guessed " + secretB, from: "10.2.0.2"}, netproto.WrongSecret)
		}
		_ = r.CloseWithError(0, "")
		settle()
		w.stop()
		log.Close()
		text, d := out.String(), netproto.Device{5}
		for _, part := range []string{
			"level=INFO msg=connected client=lab device=" + d.Name() + " address=10.2.0.1",
			"level=WARN msg=refused address=10.2.0.2 code=3 error=\"refused: the access token is missing or wrong\"",
			"level=INFO msg=disconnected client=lab device=" + d.Name() + " address=10.2.0.1 asks=1 lasted_ms=",
			"level=INFO msg=draining", "level=INFO msg=drained",
		} {
			assert.Contains(t, text, part)
		}
		for _, part := range []string{string(secretA), "guessed", d.Reveal()[:12], fmt.Sprint(d[:4])} {
			assert.NotContains(t, text, part)
		}
	})
}

// lines is a log that a test can read.
type lines struct {
	mu   sync.Mutex
	all  []string
	hold chan struct{} // if set, lines are written after it is closed
}

func (l *lines) Write(p []byte) (int, error) {
	if l.hold != nil {
		<-l.hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(p)))
	return len(p), nil
}

// logTo returns a log without times.
func logTo(to *lines) *gateway.Log {
	timeless := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return gateway.NewLog(slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{ReplaceAttr: timeless})))
}

// TestLogDebug: at the level debug every ask, sync and dropped session has a line, without texts of users.
func TestLogDebug(t *testing.T) {
	var out bytes.Buffer // written by one goroutine, which Close waits for
	bubble.Test(t, func(t *testing.T) {
		log := gateway.NewLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		w := newWorld(t, &ether{}, gateway.Options{Events: log.Event}, &fake{})
		r := w.enter(guest{device: 5, from: "10.2.0.1"})
		for i := range 50 {
			r.asks(1, path(70+i, 1))
		}
		r.say(syncOf(t, 2, path(12, 2)))
		settle()
		w.stop()
		log.Close()
	})
	said := out.String()
	assert.Equal(t, 50, strings.Count(said, "level=DEBUG msg=answered device="))
	assert.Contains(t, said, "session=1 message=Ask context=70 delta=70 compute_us=3000")
	assert.Contains(t, said, "level=DEBUG msg=synced")
	assert.Contains(t, said, "level=DEBUG msg=forgotten")
	assert.NotContains(t, said, fmt.Sprint(path(119, 1)[100:]))
}

// lineOf returns the line of an event, or "" if it has none.
func lineOf(t *testing.T, log *gateway.Log, out *lines, e gateway.Event) string {
	t.Helper()
	log.Event(e)
	synctest.Wait()
	if len(out.all) == 0 {
		return ""
	}
	require.Len(t, out.all, 1)
	line := out.all[0]
	out.all = nil
	return line
}

// TestLogLines: a line contains all fields of an event that are not zero.
func TestLogLines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out lines
		log := logTo(&out)
		full := gateway.Event{
			Kind: gateway.Disconnected, Client: "lab", Device: "abc", Address: netip.MustParsePrefix("10.2.0.1/32"),
			Session: 3, Early: true, Message: netproto.KindAsk, Context: 4, Delta: 8, Verify: 2, Decoded: 12,
			Queue: 9 * time.Microsecond, Compute: 10 * time.Microsecond, Took: 11 * time.Microsecond,
			Conns: 5, Asks: 6, Lasted: 7 * time.Millisecond,
			Err: netproto.Refusal{Code: netproto.Busy, Detail: "why"},
		}
		assert.Equal(t,
			`level=INFO msg=disconnected client=lab device=abc address=10.2.0.1 session=3 message=Ask context=4 `+
				`delta=8 verify=2 decoded=12 queue_us=9 compute_us=10 took_us=11 connections=5 asks=6 lasted_ms=7 `+
				`early=true code=7 error="refused: the gateway is busy: why"`, lineOf(t, log, &out, full))
		for kind, want := range map[gateway.EventKind]string{
			gateway.Connected: "level=INFO msg=connected", gateway.Disconnected: "level=INFO msg=disconnected",
			gateway.Draining: "level=INFO msg=draining", gateway.Drained: "level=INFO msg=drained",
			gateway.Answered: "", gateway.Resent: "", gateway.Synced: "", gateway.Dropped: "", gateway.Forgotten: "",
			gateway.Decoded: "",
		} {
			assert.Equal(t, want, lineOf(t, log, &out, gateway.Event{Kind: kind}), kind)
		}
		log.Close()
		assert.Empty(t, out.all, "nothing was left out")
	})
}

// TestLogErrors: errors are cut to 300 bytes, and only failures while tokens are decoded ahead have a line.
func TestLogErrors(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out lines
		log := logTo(&out)
		long := strings.Repeat("a", 300)
		for _, c := range []struct {
			name string
			err  error
			want string
		}{
			{"a code", netproto.TooFast, `level=WARN msg=refused code=6 error="too many requests per second"`},
			{"a deadline", fmt.Errorf("x: %w", context.DeadlineExceeded),
				`level=WARN msg=refused code=8 error="x: context deadline exceeded"`},
			{"a failure", errors.New("inner"), `level=ERROR msg=refused code=10 error=inner`},
			{"300 bytes", errors.New(long), `level=ERROR msg=refused code=10 error=` + long},
			{"301 bytes", errors.New(long + "a"), `level=ERROR msg=refused code=10 error=` + long + "…"},
			{"part of a character", errors.New(long[:299] + "é"),
				`level=ERROR msg=refused code=10 error=` + long[:299] + "…"},
		} {
			assert.Equal(t, c.want, lineOf(t, log, &out, gateway.Event{Kind: gateway.Refused, Err: c.err}), c.name)
			decoded := ""
			if strings.Contains(c.want, "code=10") {
				decoded = strings.Replace(c.want, "refused", "decoded", 1)
			}
			assert.Equal(t, decoded, lineOf(t, log, &out, gateway.Event{Kind: gateway.Decoded, Err: c.err}), c.name)
		}
		log.Close()
		assert.Empty(t, out.all, "nothing was left out")
	})
}

// TestLogRate: of each kind of line 20 are written at once and then one per second; the next one reports how many were
// left out, and Close reports the rest.
func TestLogRate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out lines
		log := logTo(&out)
		busy, fast := gateway.Event{Kind: gateway.Refused, Err: netproto.Busy},
			gateway.Event{Kind: gateway.Refused, Err: netproto.TooFast}
		gone := gateway.Event{Kind: gateway.Disconnected, Err: netproto.Busy}
		many := func(e gateway.Event, n int) (written []string) {
			for range n {
				log.Event(e)
			}
			synctest.Wait()
			written, out.all = out.all, nil
			return written
		}
		assert.Len(t, many(busy, 30), 20)
		assert.Len(t, many(fast, 20), 20, "another code has its own limit")
		assert.Len(t, many(gone, 21), 20, "so does another kind")
		assert.Len(t, many(gateway.Event{Kind: gateway.Disconnected}, 5), 5, "and one without a code")
		time.Sleep(time.Second)
		assert.Equal(t,
			[]string{`level=WARN msg=refused code=7 error="the gateway is busy" left_out=10`}, many(busy, 3))
		assert.Equal(t, []string{`level=WARN msg=refused code=6 error="too many requests per second"`}, many(fast, 1))
		assert.Equal(t,
			[]string{`level=INFO msg=disconnected code=7 error="the gateway is busy" left_out=1`}, many(gone, 1))
		time.Sleep(3 * time.Second)
		assert.Equal(t, []string{
			`level=WARN msg=refused code=7 error="the gateway is busy" left_out=2`,
			`level=WARN msg=refused code=7 error="the gateway is busy"`,
			`level=WARN msg=refused code=7 error="the gateway is busy"`,
		}, many(busy, 7))
		log.Close()
		assert.Equal(t, []string{`level=INFO msg="lines left out" left_out=4`}, out.all)
	})
}

// TestLogBlocked: a log with a blocked writer blocks nothing: 1024 lines wait, and the others are left out, which is
// reported.
func TestLogBlocked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		out := lines{hold: make(chan struct{})}
		log := logTo(&out)
		log.Event(gateway.Event{Kind: gateway.Draining})
		synctest.Wait() // this line is being written
		for range 5000 {
			log.Event(gateway.Event{Kind: gateway.Connected})
			log.Event(gateway.Event{Kind: gateway.Answered})
		}
		close(out.hold)
		synctest.Wait()
		require.Len(t, out.all, 21)
		assert.Equal(t, "level=INFO msg=draining", out.all[0])
		assert.Equal(t, "level=INFO msg=connected left_out=3976", out.all[1])
		assert.Equal(t, "level=INFO msg=connected", out.all[2])
		log.Close()
		assert.Equal(t, `level=INFO msg="lines left out" left_out=1004`, out.all[21])
	})
}
