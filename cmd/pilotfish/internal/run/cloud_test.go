package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/event"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestSilentGateway: a run that needs no answer waits half a second for its gateway, and then continues without it.
func TestSilentGateway(t *testing.T) {
	clitest.OwnFolders(t)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	began := time.Now()
	code, _, stderr := clitest.Call(t, "run", "-m", clitest.TinyModel(t, "q8_0"), "--policy", "never", "--tokens",
		"1", "-n", "3",
		"--cloud", silent.LocalAddr().String())
	assert.Equal(t, cli.ExitDone, code, stderr)
	assert.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)
}

// TestEndedBeforeAsking: the summary is printed whenever the run ends, even before there is a session with the cloud.
func TestEndedBeforeAsking(t *testing.T) {
	clitest.OwnFolders(t)
	var f runFlags
	c := new(cobra.Command)
	f.register(c)
	require.NoError(t, c.ParseFlags([]string{"-m", clitest.TinyModel(t, "q8_0"), "--cloud", clitest.ClosedPort,
		"--json"}))
	var stdout bytes.Buffer
	a := &cli.App{Commands: clitest.UnderTest, Stdout: &stdout, Stderr: io.Discard, Env: os.Getenv}
	route, dial, _, err := f.routing(a)
	require.NoError(t, err)
	m, err := pilotfish.Open(f.model.Path, pilotfish.Options{Threads: 5})
	require.NoError(t, err)
	defer m.Close()
	ended, end := context.WithCancelCause(t.Context())
	why := errors.New("ended")
	end(why)
	before := runtime.GOMAXPROCS(0)
	require.ErrorIs(t, f.routed(ended, a, m, []int32{1}, route, dial, newRunOutput(a, &f, 0, m)), why)
	assert.Equal(t, before, runtime.GOMAXPROCS(0))
	events := clitest.Lines[clitest.RunEvent](t, stdout.String())
	require.Len(t, events, 1)
	require.NotNil(t, events[0].Summary)
	assert.Equal(t, "interrupted", events[0].Summary.Stop)
	assert.Contains(t, *events[0].Summary.Error, "ended")
}

// TestFlagsOfRoutingAct: the flags have their effects, with a gateway.
func TestFlagsOfRoutingAct(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	edge, large := clitest.TinyModel(t, "q4_0"), clitest.TinyModel(t, "f32")
	address, pin, _ := clitest.StartCloud(t, "-m", large)
	do := func(args string) *event.Summary {
		t.Helper()
		_, _, s, _ := clitest.RoutedTokens(t, append([]string{"-m", edge, "--cloud", address, "--pin", pin,
			"--tokens", "5,6,7", "-n", "60"}, strings.Fields(args)...)...)
		return s
	}
	serial, pipelined := do("--deadline off --mode serial"), do("--deadline off")
	assert.Zero(t, serial.Drafted, "serial does not draft")
	assert.Equal(t, "exact", serial.Audit, "the built-in model audits every position")
	assert.Positive(t, pipelined.Drafted)
	assert.Equal(t, serial.Tokens, pipelined.Tokens)
	late := do("--deadline 1us")
	assert.Equal(t, late.Escalations, late.Timeouts)
	code, text, stderr := clitest.Call(t, "run", "-m", edge, "--cloud", address, "--pin", pin, "--tokens", "5,6,7",
		"-n", "9",
		"--policy", "always", "--deadline", "1us", "--require-cloud")
	assert.Equal(t, cli.ExitFailed, code)
	assert.NotEmpty(t, text, "the answer is complete anyway")
	assert.Contains(t, stderr, "pilotfish: --require-cloud: 9 of 9 questions")
	_, stdout, _ := clitest.Call(t, "run", "-m", edge, "--cloud", address, "--pin", pin, "--tokens", "5,6,7", "-n", "9",
		"--policy", "always", "--deadline", "1us", "--require-cloud", "--json")
	events := clitest.Lines[clitest.RunEvent](t, stdout)
	require.NotNil(t, events[len(events)-1].Summary.Error)
	assert.Contains(t, *events[len(events)-1].Summary.Error, "--require-cloud: 9 of 9 questions", "also in the summary")
	require.NotNil(t, late.Error)
	assert.Contains(t, *late.Error, "deadline")
	silent := do("--deadline off --threshold 0")
	assert.Equal(t, []int{0, 0}, []int{silent.Asks, silent.Warmed},
		"nothing is sent early if no question follows")
	assert.Equal(t, []int{3, 0}, []int{pipelined.Warmed, pipelined.WarmedInVain})
	assert.Zero(t, do("--deadline off --no-warm").Warmed)
	assert.Equal(t, 60, do("--deadline off --threshold 1").CloudTokens)
	assert.InDelta(t, 18, do("--deadline off --policy entropy --budget 0.3").Escalations, 11)
	assert.Zero(t, do("--deadline off --no-audit --mode serial").Audited)
	assert.LessOrEqual(t, do("--deadline off --policy always --window 1 --branches 1 --inflight 1").Drafted, 60)
}

