package errs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// TestEndedBy: an error that contains the cause of an ended context also matches the context's error, with the same
// text; other errors are not changed.
func TestEndedBy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		why, other := errors.New("why"), errors.New("other")
		ctx, cancel := context.WithCancelCause(t.Context())
		assert.Equal(t, why, errs.EndedBy(ctx, why), "the context has not ended")
		cancel(why)
		err := errs.EndedBy(ctx, fmt.Errorf("a question: %w", why))
		assert.ErrorIs(t, err, why)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "a question: why")
		assert.Equal(t, other, errs.EndedBy(ctx, other), "the error has another reason")
		assert.NoError(t, errs.EndedBy(ctx, nil))

		ctx, stop := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer stop()
		time.Sleep(time.Second)
		<-ctx.Done()
		assert.ErrorIs(t, errs.EndedBy(ctx, why), context.DeadlineExceeded)
		assert.NotErrorIs(t, errs.EndedBy(ctx, why), context.Canceled)

		plain, cancelPlain := context.WithCancel(t.Context())
		cancelPlain()
		assert.Equal(t, context.Canceled, errs.EndedBy(plain, context.Canceled), "nothing to add")
	})
}

// TestAlso: an error also matches another one, with the same text.
func TestAlso(t *testing.T) {
	one, other := errors.New("one"), errors.New("other")
	err := errs.Also(fmt.Errorf("here: %w", one), other)
	assert.ErrorIs(t, err, one)
	assert.ErrorIs(t, err, other)
	assert.EqualError(t, err, "here: one")
	assert.Equal(t, one, errs.Also(one, one), "nothing to add")
	assert.NoError(t, errs.Also(nil, other))
}
