//go:build linux && (amd64 || arm64)

package mtl

import (
	"errors"
	"math"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// fakeOptions is the state of an MTLCompileOptions: the version of the language, MTLMathMode (0 is safe) and
// MTLMathFloatingPointFunctions (1 is precise).
type fakeOptions struct{ version, mode, functions uintptr }

// fakePipeline is the state of an MTLComputePipelineState. The kernel belongs to its MTLFunction.
type fakePipeline struct {
	gpu    metal.Pipeline
	limits fakeLimits
}

func fakeLibraryMethods() map[string]map[string]method {
	return map[string]map[string]method{
		"class MTLCompileOptions": allocate("MTLCompileOptions", func() any { return &fakeOptions{mode: 2} }),
		"MTLCompileOptions": {
			"init":                           initialize,
			"setLanguageVersion:":            setOption(func(o *fakeOptions) *uintptr { return &o.version }),
			"languageVersion":                readOption(func(o *fakeOptions) uintptr { return o.version }),
			"setMathMode:":                   setOption(func(o *fakeOptions) *uintptr { return &o.mode }),
			"mathMode":                       readOption(func(o *fakeOptions) uintptr { return o.mode }),
			"setMathFloatingPointFunctions:": setOption(func(o *fakeOptions) *uintptr { return &o.functions }),
			"mathFloatingPointFunctions":     readOption(func(o *fakeOptions) uintptr { return o.functions }),
			"fastMathEnabled":                readOption(func(o *fakeOptions) uintptr { return min(o.mode, 1) }),
			"setFastMathEnabled:": func(f *fake, self *object, c *fakeCall) {
				o := self.value.(*fakeOptions)
				o.mode, o.functions = 2, 0
				if c.arg(0)&0xff == 0 {
					o.mode, o.functions = 0, 1
				}
			},
		},
		"class MTLFunctionConstantValues": allocate("MTLFunctionConstantValues", func() any {
			return &[]metal.Constant{}
		}),
		"MTLFunctionConstantValues": {"init": initialize, "setConstantValue:type:atIndex:": setConstantValue},
		"MTLLibrary": {
			"newFunctionWithName:": func(f *fake, self *object, c *fakeCall) {
				if name := f.object(c.arg(0), "NSString", "the function's name"); name != nil {
					c.value, _ = f.newFunction(self, name, nil)
				}
			},
			"newFunctionWithName:constantValues:error:": func(f *fake, self *object, c *fakeCall) {
				name := f.object(c.arg(0), "NSString", "the function's name")
				values := f.object(c.arg(1), "MTLFunctionConstantValues", "the constants")
				if name != nil && values != nil {
					var err error
					c.value, err = f.newFunction(self, name, *values.value.(*[]metal.Constant))
					f.finishError(c.arg(2), err)
				}
			},
		},
		"MTLFunction": {},
		"MTLComputePipelineState": {
			"maxTotalThreadsPerThreadgroup": func(f *fake, self *object, c *fakeCall) {
				c.value = uintptr(self.value.(*fakePipeline).limits.threads)
			},
			"threadExecutionWidth": func(f *fake, self *object, c *fakeCall) {
				c.value = uintptr(self.value.(*fakePipeline).limits.width)
			},
			"staticThreadgroupMemoryLength": func(f *fake, self *object, c *fakeCall) {
				c.value = uintptr(self.value.(*fakePipeline).limits.uses)
			},
		},
	}
}

func setOption(field func(*fakeOptions) *uintptr) method {
	return func(f *fake, self *object, c *fakeCall) { *field(self.value.(*fakeOptions)) = c.arg(0) }
}

func readOption(field func(*fakeOptions) uintptr) method {
	return func(f *fake, self *object, c *fakeCall) { c.value = field(self.value.(*fakeOptions)) }
}

// newLibrary implements newLibraryWithSource:options:error:.
func newLibrary(f *fake, self *object, c *fakeCall) {
	source := f.object(c.arg(0), "NSString", "the source")
	options := f.object(c.arg(1), "MTLCompileOptions", "the compile options")
	if source == nil || options == nil {
		return
	}
	if o := options.value.(*fakeOptions); *o != (fakeOptions{version: 0x30001, mode: 0, functions: 1}) {
		f.fault("compiled with %+v instead of Metal 3.1 and safe, precise arithmetic", *o)
	}
	l, err := f.gpu.NewLibrary(source.text())
	f.finishError(c.arg(2), err)
	if err == nil {
		o := f.newObject("MTLLibrary", l)
		o.dealloc = l.Close
		c.value = o.address
	}
}

// newPipelineState implements newComputePipelineStateWithFunction:error:.
func newPipelineState(f *fake, self *object, c *fakeCall) {
	function := f.object(c.arg(0), "MTLFunction", "the function")
	if function == nil {
		return
	}
	f.finishError(c.arg(1), nil)
	function.refs++
	p := function.value.(metal.Pipeline)
	o := f.newObject("MTLComputePipelineState", &fakePipeline{p, f.limitsOf(p)})
	o.dealloc = func() { f.release(function) }
	c.value = o.address
}

func (f *fake) newFunction(library, name *object, constants []metal.Constant) (uintptr, error) {
	p, err := library.value.(metal.Library).NewPipeline(name.text(), constants...)
	if err != nil {
		return 0, err
	}
	o := f.newObject("MTLFunction", p)
	o.dealloc = p.Close
	return o.address, nil
}

// finishError writes an error or, on success, garbage to the target of an NSError**.
func (f *fake) finishError(address uintptr, err error) {
	if err == nil {
		f.spoilError(address)
		return
	}
	text := err.Error()
	if e, ok := errors.AsType[*metal.CompileError](err); ok {
		text = e.Log
	}
	f.setError(address, text)
}

func setConstantValue(f *fake, self *object, c *fakeCall) {
	bits := *(*uint32)(cPointer(c.arg(0)))
	k := metal.Constant{Index: int(c.arg(2))}
	switch c.arg(1) {
	case 3:
		k.Value = math.Float32frombits(bits)
	case 29:
		k.Value = int32(bits)
	case 33:
		k.Value = bits
	case 53:
		k.Value = bits&0xff != 0
	default:
		f.fault("a function constant of type %d", c.arg(1))
	}
	constants := self.value.(*[]metal.Constant)
	*constants = append(*constants, k)
}
