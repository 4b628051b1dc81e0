package group

import (
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestValues: each value of a flag is what it says and is printed in a form that the flag accepts again; a refused one
// changes nothing.
func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		v       pflag.Value
		is      map[string]any
		refused []string
	}{
		"count": {new(count), map[string]any{"auto": count(0), "1": count(1), "65": count(65)},
			[]string{"0", "-1", "-99", "1.5", "off", "", "99999999999999999999"}},
		"branches": {new(branchCount), map[string]any{"auto": branchCount(engine.AutoBranches), "1": branchCount(1)},
			[]string{"0", "-1", "-2", "x", ""}},
		"lookup": {new(LookupRows), map[string]any{"auto": LookupRows(0), "off": LookupRows(-1), "2": LookupRows(2),
			"8": LookupRows(8)}, []string{"1", "9", "0", "-1", "on", ""}},
		"deadline": {new(deadline), map[string]any{"off": deadline(-1), "2s": deadline(2 * time.Second),
			"1ns": deadline(1), "800ms": deadline(800 * time.Millisecond)}, []string{"-1ns", "-2s", "3", "soon", ""}},
		"margin": {new(Margin), map[string]any{"off": Margin{}, "0": Margin{On: true},
			"0.5": Margin{On: true, Nats: 0.5}, "1000000": Margin{On: true, Nats: 1e6}},
			[]string{"-1", "on", "NaN", "Inf", ""}},
		"numbers": {new(NumberList), map[string]any{"1,16": NumberList{1, 16}, "16": NumberList{16}},
			[]string{"", "1,1"}},
	} {
		for text, want := range c.is {
			require.NoError(t, c.v.Set(text), "%s %s", name, text)
			assert.Equal(t, want, reflect.ValueOf(c.v).Elem().Interface(), "%s %s", name, text)
			assert.Equal(t, text, c.v.String(), name)
			for _, wrong := range c.refused {
				assert.Error(t, c.v.Set(wrong), "%s %s", name, wrong)
				assert.Equal(t, want, reflect.ValueOf(c.v).Elem().Interface(), "%s is not changed by %s", name, wrong)
			}
		}
	}
	var d deadline
	require.NoError(t, d.Set("0"))
	assert.Equal(t, deadlineOff, d)
}
