package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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

// TestConfigurationEndsRun: a configuration error of the gateway ends a run at once, whatever the deadline, with the
// cause and the flag; also if no token is escalated.
func TestConfigurationEndsRun(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	secret, other := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(secret, []byte("another secret of sixteen bytes\n"), 0o600))
	require.NoError(t, os.WriteFile(other, []byte("no secret of this gateway"), 0o600))
	address, pin, _ := clitest.StartCloud(t, "-m", m, "--token-file", secret)
	good := []string{"--cloud", address, "--pin", pin, "--token-file", secret}
	for name, c := range map[string]struct {
		flags  []string
		stderr []string
	}{
		"no such host": {[]string{"--cloud", "no..host:4433"}, []string{"--cloud no..host:4433", "no such host"}},
		"wrong pin": {append(good, "--pin", strings.Repeat("00", 31)+"01"),
			[]string{"certificate", "--pin", pin, "pilotfish cloud"}},
		"no pin": {[]string{"--cloud", address, "--token-file", secret},
			[]string{"certificate", "--pin", "pilotfish cloud"}},
		"no token":    {good[:4], []string{"access token", "--token-file", "PILOTFISH_TOKEN"}},
		"wrong token": {append(good, "--token-file", other), []string{"access token", "--token-file"}},
		"other model": {append(good, "-m", clitest.OtherTokens(t)), []string{"tokenizers", "-m"}},
	} {
		for _, policy := range []string{"always", "never"} {
			t.Run(name+"/"+policy, func(t *testing.T) {
				args := append([]string{"run", "-m", m, "--policy", policy, "--deadline", "1h", "--tokens", "1", "-n",
					"3", "--json"}, c.flags...)
				var stdout, errs bytes.Buffer
				a := &cli.App{Commands: clitest.UnderTest, Stdout: &stdout, Stderr: &errs, Env: os.Getenv,
					Patience: time.Minute}
				assert.Equal(t, cli.ExitFailed, a.Run(t.Context(), args), stdout.String())
				stderr := errs.String()
				for _, part := range c.stderr {
					assert.Contains(t, stderr, part)
				}
				assert.NotContains(t, stderr, "secret of")
				assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
				events := clitest.Lines[clitest.RunEvent](t, stdout.String())
				s := events[len(events)-1].Summary
				require.NotNil(t, s)
				require.NotNil(t, s.Error)
				assert.Contains(t, stderr, *s.Error)
			})
		}
	}
	_, _, s, stderr := clitest.RoutedTokens(t,
		append(good, "-m", m, "--policy", "always", "--tokens", "1", "-n", "3", "--deadline", "off",
			"--require-cloud")...)
	assert.Empty(t, stderr)
	assert.Equal(t, []int{3, 0, 3, 0}, []int{s.CloudTokens, s.Timeouts, s.Answered, s.Unanswered})
	assert.Nil(t, s.Error)
}

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

// TestClosedPort: a gateway that cannot be reached at the start ends the run. With --require-cloud=false, the answer is
// complete without the cloud, with the reason.
func TestClosedPort(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	args := []string{"-m", m, "--tokens", "1,2", "-n", "5", "--ignore-eos"}
	_, local, _ := clitest.Call(t, append([]string{"run"}, args...)...)
	args = append(args, "--cloud", clitest.ClosedPort, "--policy", "always", "--deadline", "600ms")
	for _, more := range [][]string{nil, {"--require-cloud"}, {"--deadline", "off"}} {
		code, text, stderr := clitest.Call(t, slices.Concat([]string{"run"}, args, more)...)
		assert.Equal(t, cli.ExitFailed, code, more)
		assert.Empty(t, text)
		assert.Contains(t, stderr, "pilotfish: --cloud "+clitest.ClosedPort+": connection refused (check the address")
		assert.Equal(t, 1, strings.Count(stderr, "pilotfish: "), stderr)
	}
	never := append(slices.Clone(args[:len(args)-4]), "--policy", "never")
	code, _, stderr := clitest.Call(t, append([]string{"run"}, never...)...)
	assert.Equal(t, cli.ExitFailed, code, "also if no token is escalated")
	assert.Contains(t, stderr, "connection refused")

	args = append(args, "--require-cloud=false")
	code, text, stderr := clitest.Call(t, append([]string{"run"}, args...)...)
	assert.Equal(t, cli.ExitDone, code)
	assert.Equal(t, local, text)
	assert.Contains(t, stderr, "5 tokens are the small model's")
	assert.Contains(t, stderr, "connection refused")
	assert.NotContains(t, stderr, "drafting continued", "without answers no time was saved")

	_, _, s, _ := clitest.RoutedTokens(t, args...)
	require.NotNil(t, s.Error)
	assert.Contains(t, *s.Error, "connection refused")
	assert.Equal(t, []int{5, 5, 0}, []int{s.Timeouts, s.Unanswered, s.Answered})
	assert.Zero(t, s.WaitMS+s.HiddenMS)
	assert.Positive(t, s.LostMS)

	code, _, stderr = clitest.Call(t, append([]string{"run", "--require-cloud=false"}, never...)...)
	assert.Equal(t, cli.ExitDone, code, "no unanswered question")
	assert.Contains(t, stderr, "there was no connection to the cloud")
	assert.NotContains(t, stderr, "early", "without a connection nothing is sent")
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
	assert.Equal(t, serial.Audited, serial.AuditedFor)
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
