package gpu

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/mtl"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/metal/soft/opencl"
)

// OpenMetal opens the device that the tables of tests run on: the software device with o, the GPU of a Mac, or OpenCL
// if PILOTFISH_OPENCL names a library. The last two have no variants or schedules: tests of these are skipped.
func OpenMetal(t testing.TB, o soft.Options) metal.Device {
	t.Helper()
	var d metal.Device
	var err error
	library := os.Getenv("PILOTFISH_OPENCL")
	switch {
	case runtime.GOOS != "darwin" && library == "":
		d, err = soft.Open(o)
	case o.Variant != "" && o.Variant != soft.Fast:
		t.Skipf("only the software device has the variant %s", o.Variant)
	case library != "":
		d, err = opencl.Open(library)
	default:
		d, err = mtl.Open(mtl.Options{})
	}
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}
