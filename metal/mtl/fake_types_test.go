//go:build linux && (amd64 || arm64)

package mtl

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// appleEncodings returns the types of methods in testdata/apple.txt, by selector.
func appleEncodings() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(appleMethods) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			all[f[1]] = f[2]
		}
	}
	return all
}

// encodingsC holds the same as C strings, at fixed addresses.
var encodingsC = map[string][]byte{}

// getMethod is class_getInstanceMethod: the address of a method's types represents the method.
func (f *fake) getMethod(class, selector uintptr) uintptr {
	o, name := f.objects[class], f.selectors[selector]
	if o == nil || f.method(o, name) == nil || f.encodings[name] == "" {
		return 0
	}
	key := f.encodings[name]
	if encodingsC[key] == nil {
		encodingsC[key] = append([]byte(key), 0)
	}
	return uintptr(unsafe.Pointer(&encodingsC[key][0]))
}

// checkTypes compares the arguments of a message with the types of its method, and reports whether they fit.
func (f *fake) checkTypes(c *fakeCall, name string) bool {
	encoding, known := f.encodings[name]
	if !known {
		return true // useless: there is no such method
	}
	types := splitEncoding(encoding)
	word := 0
	for _, t := range types[3:] {
		if t == typeSize {
			return true
		}
		for range wordsOf(t) {
			if v := c.arg(word); !f.fits(t, v) {
				f.fault("word %d of the arguments of %s is %#x instead of a %s", word+1, name, v, t)
				return false
			}
			word++
		}
	}
	return true
}

// fits reports whether a word may be an argument of a type.
func (f *fake) fits(t string, v uintptr) bool {
	object := v >= objectsFrom && v <= f.next
	switch t[0] {
	case '@': // or a block; those methods report faults of blocks themselves
		return t == "@?" || v == 0 || object
	case ':':
		return f.selectors[v] != ""
	case 'B':
		return v&0xff <= 1
	case '^', '*':
		return !object
	}
	return v < 1<<39 // a count, an offset or the value of an enumeration, but not an address
}

// TestEncodingsOfRuntime: the comparison with the types of a running system, which TestSystem makes on a Mac, accepts
// those of the fake, and finds a wrong one.
func TestEncodingsOfRuntime(t *testing.T) {
	f := newFake(t, &goGPU{})
	d := f.open(t)
	assert.Greater(t, sameEncodings(t, []string{buildFake(t)}, d), 25)
	f.encodings["setBufferOffset:atIndex:"] = "v32@0:8Q16@24"
	other := new(testing.T)
	sameEncodings(other, []string{buildFake(t)}, d)
	assert.True(t, other.Failed(), "an index is not an object")
}
