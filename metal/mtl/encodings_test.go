package mtl

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEncodings: the types of methods in testdata/apple.txt equal clang's encodings of their declarations in apple.m.
// On amd64 a BOOL is a signed char.
func TestEncodings(t *testing.T) {
	needClang(t)
	for _, target := range []string{"arm64", "x86_64"} {
		out, err := exec.Command("clang-19", "-target", target+"-apple-macosx14", "-S", "-emit-llvm", "-w", "-o", "-",
			"testdata/apple.m").Output()
		require.NoError(t, err)
		declared := map[string]string{}
		for name, types := range declaredMethods(string(out)) {
			if target == "x86_64" {
				types = strings.ReplaceAll(types, "c", "B")
			}
			declared[name] = types
		}
		for name, types := range appleTypes() {
			if types != "" {
				assert.Equal(t, splitEncoding(types), splitEncoding(declared[name]), "%s: %s", target, name)
				delete(declared, name)
			}
		}
		assert.Empty(t, declared, "declared but unused")
	}
}

var (
	irStrings = regexp.MustCompile(`(?m)^(@OBJC_METH_VAR_\w+_[.\d]*) = .* c"(.*)\\00"`)
	irMethods = regexp.MustCompile(`(?m)^@"_OBJC_\$_PROTOCOL_(?:INSTANCE|CLASS)_METHODS_(\w+)" = (.*)`)
	irMethod  = regexp.MustCompile(`\{ ptr (@OBJC_METH_VAR_NAME_[.\d]*), ptr (@OBJC_METH_VAR_TYPE_[.\d]*),`)
)

// declaredMethods parses the types of methods, by protocol and selector, from the output of clang.
func declaredMethods(ir string) map[string]string {
	text, all := map[string]string{}, map[string]string{}
	for _, m := range irStrings.FindAllStringSubmatch(ir, -1) {
		text[m[1]] = m[2]
	}
	for _, protocol := range irMethods.FindAllStringSubmatch(ir, -1) {
		for _, m := range irMethod.FindAllStringSubmatch(protocol[2], -1) {
			all[protocol[1]+" "+text[m[1]]] = text[m[2]]
		}
	}
	return all
}

func TestParts(t *testing.T) {
	for encoding, want := range map[string][]string{
		"v40@0:8@16Q24Q32":                 {"v", "@", ":", "@", "Q", "Q"},
		"Vv16@0:8":                         {"v", "@", ":"},
		"@48@0:8^v16Q24Q32@?40":            {"@", "@", ":", "^v", "Q", "Q", "@?"},
		"v48@0:8r^@16r^Q24{_NSRange=QQ}32": {"v", "@", ":", "^@", "^Q", typeRange},
		"v64@0:8{?=QQQ}16{?=QQQ}40":        {"v", "@", ":", typeSize, typeSize},
		"@40@0:8@16@24^@32":                {"@", "@", ":", "@", "@", "^@"},
		"r*16@0:8":                         {"*", "@", ":"},
		"v^^v":                             {"v", "^^v"},
		"":                                 nil,
	} {
		assert.Equal(t, want, splitEncoding(encoding), encoding)
	}
}

// sameEncodings compares the types of all methods in the table of selectors with those in the Objective-C runtime of
// the running system.
func sameEncodings(t *testing.T, libraries []string, d *Device) (compared int) {
	t.Helper()
	var loaded []uintptr
	for _, path := range libraries {
		l, err := openDylib(path)
		require.NoError(t, err)
		loaded = append(loaded, l)
	}
	find := func(name string) uintptr {
		address, err := findSymbol(loaded, name)
		require.NoError(t, err)
		return address
	}
	classOf, methodOf := find("object_getClass"), find("class_getInstanceMethod")
	typesOf := find("method_getTypeEncoding")
	s := d.objc.openScope()
	defer s.closeScope()
	made := s.newObject(classCompileOptions)
	defer s.releaseObject(made)
	commands := id(s.send(d.queues.now.queue, selCommandBuffer))
	encoder := id(s.send(commands, selComputeCommandEncoder, mtlDispatchTypeConcurrent))
	defer s.send(encoder, selEndEncoding)
	for _, o := range []id{d.device, d.queues.now.queue, made, commands, encoder, d.residency.set, s.nsString("x")} {
		if o == 0 {
			continue
		}
		class := callC(classOf, []uintptr{uintptr(o)})
		for i, selector := range selectors {
			m := callC(methodOf, []uintptr{class, s.selectors[i]})
			if m == 0 || selector.name == "name" || selector.name == "error" { // other classes have these, too
				continue
			}
			types := splitEncoding(cText(callC(typesOf, []uintptr{m})))
			if types[0] == "c" {
				types[0] = "B"
			}
			assert.Equal(t, selector.types, strings.Join(slices.Concat(types[:1], types[3:]), ""), selector.name)
			compared++
		}
	}
	return compared
}

// cText returns the text of a C string.
func cText(address uintptr) string {
	n := 0
	for *(*byte)(unsafe.Add(cPointer(address), n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(cPointer(address)), n))
}
