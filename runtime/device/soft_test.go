//go:build !nosoft

package device

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
)

// TestSoftOptions: variant and threads reach the software device.
func TestSoftOptions(t *testing.T) {
	for check, want := range map[bool]soft.Options{
		false: {Variant: soft.Fast, Threads: 3}, true: {Variant: soft.Check, Threads: 1}, // it uses one thread
	} {
		d, err := openSoft(check, 3)
		if errors.Is(err, metal.ErrNoDevice) {
			sharedtest.Missing(t, err)
		}
		require.NoError(t, err)
		has := reflect.ValueOf(d).Elem().FieldByName("options")
		assert.Equal(t, string(want.Variant), has.FieldByName("Variant").String())
		assert.EqualValues(t, want.Threads, has.FieldByName("Threads").Int())
		assert.NoError(t, d.Close())
	}
	d, end, err := Open(Options{Backend: Soft, Mapped: [][]byte{make([]byte, 8)}})
	require.NoError(t, err)
	assert.Equal(t, 1, reflect.ValueOf(d).Elem().FieldByName("mapped").Len())
	assert.NoError(t, end())
	for _, o := range []Options{{Backend: Soft, Threads: -1}, {Backend: CPU, Threads: -1}, {Threads: -1}} {
		_, _, err := Open(o)
		assert.ErrorContains(t, err, "-1", "%+v", o)
	}
}
