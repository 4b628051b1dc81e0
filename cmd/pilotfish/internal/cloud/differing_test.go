package cloud

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// TestDiffering: every flag whose value differs is named, of lists and options too, except those that a reload applies.
// Texts in the log are not a level that a reload applies.
func TestDiffering(t *testing.T) {
	for name, values := range map[string][2]string{
		"listen": {":1", ":2"}, "slots": {"1000", "2000"}, "upstream": {"http://a", "http://b"},
		"limit": {"prompt=5", "prompt=6"}, "share-prefixes": {"true", "false"}, "admin": {"off", ":9"},
		"token-file": {"a", "b"}, "cert": {"a", "b"}, "key": {"a", "b"}, "ticket-key-file": {"a", "b"},
		"log-level": {"info", "debug"},
	} {
		a, _ := cloudCommand(&cli.App{})
		b, _ := cloudCommand(&cli.App{})
		require.NoError(t, a.Flags().Set(name, values[0]))
		require.NoError(t, b.Flags().Set(name, values[0]))
		assert.Empty(t, differing(a.Flags(), b.Flags()), name)
		b, _ = cloudCommand(&cli.App{})
		require.NoError(t, b.Flags().Set(name, values[1]))
		var want []string
		switch name {
		case "token-file", "cert", "key", "ticket-key-file", "log-level":
		default:
			want = []string{name}
		}
		assert.Equal(t, want, differing(a.Flags(), b.Flags()), name)
	}
	a, _ := cloudCommand(&cli.App{})
	b, _ := cloudCommand(&cli.App{})
	require.NoError(t, a.Flags().Set("log-level", logTexts))
	assert.Equal(t, []string{"log-level"}, differing(a.Flags(), b.Flags()))
	assert.Equal(t, []string{"log-level"}, differing(b.Flags(), a.Flags()))
}
