package draft

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// hostError is the error of a cloud that does not exist.
type hostError struct{ host string }

func (e *hostError) Error() string { return "no such host: " + e.host }

var errPin = errors.New("the certificate is not the one that was pinned")

// unreachable returns the error of a client that cannot connect to its gateway: at the deadline, with the last reason.
func unreachable(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("ask: %w", errors.Join(context.Cause(ctx), fmt.Errorf("no connection: %w", &hostError{"nohost"})))
}

// TestCause: the event of a failed question has the cause, and so do the events of the questions that are then not
// sent.
func TestCause(t *testing.T) {
	const gone = "no connection: no such host: nohost"
	for name, c := range map[string]struct {
		ask  func(ctx context.Context) error
		text string
		late bool
	}{
		"unreachable": {unreachable, "no answer before the deadline: " + gone, true},
		"unreachable, and known late": {func(ctx context.Context) error {
			err := unreachable(ctx)
			time.Sleep(70 * time.Millisecond)
			return err
		}, "no answer before the deadline: " + gone, true},
		"unreachable, and deaf": {func(context.Context) error {
			time.Sleep(3 * time.Second)
			return fmt.Errorf("no connection: %w", &hostError{"nohost"})
		}, "no answer before the deadline: " + gone, true},
		"refused at once": {func(context.Context) error {
			return fmt.Errorf("ask: %w: %w", errPin, &hostError{"other"})
		}, "ask: " + errPin.Error() + ": no such host: other", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, inFlight := range []int{1, 4} {
				bothModes(t, func(t *testing.T, mode Mode) {
					tr := newTrial(7)
					tr.world.share = 0.6
					tr.cloud = &cloudFunc{ask: func(ctx context.Context, _ Question) (Answer, error) {
						return Answer{}, c.ask(ctx)
					}}
					d := tr.decoder(t, mode)
					d.o.InFlight = inFlight
					_, events, _ := tr.decode(t, d)
					sum := total(events)
					assert.Positive(t, sum.Unasked)
					assert.Equal(t, sum.Escalations, sum.Late+sum.Failed+sum.Unasked)
					assert.Equal(t, c.late, sum.Late > 0)
					assert.Equal(t, c.late, sum.Failed == 0)
					first := true
					for _, e := range passed(events) {
						text := c.text
						if e.Outcome == Unasked {
							text = "not asked, since the cloud failed just before: " + text
						}
						require.EqualError(t, e.Err, text)
						assert.Equal(t, c.late, errors.Is(e.Err, ErrDeadline))
						assert.Equal(t, e.Outcome == Unasked, errors.Is(e.Err, ErrBreaker))
						_, found := errors.AsType[*hostError](e.Err)
						assert.True(t, found, "the chain keeps the cloud's error")
						assert.Equal(t, !c.late, errors.Is(e.Err, errPin))
						if first {
							assert.Equal(t, e.Err, sum.Err)
							first = false
						}
					}
				})
			}
		})
	}
}

// passed returns the escalations that the text passed, in the order of their events.
func passed(events []Event) (all []Escalation) {
	for _, e := range events {
		if q := e.Escalation; q != nil && q.Outcome != Dropped && q.Outcome != Probing && q.Outcome != Probed {
			all = append(all, *q)
		}
	}
	return all
}

func total(events []Event) (sum Summary) {
	for _, e := range events {
		sum.Add(e)
	}
	return sum
}

// TestNothingHidden: without an answer no time is waited for or hidden; otherwise only that of answered questions.
func TestNothingHidden(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		tr := newTrial(8)
		tr.cloud = &cloudFunc{ask: func(ctx context.Context, _ Question) (Answer, error) { return hole(ctx) }}
		_, events, _ := tr.decode(t, tr.decoder(t, mode))
		sum := total(events)
		assert.Zero(t, [2]time.Duration{sum.Wait, sum.Hidden})
		assert.Equal(t, sum.Lost, sum.Exposed)
		assert.Zero(t, sum.Answered)
		assert.Positive(t, sum.Lost)
		assert.ErrorIs(t, sum.Err, ErrDeadline)
		assert.EqualError(t, ErrDeadline, sum.Err.Error(), "there is no other cause")
	})
	bothModes(t, func(t *testing.T, mode Mode) {
		tr := newTrial(9)
		tr.cloud = &cloudFunc{ask: func(ctx context.Context, q Question) (Answer, error) {
			if time.Since(tr.began) > 2*time.Second {
				return hole(ctx)
			}
			return tr.right(ctx, q, 50*time.Millisecond)
		}}
		_, events, _ := tr.decode(t, tr.decoder(t, mode))
		var want Summary
		for _, q := range passed(events) {
			switch q.Outcome {
			case Hit, Miss:
				want.Answered++
				want.Wait, want.Hidden, want.Exposed = want.Wait+q.Wait, want.Hidden+q.Hidden, want.Exposed+q.Exposed
			default:
				want.Exposed, want.Lost = want.Exposed+q.Exposed, want.Lost+q.Exposed
				require.Zero(t, q.Hidden)
			}
		}
		sum := total(events)
		assert.Positive(t, sum.Answered)
		assert.Positive(t, sum.Lost)
		assert.Equal(t, want, Summary{Answered: sum.Answered, Wait: sum.Wait, Hidden: sum.Hidden, Exposed: sum.Exposed,
			Lost: sum.Lost})
		assert.Equal(t, sum.Escalations, sum.Answered+sum.Late+sum.Failed+sum.Unasked)
		asked := 0
		for _, e := range events {
			if e.Token != nil && e.Token.Asked {
				asked++
			}
		}
		assert.Equal(t, sum.Answered+sum.Late+sum.Failed, asked)
		assert.Positive(t, sum.Unasked)
	})
}

