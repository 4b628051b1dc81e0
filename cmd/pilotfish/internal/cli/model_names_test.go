package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAsk: only yes means yes, and the question ends with its context.
func TestAsk(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES \nno\n": true, "yes": true, "": false, "\n": false,
		"n\n": false, "yesterday\n": false} {
		var stderr strings.Builder
		yes, err := (&App{Stdin: strings.NewReader(answer), Stderr: &stderr}).Ask(t.Context(), "Fetch it?")
		require.NoError(t, err)
		assert.Equal(t, want, yes, answer)
		end := ""
		if answer == "" {
			end = "\n" // the next output starts on a new line
		}
		assert.Equal(t, "Fetch it? [y/N] "+end, stderr.String())
	}
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	stop(why)
	silent, writer := io.Pipe()
	defer writer.Close()
	yes, err := (&App{Stdin: silent, Stderr: io.Discard}).Ask(ctx, "Fetch it?")
	assert.ErrorIs(t, err, why)
	assert.False(t, yes)
}
