package schema

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
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
		g, err := Compile(t.Context(), raw, false)
		require.NoError(t, err, format)
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

// TestCommonForms: common strings of each format are accepted, and some invalid ones are not.
func TestCommonForms(t *testing.T) {
	for format, c := range map[string]struct{ yes, no []string }{
		"date": {[]string{"2024-02-29", "2000-02-29", "1999-12-31"},
			[]string{"2023-02-29", "1900-02-29", "24-01-01"}},
		"time":      {[]string{"10:00:00Z", "23:59:59.123+05:30"}, []string{"10:00", "24:00:00Z"}},
		"date-time": {[]string{"2024-02-29T10:00:00Z"}, []string{"2024-02-29 10:00:00Z", "2024-02-30T10:00:00Z"}},
		"duration":  {[]string{"P1Y2M3DT4H5M6S", "P3W", "PT36H", "P1M"}, []string{"P", "P1S", "PT", "P1Y2D"}},
		"uuid":      {[]string{"3F2504E0-4f89-41d3-9a0c-0305e82c3301"}, []string{"3F2504E04f8941d39a0c0305e82c3301"}},
		"email":     {[]string{"John.Doe+x@Example.com"}, []string{"john", "a@-b.com", "a b@c.de"}},
		"hostname":  {[]string{"www.Example.com", "localhost"}, []string{"a..b", "-a.com"}},
		"ipv4":      {[]string{"127.0.0.1"}, []string{"256.0.0.1", "1.2.3"}},
		"ipv6": {[]string{"::1", "2001:db8::8a2e:370:7334", "fe80::", "1:2:3:4:5:6:7:8"},
			[]string{"1::2::3", "12345::", "1:2:3:4:5:6:7"}},
		"uri": {[]string{"https://example.com:8080/a/b?c=d&e=%20#f", "mailto:a@b.de", "urn:isbn:123"},
			[]string{"://", "example.com", "http://a b", "http://a/%zz"}},
		"uri-reference":         {[]string{"a/b", "/x?y", "#z", "", "https://a.de"}, []string{"://", "a b", `\`}},
		"uri-template":          {[]string{"https://x.org/{user}/a{?q,page}"}, []string{"{a", "}"}},
		"json-pointer":          {[]string{"", "/a/b~1c/0"}, []string{"a", "/~2"}},
		"relative-json-pointer": {[]string{"0#", "12/a"}, []string{"01/a", "/a"}},
		"regex":                 {[]string{`^[a-z]+\\d*$`}, []string{"(", "[z-a]", "*"}},
	} {
		g, err := Compile(t.Context(), []byte(`{"type":"string","format":"`+format+`"}`), false)
		require.NoError(t, err, format)
		for _, text := range c.yes {
			whole, _ := fits(g, `"`+text+`"`)
			assert.True(t, whole, "%s: %s", format, text)
		}
		for _, text := range c.no {
			whole, _ := fits(g, `"`+text+`"`)
			assert.False(t, whole, "%s: %s", format, text)
		}
	}
}
