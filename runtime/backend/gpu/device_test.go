package gpu

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/mtl"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
)

// OpenMetal opens the device that the tables of tests run on: the software device with o, or the GPU of a Mac, which
// has no variants and no schedules: the tests that ask for them are skipped there.
func OpenMetal(t testing.TB, o soft.Options) metal.Device {
	t.Helper()
	var d metal.Device
	var err error
	if runtime.GOOS != "darwin" {
		d, err = soft.Open(o)
	} else if o.Variant == "" || o.Variant == soft.Fast {
		d, err = mtl.Open(mtl.Options{})
	} else {
		t.Skipf("a GPU has no variant %s", o.Variant)
	}
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}