// TestLate: an error that wraps the deadline and something else is kept, and the deadline is not repeated.
func TestLate(t *testing.T) {
	const only = "no answer before the deadline"
	host := &hostError{"nohost"}
	for name, c := range map[string]struct {
		err  error
		text string
	}{
		"no cause":                    {nil, only},
		"the deadline":                {ErrDeadline, only},
		"a cancelled context":         {context.Canceled, only},
		"the deadline of a context":   {context.DeadlineExceeded, only},
		"the deadline, and cancelled": {errors.Join(context.Canceled, ErrDeadline), only},
		"the deadline, wrapped":       {fmt.Errorf("ask: %w", ErrDeadline), "ask: " + only},
		"another error":               {host, only + ": no such host: nohost"},
		"another error, wrapped":      {fmt.Errorf("dial: %w", host), only + ": dial: no such host: nohost"},
		"the deadline of a context, wrapped": {fmt.Errorf("dial: %w", context.DeadlineExceeded),
			only + ": dial: context deadline exceeded"},
		"the deadline, joined with two errors": {
			fmt.Errorf("a: %w", errors.Join(ErrDeadline, fmt.Errorf("b: %w", errors.Join(host, errPin)))),
			only + ": b: no such host: nohost; " + errPin.Error()},
		"the deadline, joined with another error": {
			fmt.Errorf("a: %w", fmt.Errorf("b: %w", errors.Join(ErrDeadline, host))), only + ": no such host: nohost"},
		"two errors": {fmt.Errorf("%w: %w", errPin, host), only + ": " + errPin.Error() + ": no such host: nohost"},
	} {
		t.Run(name, func(t *testing.T) {
			got := deadlineError(c.err)
			assert.EqualError(t, got, c.text)
			assert.ErrorIs(t, got, ErrDeadline)
			if errors.Is(c.err, host) {
				assert.ErrorIs(t, got, host)
			}
			if c.err != nil && got != ErrDeadline {
				assert.ErrorIs(t, got, c.err, "the returned error")
			}
		})
	}
}

// TestRoom: the text ends where the context is full, and the stop reason names the limit that was reached.
func TestRoom(t *testing.T) {
	for name, c := range map[string]struct {
		most, room, tokens int
		stop               string
	}{
		"any room":             {7, 0, 7, "length"},
		"more room":            {7, 8, 7, "length"},
		"just enough room":     {7, 7, 7, "length"},
		"too little room":      {7, 6, 6, "context"},
		"any number of tokens": {0, 5, 5, "context"},
	} {
		t.Run(name, func(t *testing.T) {
			bothModes(t, func(t *testing.T, mode Mode) {
				s := &script{escalate: []int{2, 5}}
				s.slots = 1000
				d, err := New(s, s, s, Options{Mode: mode, MaxTokens: c.most, Room: c.room})
				require.NoError(t, err)
				sum, err := d.Decode(t.Context(), []int32{0}, func(Event) bool { return true })
				require.NoError(t, err)
				assert.Equal(t, c.tokens, sum.Tokens)
				assert.Equal(t, c.stop, sum.Stop)
			})
		})
	}
	bubble.Test(t, func(t *testing.T) {
		s := &script{}
		s.slots = 1000
		d, err := New(s, s, s, Options{MaxTokens: 3, Room: 1, End: func(int32) bool { return true }})
		require.NoError(t, err)
		sum, err := d.Decode(t.Context(), []int32{0}, func(Event) bool { return true })
		require.NoError(t, err)
		assert.Equal(t, "end", sum.Stop, "an end token takes precedence over the limit")
	})
}

// TestBreakerCause: the breaker returns the latest known cause.
func TestBreakerCause(t *testing.T) {
	var b Breaker
	now := time.Unix(1, 0)
	assert.Equal(t, ErrBreaker, b.refusalError(), "no cause is known")
	b.recordFailure(now, now, ErrDeadline)
	assert.ErrorIs(t, b.refusalError(), ErrDeadline)
	b.setCause(errPin)
	assert.ErrorIs(t, b.refusalError(), errPin)
	b.setCause(errFake)
	b.recordFailure(now, now, errFake)
	assert.ErrorIs(t, b.refusalError(), errPin, "cause of the failure that opened it")
	b.endProbe(now, errFake)
	assert.EqualError(t, b.refusalError(), "not asked, since the cloud failed just before: fake failure")
	b.recordSuccess()
	b.recordFailure(now, now, errPin)
	assert.ErrorIs(t, b.refusalError(), errPin)
}
