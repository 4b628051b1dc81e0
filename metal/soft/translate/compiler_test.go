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
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// strict checks a source as Build does, without making code: the parser's rules and the strict pass.
func strict(t *testing.T, c *Compiler, source string) error {
	t.Helper()
	u, err := c.parseSource(source)
	if err != nil {
		return err
	}
	return c.checkStrict(u)
}

// TestLook: clang of version 19 is found by either of its names, and another version only if it is named. lld is taken
// from the folder of clang first.
func TestLook(t *testing.T) {
	folder := func(scripts ...string) string { // name and version of each
		dir := held.TempDir(t)
		for i := 0; i < len(scripts); i += 2 {
			text := "#!/bin/sh\necho " + scripts[i+1] + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, scripts[i]), []byte(text), 0o755))
		}
		return dir
	}
	missing := func(want string, err error) {
		t.Helper()
		assert.ErrorIs(t, err, metal.ErrNoDevice)
		assert.ErrorContains(t, err, want)
	}
	both := folder("clang", "19.1.7", "clang-19", "19.1.7")
	t.Setenv("PATH", both)
	found, err := findClang("")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(both, "clang-19"), found)
	plain := folder("clang", "19.1.7", "ld.lld", "19")
	t.Setenv("PATH", plain)
	found, err = findClang("")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(plain, "clang"), found)
	for _, version := range []string{"18.1.3", "190.1"} {
		other := folder("clang", version)
		t.Setenv("PATH", other)
		_, err = findClang("")
		missing("clang-19 or clang was not found", err)
		found, err = findClang(filepath.Join(other, "clang"))
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(other, "clang"), found)
	}
	_, err = findClang("clang-20")
	missing("clang-20 was not found", err)

	link := filepath.Join(held.TempDir(t), "clang")
	require.NoError(t, os.Symlink(filepath.Join(plain, "clang"), link))
	for _, c := range []struct{ path, clang, want string }{
		{folder("ld.lld-19", "19"), link, filepath.Join(plain, "ld.lld")},
		{folder("ld.lld-19", "19", "ld.lld", "19"), filepath.Join(both, "clang"), "ld.lld-19"},
		{folder("ld.lld", "19"), filepath.Join(both, "clang"), "ld.lld"},
	} {
		t.Setenv("PATH", c.path)
		found, err = findLinker(c.clang)
		require.NoError(t, err)
		if !filepath.IsAbs(c.want) {
			c.want = filepath.Join(c.path, c.want)
		}
		assert.Equal(t, c.want, found)
	}
	t.Setenv("PATH", both)
	_, err = findLinker(filepath.Join(both, "clang"))
	missing("ld.lld-19 was not found", err)
}

// TestHeaders: a source may include each header of Metal, and no others.
func TestHeaders(t *testing.T) {
	c := open(t, Options{})
	source := "#include <metal_stdlib>\n"
	for _, name := range []string{
		"atomic", "common", "compute", "geometric", "integer", "math", "matrix", "pack", "relational", "simdgroup",
		"simdgroup_matrix", "types",
	} {
		source += "#include <metal_" + name + ">\n"
	}
	_, err := c.parseSource(source + "using namespace metal;\n")
	assert.NoError(t, err)
	_, err = c.parseSource(source + "#include <vector>\n")
	assert.ErrorContains(t, err, "'vector' file not found")
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
	for _, name := range []string{"features", "faults"} {
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
	racing.Spare(t)
	own := open(t, Options{})
	for _, arch := range []string{"amd64", "arm64"} {
		if arch == runtime.GOARCH {
			continue
		}
		c := *own
		c.arch, c.cache = arch, held.TempDir(t)
		_, err := c.buildRuntime()
		require.NoError(t, err)
		left, err := filepath.Glob(filepath.Join(c.cache, "new-*"))
		require.NoError(t, err)
		assert.Empty(t, left)
		u, err := c.parseSource(source(t, "features"))
		require.NoError(t, err)
		text, err := u.runText()
		require.NoError(t, err)
		for _, v := range []Variant{Fast, Check} {
			object := filepath.Join(c.cache, "a.o")
			_, err = c.runClang(text, append(v.codegenFlags(), "-O0", "-include", "metal.h", "-c", "-o", object)...)
			require.NoError(t, err, "%s %s", arch, v)
		}
	}
}
