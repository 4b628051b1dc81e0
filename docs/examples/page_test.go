package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// text returns a file.
func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(b)
}

// missing returns the first line of code that program does not contain after the previous lines; "…" stands for any
// lines. Indentation is ignored.
func missing(code, program string) string {
	lines := strings.Split(program, "\n")
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line == "" || line == "…" {
			continue
		}
		found := false
		for len(lines) > 0 && !found {
			found = strings.TrimSpace(lines[0]) == line
			lines = lines[1:]
		}
		if !found {
			return line
		}
	}
	return ""
}

// TestMissing: missing lines are found, and so are lines in another order.
func TestMissing(t *testing.T) {
	for code, want := range map[string]string{
		"a\nb": "", "\ta\n": "", "a\n…\nc": "", "": "", "b\na": "a", "a\na": "a", "d": "d", "a b": "a b",
	} {
		assert.Equal(t, want, missing(code, "\ta\n\tb\n\n\tc"), code)
	}
}

// TestEmbedding: the code in docs/use/embedding.md is that of the examples, and the page names each of them.
func TestEmbedding(t *testing.T) {
	page := text(t, "../use/embedding.md")
	for _, name := range names(t) {
		assert.Contains(t, page, "["+name+"](../examples/"+name+"/main.go)")
	}
	link := regexp.MustCompile(`\(\.\./examples/([a-z]+)/main\.go\)`)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatchIndex(page, -1)
	assert.Greater(t, len(blocks), 7)
	for _, b := range blocks {
		before := link.FindAllStringSubmatch(page[:b[0]], -1)
		require.NotEmpty(t, before)
		name := before[len(before)-1][1]
		assert.Empty(t, missing(page[b[2]:b[3]], text(t, filepath.Join(name, "main.go"))), "not in examples/%s", name)
	}
}

// TestPackageComment: the program in the comment of the root package equals Example, which compiles.
func TestPackageComment(t *testing.T) {
	comment, _, ok := strings.Cut(text(t, "../../pilotfish.go"), "\npackage pilotfish")
	require.True(t, ok)
	_, example, ok := strings.Cut(text(t, "../../example_test.go"), "func Example() {")
	require.True(t, ok)
	var code strings.Builder
	for line := range strings.Lines(comment) {
		if c, ok := strings.CutPrefix(line, "//\t"); ok {
			code.WriteString(c)
		}
	}
	assert.Equal(t, 8, strings.Count(code.String(), "\n"))
	assert.Empty(t, missing(code.String(), example))
}
