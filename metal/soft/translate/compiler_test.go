package translate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// strict checks a source as Build does, without making code: the parser's rules and the strict pass.
func strict(t *testing.T, c *Compiler, source string) error {
	t.Helper()
	u, err := c.translate(source)
	if err != nil {
		return err
	}
	return c.strict(u)
}

// TestStrictRejects: each file of testdata/rejected has a comment "error: words" in the line that must be refused with
// these words.
func TestStrictRejects(t *testing.T) {
	c := open(t, Options{})
	files, err := filepath.Glob("testdata/rejected/*.metal")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			line, words := 0, ""
			for i, l := range strings.Split(string(source), "\n") {
				if _, w, ok := strings.Cut(l, "// error: "); ok {
					line, words = i+1, w
				}
			}
			require.NotZero(t, line, "no line has an error comment")
			err = strict(t, c, "#line 1 \"rejected.metal\"\n"+string(source))
			e, ok := errors.AsType[*metal.CompileError](err)
			require.True(t, ok, "want a compile error, have %v", err)
			assert.Contains(t, e.Log, fmt.Sprintf("rejected.metal:%d:", line))
			assert.Contains(t, e.Log, words)
		})
	}
}

// TestStrictAccepts: the sources of all tests are accepted.
func TestStrictAccepts(t *testing.T) {
	c := open(t, Options{})
	for _, name := range []string{"features", "faults", "bench"} {
		assert.NoError(t, strict(t, c, source(t, name)))
	}
}

// TestLineDirectives: #line names the file of a part of a concatenated source, in errors of every stage.
func TestLineDirectives(t *testing.T) {
	compiler := open(t, Options{})
	const head = "#line 1 \"a.metal\"\n#include <metal_stdlib>\nusing namespace metal;\n#line 100 \"b.metal\"\n"
	for _, c := range []struct{ source, want string }{
		{head + "#error no\n", "b.metal:100:"},
		{head + "\nkernel void k(device float *p) {}\n", "b.metal:101:"},
		{head + "\n\nkernel void k(device float *p [[buffer(0)]]) { p[0] = nothing; }\n", "b.metal:102:"},
		{head + "kernel void k(device float *p [[buffer(0)]]) {}\n#line 7 \"c.metal\"\nint x = y;\n", "c.metal:7:"},
	} {
		err := strict(t, compiler, c.source)
		assert.ErrorContains(t, err, c.want)
	}
}

// TestLargeFrame: a thread has a small stack: a larger frame is refused when code is made.
func TestLargeFrame(t *testing.T) {
	c := open(t, Options{})
	_, err := c.Build(`#line 1 "a.metal"
#include <metal_stdlib>
using namespace metal;
kernel void k(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float v[8192];
  for (uint j = 0; j < 8192; j++) v[j * i % 8192] = x[j];
  x[i] = v[i];
}`, Fast)
	assert.ErrorContains(t, err, "a.metal:3:")
	assert.ErrorContains(t, err, "stack frame size")
}

// TestOtherProcessors: all sources also compile for the other processor.
func TestOtherProcessors(t *testing.T) {
	own := open(t, Options{})
	for _, arch := range []string{"amd64", "arm64"} {
		if arch == runtime.GOARCH {
			continue
		}
		c := *own
		c.arch, c.cache = arch, held.TempDir(t)
		_, err := c.runtime()
		require.NoError(t, err)
		u, err := c.translate(source(t, "features"))
		require.NoError(t, err)
		text, err := u.runText()
		require.NoError(t, err)
		for _, v := range []Variant{Fast, Check} {
			object := filepath.Join(c.cache, "a.o")
			_, err = c.clangRun(text, append(v.flags(), "-O0", "-include", "metal.h", "-c", "-o", object)...)
			require.NoError(t, err, "%s %s", arch, v)
		}
	}
}
