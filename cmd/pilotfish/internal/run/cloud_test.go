package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestEndedBeforeAsking: the summary is printed whenever the run ends, even before there is a session with the cloud.
func TestEndedBeforeAsking(t *testing.T) {
	clitest.OwnFolders(t)
	var f runFlags
	c := new(cobra.Command)
	f.registerFlags(c)
	require.NoError(t, c.ParseFlags([]string{"-m", clitest.TinyModel(t, "q8_0"), "--cloud", clitest.ClosedPort,
		"--json"}))
	var stdout bytes.Buffer
	a := &cli.App{Program: clitest.UnderTest, Stdout: &stdout, Stderr: io.Discard, Env: os.Getenv}
	route, dial, _, err := f.parseRouting(a)
	require.NoError(t, err)
	m, err := pilotfish.Open(f.model.Path, pilotfish.Options{Threads: 5})
	require.NoError(t, err)
	defer m.Close()
	ended, end := context.WithCancelCause(t.Context())
	why := errors.New("ended")
	end(why)
	before := runtime.GOMAXPROCS(0)
	require.ErrorIs(t, f.generateRouted(ended, a, m, []int32{1}, route, dial, newRunOutput(a, &f, 0, m)), why)
	assert.Equal(t, before, runtime.GOMAXPROCS(0))
	events := clitest.Lines[clitest.RunEvent](t, stdout.String())
	require.Len(t, events, 1)
	require.NotNil(t, events[0].Summary)
	assert.Equal(t, "interrupted", events[0].Summary.Stop)
	assert.Contains(t, *events[0].Summary.Error, "ended")
}

// TestCloudWatch: an error of the gateway takes precedence over a deadline, and one of configuration ends the run.
func TestCloudWatch(t *testing.T) {
	busy := &pilotfish.ConnectError{Addr: "h:1", Err: netproto.Refusal{Code: netproto.Busy, Detail: "64 connections"}}
	wrong := &pilotfish.ConnectError{Addr: "h:1", Err: netproto.Refusal{Code: netproto.WrongSecret}}
	late := errors.New("no answer before the deadline")
	missed := func(err error) pilotfish.Event {
		return pilotfish.Event{Escalation: &draft.Escalation{Outcome: draft.Late, Err: err}}
	}
	watch := func() (w *cloudWatch, ctx context.Context) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return newCloudWatch(cancel, func(err error) error { return fmt.Errorf("explained: %w", err) }), ctx
	}
	w, ctx := watch()
	w.connectAttempted(busy)
	w.observeEvent(missed(late))
	assert.ErrorContains(t, w.unansweredCause(), "64 connections")
	assert.NoError(t, ctx.Err(), "a busy gateway does not end the run")
	var s pilotfish.Stats
	assert.NoError(t, w.requireAnswers(s))
	s.Late, s.Failed, s.Unasked, s.Answered = 1, 1, 1, 4
	assert.ErrorContains(t, w.requireAnswers(s), "3 of 7 questions")

	w.connectAttempted(nil)
	assert.Equal(t, late, w.unansweredCause(), "the connection is no longer the cause")
	w.connectAttempted(wrong)
	assert.NoError(t, ctx.Err(), "an answer with cloud tokens is not ended")

	w, ctx = watch()
	assert.NoError(t, w.unansweredCause())
	w.connectAttempted(wrong)
	w.observeEvent(missed(late))
	assert.ErrorContains(t, context.Cause(ctx), "explained: ")
	assert.ErrorIs(t, w.awaitFirstAttempt(t.Context(), 500*time.Millisecond), netproto.WrongSecret)

	w, _ = watch()
	w.observeEvent(missed(fmt.Errorf("%w: ask: %w", late, busy)))
	assert.ErrorIs(t, w.unansweredCause(), netproto.Busy)
}

// TestUnreachable: a gateway without an answer ends a run before its text begins; later, it makes the run fail after
// the complete text. A connection, or the flag for continuing alone, prevents both.
func TestUnreachable(t *testing.T) {
	silent := &pilotfish.ConnectError{Addr: "h:1", Err: errors.New("no reply")}
	watch := func() (*cloudWatch, context.Context) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return newCloudWatch(cancel, func(err error) error { return fmt.Errorf("explained: %w", err) }), ctx
	}
	w, ctx := watch()
	w.connectAttempted(silent)
	assert.ErrorContains(t, context.Cause(ctx), "explained: ")
	assert.ErrorIs(t, w.admitToken(pilotfish.Token{}), silent)

	w, ctx = watch()
	require.NoError(t, w.admitToken(pilotfish.Token{Origin: "edge"}))
	w.connectAttempted(silent)
	assert.NoError(t, ctx.Err())
	assert.ErrorContains(t, w.awaitFirstAttempt(t.Context(), 0), "answered alone")
	w.connectAttempted(nil)
	assert.NoError(t, w.awaitFirstAttempt(t.Context(), 0), "it was reached in the end")

	w, _ = watch()
	late := &draft.Escalation{Outcome: draft.Late, Err: fmt.Errorf("late: %w", silent)}
	w.observeEvent(pilotfish.Event{Escalation: late})
	assert.ErrorIs(t, w.awaitFirstAttempt(t.Context(), 0), silent,
		"the attempt is still running, and a question failed")

	w, ctx = watch()
	w.alone = true
	w.connectAttempted(silent)
	assert.NoError(t, ctx.Err())
	assert.NoError(t, w.awaitFirstAttempt(t.Context(), 0))

	wrong := &pilotfish.ConnectError{Addr: "h:1", Err: netproto.Refusal{Code: netproto.WrongTokenizer}}
	for _, set := range []func(w *cloudWatch){
		func(w *cloudWatch) { w.alone = true },
		func(w *cloudWatch) { assert.NoError(t, w.admitToken(pilotfish.Token{})) },
	} {
		w, ctx = watch()
		set(w)
		w.connectAttempted(wrong)
		assert.ErrorIs(t, context.Cause(ctx), netproto.WrongTokenizer, "no other gateway is to be expected there")
		assert.ErrorIs(t, w.admitToken(pilotfish.Token{}), netproto.WrongTokenizer)
	}
}

// TestSettle: a run that needed no answer waits only briefly for a silent gateway.
func TestSettle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newCloudWatch(nil, nil)
		start := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { w.connectAttempted(nil) })
		assert.NoError(t, w.awaitFirstAttempt(t.Context(), 500*time.Millisecond))
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		w, start = newCloudWatch(nil, nil), time.Now()
		time.Sleep(400 * time.Millisecond)
		assert.NoError(t, w.awaitFirstAttempt(t.Context(), 500*time.Millisecond))
		assert.Equal(t, 500*time.Millisecond, time.Since(start))
		stopped, stop := context.WithCancel(t.Context())
		w, start = newCloudWatch(nil, nil), time.Now()
		stop()
		assert.NoError(t, w.awaitFirstAttempt(stopped, time.Minute))
		assert.Zero(t, time.Since(start))
	})
}
