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
)

// TestSoftOptions: variant, seed and threads reach the software device.
func TestSoftOptions(t *testing.T) {
	for name, want := range map[Backend]struct {
		variant string
		seed    uint64
		threads int64
	}{
		"soft": {"fast", 0, 3}, "soft:fast:7": {"fast", 7, 3},
		"soft:check:18446744073709551615": {"check", 1<<64 - 1, 1}, // it uses one thread
	} {
		d, err := Options{Backend: name, Threads: 3}.openSoft()
		if errors.Is(err, metal.ErrNoDevice) {
			sharedtest.Missing(t, err)
		}
		require.NoError(t, err, name)
		has := reflect.ValueOf(d).Elem().FieldByName("options") // the seed changes no result that a test could see
		assert.Equal(t, want.variant, has.FieldByName("Variant").String())
		assert.Equal(t, want.seed, has.FieldByName("Seed").Uint())
		assert.Equal(t, want.threads, has.FieldByName("Threads").Int())
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
