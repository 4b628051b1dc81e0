package device

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParse: every name of a backend, and invalid names.
func TestParse(t *testing.T) {
	for _, name := range []string{
		"cpu", "metal", "soft", "soft:fast", "soft:fastmath", "soft:check", "soft:ubsan", "soft:check:0",
		"soft:fast:18446744073709551615",
	} {
		b, err := Parse(name)
		require.NoError(t, err, name)
		assert.Equal(t, Backend(name), b)
	}
	for name, want := range map[string]string{
		"":                               `"" is not a backend: choose cpu, metal or soft`,
		"gpu":                            "choose cpu, metal or soft",
		"CPU":                            "choose cpu, metal or soft",
		"cpu:":                           "choose cpu, metal or soft",
		"cpu:fast":                       "choose cpu, metal or soft",
		"metal:fast":                     "choose cpu, metal or soft",
		"soft:":                          "choose fast, fastmath, check or ubsan",
		"soft:slow":                      `"slow" is not a variant of the backend soft: choose fast`,
		"soft:fast:":                     "the seed after the colon must be a number",
		"soft:fast:-1":                   "must be a number",
		"soft:fast:x":                    `"fast:x" is not a variant of the backend soft`,
		"soft:fast:1:":                   "must be a number",
		"soft:fast:18446744073709551616": "must be a number",
	} {
		b, err := Parse(name)
		assert.ErrorContains(t, err, want, name)
		assert.Empty(t, b)
	}
	variant, seed, err := Soft.how("check:42")
	require.NoError(t, err)
	assert.Equal(t, "check", variant)
	assert.EqualValues(t, 42, seed)
	variant, seed, err = Soft.how("ubsan")
	require.NoError(t, err)
	assert.Equal(t, "ubsan", variant)
	assert.Zero(t, seed)
}