// TestCloudWatch: the first failure is reported, a consequence of it is not, and an error of the gateway takes
// precedence over a deadline.
func TestCloudWatch(t *testing.T) {
	busy := &pilotfish.ConnectError{Addr: "h:1", Err: netproto.Refusal{Code: netproto.Busy, Detail: "64 connections"}}
	wrong := &pilotfish.ConnectError{Addr: "h:1", Err: netproto.Refusal{Code: netproto.WrongSecret}}
	late := errors.New("no answer before the deadline")
	missed := func(outcome draft.Outcome, err error) pilotfish.Event {
		return pilotfish.Event{Escalation: &draft.Escalation{
			Outcome: outcome, Err: err, Wait: time.Second, Exposed: time.Second, Hidden: time.Second / 2,
		}}
	}
	watch := func() (w *cloudWatch, ctx context.Context, warned *[]string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		warned = new([]string)
		return newCloudWatch(cancel, func(err error) error { return fmt.Errorf("explained: %w", err) },
			func(err error) { *warned = append(*warned, err.Error()) }), ctx, warned
	}
	w, ctx, warned := watch()
	before := errors.New("the cloud failed just before")
	w.observe(missed(draft.Unasked, before))
	assert.Equal(t, before, w.why())
	assert.Empty(t, *warned, "the failure itself is reported next")
	w.attempted(busy)
	w.observe(missed(draft.Late, late))
	assert.Equal(t, []string{busy.Error()}, *warned)
	assert.Contains(t, w.why().Error(), "64 connections")
	assert.NoError(t, ctx.Err(), "a busy gateway does not end the run")
	assert.ErrorContains(t, w.required(), "2 of 2 questions")

	w.attempted(nil)
	w.observe(missed(draft.Hit, nil))
	assert.Equal(t, late, w.why(), "the connection is no longer the cause")
	assert.ErrorContains(t, w.required(), "2 of 3 questions")
	assert.Equal(t, []time.Duration{time.Second, time.Second / 2, 2 * time.Second},
		[]time.Duration{w.wait, w.hidden, w.lost})
	w.attempted(wrong)
	assert.NoError(t, ctx.Err(), "an answer with cloud tokens is not ended")

	w, ctx, warned = watch()
	assert.NoError(t, w.why())
	assert.NoError(t, w.required())
	w.attempted(wrong)
	w.observe(missed(draft.Late, late))
	assert.Empty(t, *warned, "only the error that ends the run is reported")
	assert.ErrorContains(t, context.Cause(ctx), "explained: ")
	assert.ErrorIs(t, w.settle(t.Context(), 500*time.Millisecond), netproto.WrongSecret)

	w, _, _ = watch()
	w.observe(missed(draft.Late, fmt.Errorf("%w: ask: %w", late, busy)))
	assert.ErrorIs(t, w.why(), netproto.Busy)
}

// TestUnreachable: a gateway without an answer ends a run before its text begins; later, it makes the run fail after
// the complete text. A connection, or the flag for continuing alone, prevents both.
func TestUnreachable(t *testing.T) {
	silent := &pilotfish.ConnectError{Addr: "h:1", Err: errors.New("no reply")}
	watch := func() (*cloudWatch, context.Context) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return newCloudWatch(cancel, func(err error) error { return fmt.Errorf("explained: %w", err) },
			func(error) {}), ctx
	}
	w, ctx := watch()
	w.attempted(silent)
	assert.ErrorContains(t, context.Cause(ctx), "explained: ")
	assert.ErrorIs(t, w.fit(pilotfish.Token{}), silent)

	w, ctx = watch()
	require.NoError(t, w.fit(pilotfish.Token{Origin: "edge"}))
	w.attempted(silent)
	assert.NoError(t, ctx.Err())
	assert.ErrorContains(t, w.settle(t.Context(), 0), "answered alone")
	w.attempted(nil)
	assert.NoError(t, w.settle(t.Context(), 0), "it was reached in the end")

	w, _ = watch()
	w.observe(pilotfish.Event{Escalation: &draft.Escalation{Outcome: draft.Late, Err: fmt.Errorf("late: %w", silent)}})
	assert.ErrorIs(t, w.settle(t.Context(), 0), silent, "the attempt is still running, and a question failed")

	w, ctx = watch()
	w.alone = true
	w.attempted(silent)
	assert.NoError(t, ctx.Err())
	assert.NoError(t, w.settle(t.Context(), 0))

	wrong := &pilotfish.ConnectError{Addr: "h:1", Err: netproto.Refusal{Code: netproto.WrongTokenizer}}
	for _, set := range []func(w *cloudWatch){
		func(w *cloudWatch) { w.alone = true }, func(w *cloudWatch) { assert.NoError(t, w.fit(pilotfish.Token{})) },
	} {
		w, ctx = watch()
		set(w)
		w.attempted(wrong)
		assert.ErrorIs(t, context.Cause(ctx), netproto.WrongTokenizer, "no other gateway is to be expected there")
		assert.ErrorIs(t, w.fit(pilotfish.Token{}), netproto.WrongTokenizer)
	}
}

// TestSettle: a run that needed no answer waits only briefly for a silent gateway.
func TestSettle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newCloudWatch(nil, nil, nil)
		start := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { w.attempted(nil) })
		assert.NoError(t, w.settle(t.Context(), 500*time.Millisecond))
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		w, start = newCloudWatch(nil, nil, nil), time.Now()
		time.Sleep(400 * time.Millisecond)
		assert.NoError(t, w.settle(t.Context(), 500*time.Millisecond))
		assert.Equal(t, 500*time.Millisecond, time.Since(start))
		stopped, stop := context.WithCancel(t.Context())
		w, start = newCloudWatch(nil, nil, nil), time.Now()
		stop()
		assert.NoError(t, w.settle(stopped, time.Minute))
		assert.Zero(t, time.Since(start))
	})
}
