package group

import (
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestValues: each value of a flag is what it says and is printed in a form that the flag accepts again; a refused one
// changes nothing.
func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		v       pflag.Value
		is      map[string]any
		refused []string
	}{
		"deadline": {new(deadlineFlag), map[string]any{"off": deadlineFlag(-1), "auto": deadlineFlag(0),
			"2s":  deadlineFlag(2 * time.Second),
			"1ns": deadlineFlag(1), "800ms": deadlineFlag(800 * time.Millisecond)},
			[]string{"-1ns", "-2s", "3", "soon", ""}},
		"margin": {new(Margin), map[string]any{"off": Margin{}, "0": Margin{On: true},
			"0.5": Margin{On: true, Nats: 0.5}, "1000000": Margin{On: true, Nats: 1e6}},
			[]string{"-1", "on", "NaN", "Inf", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			for text, want := range c.is {
				require.NoError(t, c.v.Set(text), text)
				assert.Equal(t, want, reflect.ValueOf(c.v).Elem().Interface(), text)
				assert.Equal(t, text, c.v.String())
				for _, wrong := range c.refused {
					assert.Error(t, c.v.Set(wrong), wrong)
					assert.Equal(t, want, reflect.ValueOf(c.v).Elem().Interface(), "not changed by %s", wrong)
				}
			}
		})
	}
	var d deadlineFlag
	require.NoError(t, d.Set("0"))
	assert.Equal(t, deadlineOff, d)
}
