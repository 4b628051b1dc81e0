package cloud

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// TestDiffering: every flag whose value differs is named, of lists and options too, except those that a reload applies.
func TestDiffering(t *testing.T) {
	of := func(name, value string) *pflag.FlagSet {
		c, _ := newCloudCommand(&cli.App{})
		require.NoError(t, c.Flags().Set(name, value))
		return c.Flags()
	}
	for name, values := range map[string]struct{ one, other string }{
		"listen": {":1", ":2"}, "slots": {"1000", "2000"}, "upstream": {"http://a", "http://b"},
		"limit": {"devices=5", "devices=6"}, "open": {"true", "false"}, "admin": {"off", ":9"},
	} {
		assert.Empty(t, changedFlags(of(name, values.one), of(name, values.one)), name)
		assert.Equal(t, []string{name}, changedFlags(of(name, values.one), of(name, values.other)), name)
	}
	for _, name := range []string{"token-file", "cert", "key", "ticket-key-file"} {
		assert.Empty(t, changedFlags(of(name, "a"), of(name, "b")), name)
	}
	assert.Empty(t, changedFlags(of("log-level", "info"), of("log-level", "debug")))
}
