package layering

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestArchitecture: the files and folders in docs/understand/architecture.md exist, and functions and types named after
// a file, or before "in" and a file, are declared in it.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/understand/architecture.md"))
	require.NoError(t, err)
	page := strings.Join(strings.Fields(string(text)), " ")
	declares := func(file string) string {
		b, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		return string(b)
	}
	named := 0
	check := func(file, name string) {
		named++
		declared := regexp.MustCompile(`(?m)^(func (\(\w* ?\*?\w+\) )?|type |\t)` + name + `\b`)
		assert.True(t, declared.MatchString(declares(file)), "%s does not declare %s", file, name)
	}
	file := regexp.MustCompile("`([\\w/]+\\.(?:go|md|s))`")
	for _, m := range file.FindAllStringSubmatch(page, -1) {
		declares(m[1])
	}
	ticked := regexp.MustCompile("`(\\w+)`")
	after := regexp.MustCompile("`([\\w/]+\\.go)`(?: \\(|, |: )((?:`\\w+`(?:, )?)+)")
	for _, m := range after.FindAllStringSubmatch(page, -1) {
		for _, n := range ticked.FindAllStringSubmatch(m[2], -1) {
			check(m[1], n[1])
		}
	}
	for _, m := range regexp.MustCompile("`(\\w+)` in `([\\w/]+\\.go)`").FindAllStringSubmatch(page, -1) {
		check(m[2], m[1])
	}
	assert.Greater(t, named, 30, "the number of names in the page")
}

// TestWalk: docs/understand/architecture.md lists the way from main to a microkernel in at most 14 files, each named
// once.
func TestWalk(t *testing.T) {
	text, err := os.ReadFile("../../docs/understand/architecture.md")
	require.NoError(t, err)
	_, walk, found := strings.Cut(string(text), "\n## The walk to one product\n")
	require.True(t, found)
	walk, _, _ = strings.Cut(walk, "\n## ")
	walk, _, _ = strings.Cut(walk, "\nThe microkernel is ") // which is not part of the call stack
	files := map[string]bool{}
	for _, m := range regexp.MustCompile("`([\\w/]+\\.(?:go|s))`").FindAllStringSubmatch(walk, -1) {
		assert.False(t, files[m[1]], "%s is listed twice", m[1])
		files[m[1]] = true
	}
	assert.Contains(t, files, "cmd/pilotfish/main.go")
	assert.Contains(t, files, "kernels/cpu/q4_0_avx2_gen_amd64.s")
	assert.LessOrEqual(t, len(files), 14)
}
