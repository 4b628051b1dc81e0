package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "module example.test/m\n\ngo 1.26\n"

const passing = `package m

import "testing"

func TestGood(t *testing.T) { t.Log("not shown") }

func TestAbsent(t *testing.T) { t.Log("one"); t.Skip("no data here") }

func TestParts(t *testing.T) {
	t.Run("a", func(t *testing.T) { t.Skip("no data here") })
	t.Run("b", func(t *testing.T) { t.SkipNow() })
}
`

const failing = `package m

import "testing"

func TestBad(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("this is why") }) }
`

// gotestIn runs gotest on a module with the given test file.
func gotestIn(t *testing.T, test string) (code int, stdout string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m_test.go"), []byte(test), 0o644))
	t.Chdir(dir)
	var out, errs bytes.Buffer
	code = run(t.Context(), []string{"-vet=off", "./..."}, &out, &errs)
	assert.Empty(t, errs.String())
	return code, out.String()
}

func TestLeftOut(t *testing.T) {
	code, out := gotestIn(t, passing)
	assert.Zero(t, code, out)
	assert.Contains(t, out, "ok  \texample.test/m")
	assert.NotContains(t, out, "not shown")
	assert.Contains(t, out, `
*** LEFT OUT: 3 of 5 tests did not run ***
no data here
    example.test/m.TestAbsent
    example.test/m.TestParts/a
no reason given
    example.test/m.TestParts/b
`)
}

func TestFailure(t *testing.T) {
	code, out := gotestIn(t, failing)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "--- FAIL: TestBad")
	assert.Contains(t, out, "m_test.go:5: this is why")
	assert.Contains(t, out, "FAIL\texample.test/m")
	assert.NotContains(t, out, "LEFT OUT")
}

func TestPanicAndBrokenBuild(t *testing.T) {
	code, out := gotestIn(t, "package m\n\nimport \"testing\"\n\nfunc TestBoom(*testing.T) { panic(\"boom\") }\n")
	assert.NotZero(t, code)
	assert.Contains(t, out, "panic: boom")

	code, out = gotestIn(t, "package m\n\nimport \"testing\"\n\nfunc TestTypo(*testing.T) { nothing() }\n")
	assert.NotZero(t, code)
	assert.Contains(t, out, "undefined: nothing")
}
