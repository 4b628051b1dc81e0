package errs

import (
	"context"
	"errors"
)

// EndedBy returns err. If err wraps the cause of the end of ctx, errors.Is also finds [context.Canceled] or
// [context.DeadlineExceeded] in the result: the cause alone does not show that the caller ended the context. Its text
// stays the same.
func EndedBy(ctx context.Context, err error) error {
	how := ctx.Err()
	if err == nil || how == nil || errors.Is(err, how) || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return Also(err, how)
}

// Also returns err such that errors.Is also finds what in it. Its text stays the same.
func Also(err, what error) error {
	if err == nil || errors.Is(err, what) {
		return err
	}
	return &endedError{err, what}
}

// endedError is an error with the text of why, which also matches how.
type endedError struct{ why, how error }

// Error implements error.
func (e *endedError) Error() string { return e.why.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *endedError) Unwrap() []error { return []error{e.why, e.how} }
