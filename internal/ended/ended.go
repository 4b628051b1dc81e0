// Package ended says of errors how the context ended that they come from.
package ended

import (
	"context"
	"errors"
)

// By returns err such that errors.Is finds [context.Canceled] or [context.DeadlineExceeded] in it, too, if it says why
// ctx ended: the cause alone does not tell that the caller wanted it. Its text stays the same.
func By(ctx context.Context, err error) error {
	how := ctx.Err()
	if err == nil || how == nil || errors.Is(err, how) || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return Also(err, how)
}

// Also returns err such that errors.Is finds what in it, too. Its text stays the same.
func Also(err, what error) error {
	if err == nil || errors.Is(err, what) {
		return err
	}
	return &end{err, what}
}

// end is an error, of whose text it has, that is another one, too.
type end struct{ why, how error }

// Error implements error.
func (e *end) Error() string { return e.why.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *end) Unwrap() []error { return []error{e.why, e.how} }
