package gpu

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/mtl"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
)

// OpenMetal opens the device that the tables of tests run on: the software device with o, the GPU of a Mac, or OpenCL
// if PILOTFISH_OPENCL names a library. The last two have no variants or schedules: tests of these are skipped.
func OpenMetal(t testing.TB, o soft.Options) metal.Device {
	t.Helper()
	var d metal.Device
	var err error
	library := os.Getenv("PILOTFISH_OPENCL")
	switch {
	case onSoftware():
		d, err = soft.Open(o)
	case o.Variant != "" && o.Variant != soft.Fast:
		t.Skipf("only the software device has the variant %s", o.Variant)
	case library != "":
		d, err = openCL(library)
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

// onSoftware reports whether [OpenMetal] opens the software device.
func onSoftware() bool { return runtime.GOOS != "darwin" && os.Getenv("PILOTFISH_OPENCL") == "" }

// OpenChecked is [OpenMetal] with every access checked where that is possible.
func OpenChecked(t testing.TB, seed uint64) metal.Device {
	t.Helper()
	if onSoftware() {
		return OpenMetal(t, soft.Options{Variant: soft.Check, Seed: seed})
	}
	return OpenMetal(t, soft.Options{})
}

// EqualOperands is a device with a compiler that has no product of a matrix of floats and one of halves.
type EqualOperands struct{ metal.Device }

// NewLibrary implements [metal.Device]. It refuses the mixed form of the kernels, because OpenCL compiles a source only
// when it makes a pipeline. In the other form the product is an error: two declarations fit it equally.
func (d EqualOperands) NewLibrary(source string) (metal.Library, error) {
	if !strings.Contains(source, "#define EQUAL_OPERANDS\n") {
		return nil, &metal.CompileError{Log: "no product of floats and halves\nnote: one of floats"}
	}
	const names, product = "using namespace metal;\n", "void simdgroup_multiply_accumulate(" +
		"thread simdgroup_float8x8 &, simdgroup_float8x8, simdgroup_half8x8, simdgroup_float8x8"
	return d.Device.NewLibrary(strings.Replace(source, names, names+product+");\n"+product+", int = 0);\n", 1))
}
