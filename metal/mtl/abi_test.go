package mtl

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Structures are passed as Apple's compiler does for macOS, of which clang is the part that decides this: on arm64 the
// addresses of two sizes, on amd64 (x86_64) the sizes themselves on the stack, which is what byval means; a size comes
// back through memory, and on amd64 through an entry point of its own. See sendSizes and bindSize.
func TestABI(t *testing.T) {
	needClang(t)
	for target, calls := range map[string][]string{
		"arm64": {
			`void @objc_msgSend\(ptr [^,]*, ptr [^,]*, ptr noundef[^,b]*, ptr noundef[^,b]*\)`,
			`void @objc_msgSend\(ptr [^,]*sret\(%struct\.MTLSize\)[^,]*, ptr [^,]*, ptr [^,]*\)`,
			`double @objc_msgSend\(ptr [^,]*, ptr [^,]*\)`,
		},
		"x86_64": {
			`void @objc_msgSend\(ptr [^,]*, ptr [^,]*, ptr [^,]*byval\(%struct\.MTLSize\) align 8 [^,]*, ptr [^,]*byval\(%struct\.MTLSize\) align 8 [^,]*\)`,
			`void @objc_msgSend_stret\(ptr [^,]*sret\(%struct\.MTLSize\)[^,]*, ptr [^,]*, ptr [^,]*\)`,
			`double @objc_msgSend\(ptr [^,]*, ptr [^,]*\)`,
		},
	} {
		ir, err := exec.Command("clang-19", "-target", target+"-apple-macosx14", "-O1", "-S", "-emit-llvm", "-o", "-", "testdata/abi.m").Output()
		require.NoError(t, err)
		for _, c := range calls {
			assert.Regexp(t, regexp.MustCompile(`(?m)call `+c), string(ir), target)
		}
	}
}
