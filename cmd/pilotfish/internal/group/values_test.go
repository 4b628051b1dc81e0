package group

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestFlagValues: a value of a flag is printed as it was given, and a wrong one changes nothing.
func TestFlagValues(t *testing.T) {
	for kind, c := range map[string]struct {
		flag      pflag.Value
		good, bad string
	}{
		"auto|N":     {new(branchCount), "auto 1 64", "0 -1 off x"},
		"auto|N ":    {new(count), "auto 1 64", "0 off x"},
		"auto|off|N": {new(LookupRows), "auto off 2 8", "1 9 -1 x"},
		"time":       {new(deadline), "off 800ms 2s", "-1ns 3 x"},
		"margin":     {new(Margin), "off 0 0.5 2", "-1 NaN x"},
		"numbers":    {new(NumberList), "16 16,512", "x 1,1"},
		"list":       {new(PriceFlag), "prefill=1,decode=2", "3 prefill=1"},
	} {
		assert.Equal(t, strings.TrimSpace(kind), c.flag.Type())
		for text := range strings.FieldsSeq(c.good) {
			assert.NoError(t, c.flag.Set(text), kind)
			assert.Equal(t, text, c.flag.String(), kind)
		}
		before := c.flag.String()
		for text := range strings.FieldsSeq(c.bad) {
			assert.Error(t, c.flag.Set(text), "%s: %s", kind, text)
			assert.Equal(t, before, c.flag.String(), kind)
		}
	}
	d := deadline(time.Second)
	assert.NoError(t, d.Set("0"))
	assert.Equal(t, deadlineOff, d)
	assert.Empty(t, new(PriceFlag).String())
	assert.EqualValues(t, engine.MostLookup, 8, "as in the help")
}
