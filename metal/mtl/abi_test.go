package mtl

import (
	"os/exec"
	"regexp"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestABI: clang, which decides this, passes structures as Apple's compiler does for macOS: on arm64 two sizes by
// address, on amd64 (x86_64) by value on the stack, which is the meaning of byval. A size is returned through memory,
// and on amd64 through a separate entry point. See sendSizes and bindSize.
func TestABI(t *testing.T) {
	needClang(t)
	for target, calls := range map[string][]string{
		"arm64": {
			`void @objc_msgSend\(ptr [^,]*, ptr [^,]*, ptr noundef[^,b]*, ptr noundef[^,b]*\)`,
			`void @objc_msgSend\(ptr [^,]*sret\(%struct\.MTLSize\)[^,]*, ptr [^,]*, ptr [^,]*\)`,
			`double @objc_msgSend\(ptr [^,]*, ptr [^,]*\)`,
		},
		"x86_64": {
			`void @objc_msgSend\(ptr [^,]*, ptr [^,]*, ` +
				`ptr [^,]*byval\(%struct\.MTLSize\) align 8 [^,]*, ptr [^,]*byval\(%struct\.MTLSize\) align 8 [^,]*\)`,
			`void @objc_msgSend_stret\(ptr [^,]*sret\(%struct\.MTLSize\)[^,]*, ptr [^,]*, ptr [^,]*\)`,
			`double @objc_msgSend\(ptr [^,]*, ptr [^,]*\)`,
		},
	} {
		ir, err := exec.Command("clang-19", "-target", target+"-apple-macosx14", "-O1", "-S", "-emit-llvm", "-o", "-",
			"testdata/abi.m").Output()
		require.NoError(t, err)
		for _, c := range calls {
			assert.Regexp(t, regexp.MustCompile(`(?m)call `+c), string(ir), target)
		}
	}
}

// fixedSizes is not on a stack, which may move while the addresses are held as numbers.
var fixedSizes = [2]size{{width: 2, height: 3, depth: 5}, {width: 7, height: 11, depth: 13}}

// TestPutSizes checks on every machine the words of a call with two sizes for each architecture: the test of the
// complete call runs on one of them.
func TestPutSizes(t *testing.T) {
	sizes := &fixedSizes
	first, second := uintptr(unsafe.Pointer(&sizes[0])), uintptr(unsafe.Pointer(&sizes[1]))
	for arch, want := range map[string][]uintptr{
		"arm64": {100, 101, first, second},
		"amd64": {100, 101, 102, 103, 104, 105, 2, 3, 5, 7, 11, 13}, // registers without arguments are unchanged
	} {
		words := [maxWords]uintptr{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111}
		n := putSizes(arch, &words, sizes)
		assert.Equal(t, want, words[:n], arch)
	}
	assert.Equal(t, uintptr(24), unsafe.Sizeof(sizes[0]))
	assert.Equal(t, "objc_msgSend_stret", sizeEntry("amd64"))
	assert.Equal(t, "objc_msgSend", sizeEntry("arm64"))
}
