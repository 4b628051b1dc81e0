package errs_test

import (
	"errors"
	"fmt"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// TestPrintable: the text of an error cannot control a terminal, stays as it is if it does not try, and the error is
// still found.
func TestPrintable(t *testing.T) {
	cause := errors.New("cause")
	for text, want := range map[string]string{
		"plain \"text\" of 日本": "plain \"text\" of 日本",
		"\x1b[2J\a":            `\x1b[2J\a`,
		"two\nlines\r":         `two\nlines\r`,
		"\u202eright to left":  `\u202eright to left`,
		"not UTF-8 \xff":       `not UTF-8 \xff`,
		`"quoted" ` + "\x1b]":  `"quoted" \x1b]`,
		"C1 \u009b31m":         `C1 \u009b31m`,
	} {
		err := errs.Printable(fmt.Errorf("%s: %w", text, cause))
		assert.EqualError(t, err, want+": cause")
		assert.ErrorIs(t, err, cause)
		for _, r := range err.Error() {
			assert.True(t, unicode.IsPrint(r), "%q", r)
		}
	}
	assert.NoError(t, errs.Printable(nil))
}
