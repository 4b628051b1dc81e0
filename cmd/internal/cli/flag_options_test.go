package cli

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// TestOptionsFlag: options are set by name, one or several at a time, and errors name the option.
func TestOptionsFlag(t *testing.T) {
	var n int
	var yes bool
	p := pflag.NewFlagSet("", pflag.ContinueOnError)
	o := AddOptions(p, "limit")
	o.IntVar(&n, "number", 7, "")
	o.BoolVar(&yes, "yes", false, "")
	assert.NoError(t, p.Parse([]string{"--limit", "number=3,yes"}))
	assert.Equal(t, 3, n)
	assert.True(t, yes)
	assert.Equal(t, "number=3,yes=true", o.String())
	assert.Equal(t, []string{"other=1"}, o.Without([]string{"number=5", "other=1"}))
	assert.NoError(t, p.Parse([]string{"--limit", "yes=false, number=4", "--limit", "number=5"}))
	assert.Equal(t, "number=5,yes=false", o.String())
	assert.False(t, yes)
	for text, want := range map[string]string{
		"number": "number has no value", "number=x": `number "x" is not a whole number`, "x=1": "choose number, yes",
		"yes=3": `yes "3" is neither true nor false`,
	} {
		assert.ErrorContains(t, o.Set(text), want)
	}
}
