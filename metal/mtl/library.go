package mtl

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// library is an MTLLibrary.
type library struct {
	d       *Device
	library id // 0 when closed
}

// NewLibrary implements [metal.Device]. The language version is Metal 3.1, whatever the newest one of the system is.
func (d *Device) NewLibrary(source string) (metal.Library, error) {
	if strings.IndexByte(source, 0) >= 0 {
		return nil, &metal.CompileError{Log: "the source has a zero byte"}
	}
	s, err := d.openScope()
	if err != nil {
		return nil, err
	}
	defer s.closeScope()
	text := s.nsString(source)
	if text == 0 {
		return nil, &metal.CompileError{Log: "the source is not UTF-8"}
	}
	options, err := s.newCompileOptions()
	defer s.releaseObject(options)
	if err != nil {
		return nil, err
	}
	l := id(s.send(d.device, selNewLibraryWithSource, uintptr(text), uintptr(options), s.errorWord()))
	if l == 0 {
		return nil, &metal.CompileError{Log: s.errorReason()}
	}
	return &library{d, l}, nil
}

// newCompileOptions makes an MTLCompileOptions for Metal 3.1 and IEEE arithmetic that the caller releases, also after
// an error. Systems before macOS 15 have one option for the arithmetic, later ones two. Each option is read back: a
// system may ignore what it does not know, or what it grants only to programs that were built for it, and Metal would
// then compile other kernels without a word.
func (s *scope) newCompileOptions() (id, error) {
	o := s.newObject(classCompileOptions)
	s.send(o, selSetLanguageVersion, mtlLanguageVersion3_1)
	if got := s.send(o, selLanguageVersion); got != mtlLanguageVersion3_1 {
		return o, ignoredOption("languageVersion", got, mtlLanguageVersion3_1)
	}
	if !s.respondsTo(o, selSetMathMode) {
		s.send(o, selSetFastMathEnabled, 0)
		if s.sendForBool(o, selFastMathEnabled) {
			return o, ignoredOption("fastMathEnabled", 1, 0)
		}
		return o, nil
	}
	s.send(o, selSetMathMode, mtlMathModeSafe)
	if got := s.send(o, selMathMode); got != mtlMathModeSafe {
		return o, ignoredOption("mathMode", got, mtlMathModeSafe)
	}
	if s.respondsTo(o, selSetMathFloatingPointFunctions) {
		s.send(o, selSetMathFloatingPointFunctions, mtlMathFloatingPointFunctionsPrecise)
		if got := s.send(o, selMathFloatingPointFunctions); got != mtlMathFloatingPointFunctionsPrecise {
			return o, ignoredOption("mathFloatingPointFunctions", got, mtlMathFloatingPointFunctionsPrecise)
		}
	}
	return o, nil
}

func ignoredOption(name string, got, want uintptr) error {
	return &metal.CompileError{Log: fmt.Sprintf("Metal ignores the option %s: it is %#x instead of %#x; "+
		"the kernels need Metal 3.1, which macOS 14 and later have", name, got, want)}
}

func (l *library) Close() { l.d.releaseWhenUnused(&l.library, (*scope).releaseObject) }

func (l *library) NewPipeline(function string, constants ...metal.Constant) (metal.Pipeline, error) {
	if l.library == 0 {
		return nil, metal.ErrClosed
	}
	s, err := l.d.openScope()
	if err != nil {
		return nil, err
	}
	defer s.closeScope()
	f, err := s.newFunction(l.library, function, constants)
	if err != nil {
		return nil, err
	}
	defer s.releaseObject(f)
	p := id(s.send(l.d.device, selNewComputePipelineState, uintptr(f), s.errorWord()))
	if p == 0 {
		return nil, &metal.CompileError{Function: function, Log: s.errorReason()}
	}
	return l.d.newPipeline(s, p, function)
}

// newFunction finds a kernel in a library and sets its constants. The caller releases the result.
func (s *scope) newFunction(library id, name string, constants []metal.Constant) (id, error) {
	text := id(0)
	if strings.IndexByte(name, 0) < 0 {
		text = s.nsString(name)
	}
	if text == 0 {
		return 0, &metal.CompileError{Function: name, Log: "this is no name of a function"}
	}
	if len(constants) == 0 {
		f := id(s.send(library, selNewFunctionWithName, uintptr(text)))
		if f == 0 {
			return 0, &metal.CompileError{Function: name, Log: "the library has no function of this name"}
		}
		return f, nil
	}
	values := s.newObject(classFunctionConstantValues)
	defer s.releaseObject(values)
	for _, c := range constants {
		if err := s.setConstant(values, c); err != nil {
			return 0, &metal.CompileError{Function: name, Log: err.Error()}
		}
	}
	f := id(s.send(library, selNewFunctionWithConstants, uintptr(text), uintptr(values), s.errorWord()))
	if f == 0 {
		return 0, &metal.CompileError{Function: name, Log: s.errorReason()}
	}
	return f, nil
}

// setConstant adds a value to an MTLFunctionConstantValues, which copies it.
func (s *scope) setConstant(values id, c metal.Constant) error {
	if c.Index < 0 || c.Index > math.MaxUint16 {
		return fmt.Errorf("no function constant has index %d", c.Index)
	}
	var bits, kind uint32
	switch v := c.Value.(type) {
	case bool:
		kind = mtlDataTypeBool
		if v {
			bits = 1 // in the first byte: every processor here is little-endian
		}
	case int32:
		kind, bits = mtlDataTypeInt, uint32(v)
	case uint32:
		kind, bits = mtlDataTypeUInt, v
	case float32:
		kind, bits = mtlDataTypeFloat, math.Float32bits(v)
	default:
		return fmt.Errorf("function constant %d is a %T: only bool, int32, uint32 and float32 are possible",
			c.Index, c.Value)
	}
	word := &bits
	var pin runtime.Pinner
	pin.Pin(word)
	defer pin.Unpin()
	s.send(values, selSetConstantValue, uintptr(unsafe.Pointer(word)), uintptr(kind), uintptr(c.Index))
	return nil
}
