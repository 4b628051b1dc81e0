package schema

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestFormats: another implementation accepts strings generated for each format.
func TestFormats(t *testing.T) {
	racing.Spare(t)
	v := smallVocabulary(t)
	r := rand.New(rand.NewPCG(13, 14))
	for _, format := range []string{"date", "time", "date-time", "duration", "uuid", "email", "idn-email", "hostname",
		"idn-hostname", "ipv4", "ipv6", "uri", "iri", "uri-reference", "iri-reference", "uri-template", "json-pointer",
		"relative-json-pointer", "regex"} {
		raw, err := json.Marshal(obj{"type": "string", "format": format})
		require.NoError(t, err)
		g := compiled(t, raw, false)
		valid, m := validator(t, raw), v.matcher(g)
		for i := range 60 {
			text, done := draw(r, m, v, 1+i)
			if s := g.Next(g.Start(), []byte(text)...); !done {
				require.NotNil(t, s)
				text += string(g.Shortest(s))
			}
			require.NoError(t, valid(text), "%s: %s", format, text)
		}
	}
}
