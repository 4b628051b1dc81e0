package errs

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns err with a text that cannot control a terminal: what does not print, line breaks included, is
// written as in a Go string. An error with such a text is returned unchanged.
func Printable(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return err
	}
	quoted := strconv.Quote(text)
	return &printableError{err, strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)}
}

// printableError is an error with another text.
type printableError struct {
	error
	text string
}

// Error implements error.
func (p *printableError) Error() string { return p.text }

// Unwrap is for errors.Is and errors.As.
func (p *printableError) Unwrap() error { return p.error }
