package draft

import (
	"context"
	"errors"
	"strings"
)

// failure is [ErrDeadline] or [ErrBreaker] with the error of the cloud that caused it. Both are in its chain.
type failure struct {
	what error
	why  error  // as the cloud returned it
	text string // of why, without what what says
}

// Error gives both in one line.
func (f *failure) Error() string {
	return f.what.Error() + ": " + strings.ReplaceAll(f.text, "\n", "; ")
}

// Unwrap returns both errors.
func (f *failure) Unwrap() []error { return []error{f.what, f.why} }

// deadlineError returns the error of a question that the deadline ended, after which the cloud returned err.
func deadlineError(err error) error {
	switch rest, _ := stripDeadline(err); {
	case rest == nil:
		return ErrDeadline
	case errors.Is(rest, ErrDeadline):
		return rest // such as "ask: no answer before the deadline"
	default:
		return &failure{what: ErrDeadline, why: err, text: rest.Error()}
	}
}

func notAskedError(cause error) error {
	if cause == nil {
		return ErrBreaker
	}
	return &failure{what: ErrBreaker, why: cause, text: cause.Error()}
}

// stripDeadline returns err without the errors of a deadline, nil if no other is left, and whether it left out any.
func stripDeadline(err error) (rest error, less bool) {
	switch err {
	case nil, ErrDeadline, context.Canceled, context.DeadlineExceeded:
		return nil, true
	}
	switch u := err.(type) {
	case interface{ Unwrap() []error }:
		var parts []error
		for _, e := range u.Unwrap() {
			part, cut := stripDeadline(e)
			parts, less = append(parts, part), less || cut
		}
		if less {
			return errors.Join(parts...), true
		}
	case interface{ Unwrap() error }:
		if rest, less := stripDeadline(u.Unwrap()); rest != nil && less {
			return rest, true
		}
	}
	return err, false
}
