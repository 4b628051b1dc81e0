package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

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

// gotestIn runs gotest in a module with the given test file.
func gotestIn(t *testing.T, test string, flags ...string) (code int, stdout string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m_test.go"), []byte(test), 0o644))
	t.Chdir(dir)
	var out, errs bytes.Buffer
	code = runTests(t.Context(), slices.Concat(flags, []string{"-vet=off", "./..."}), &out, &errs)
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

// TestNoShortForm: with -short, a test without a short form is run whole, once, and its failure counts; of others only
// the short form is run, and a part that is left out is listed.
func TestNoShortForm(t *testing.T) {
	const tests = `package m

import (
	"os"
	"testing"
)

func ran(name string) {
	f, _ := os.OpenFile("ran", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	f.WriteString(name)
	f.Close()
}

func TestWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("it is slow: not with -short")
	}
	ran("whole ")
	FAIL
}

func TestSizes(t *testing.T) {
	ran("sizes ")
	t.Run("large", func(t *testing.T) {
		if !testing.Short() {
			t.Error("the whole form")
		}
		t.Skip("this part is slow: not with -short")
	})
}
`
	code, out := gotestIn(t, strings.Replace(tests, "FAIL", "", 1), "-short")
	assert.Zero(t, code, out)
	ran, err := os.ReadFile("ran")
	require.NoError(t, err)
	assert.Equal(t, "sizes whole ", string(ran))
	assert.Contains(t, out, `
*** LEFT OUT: 1 of 3 tests did not run ***
this part is slow: not with -short
    example.test/m.TestSizes/large
`)
	code, out = gotestIn(t, strings.Replace(tests, "FAIL", `t.Error("this is why")`, 1), "-short")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "this is why")
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

// TestReport: the report from scripted events: output of passed tests is omitted, a skipped test is reported with its
// last message, and other lines are passed on.
func TestReport(t *testing.T) {
	events := `go: downloading something
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: why it fails\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:4: first\n"}
{"Action":"output","Package":"q","Test":"TestA","Output":"of another package\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:5: no device \n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"q","Test":"TestA"}
{"Action":"skip","Package":"q","Test":"TestC"}
{"Action":"output","Package":"q","Test":"TestD","Output":"    d_test.go:5: no device\n"}
{"Action":"skip","Package":"q","Test":"TestD"}
{"Action":"output","Package":"q","Output":"PASS\n"}
{"Action":"output","Package":"q","Output":"ok  \tq\t0.1s\n"}
{"Action":"build-output","ImportPath":"r","Output":"r.go:1: undefined\n"}
{"Action":"fail","Package":"p"}
{"Action":"skip","Package":"empty"}`
	var out bytes.Buffer
	r := newReport(&out)
	require.NoError(t, r.readEvents(strings.NewReader(events)))
	assert.Equal(t, "go: downloading something\n    a_test.go:3: why it fails\nok  \tq\t0.1s\nr.go:1: undefined\n",
		out.String())
	assert.Empty(t, r.output, "the output of ended tests is dropped")
	out.Reset()
	r.printSkipped()
	assert.Equal(t, `
*** LEFT OUT: 3 of 5 tests did not run ***
no device
    p.TestB
    q.TestD
no reason given
    q.TestC

`, out.String())
	out.Reset()
	newReport(&out).printSkipped()
	assert.Empty(t, out.String())
	broken := errors.New("broken pipe")
	assert.ErrorIs(t, newReport(&out).readEvents(iotest.ErrReader(broken)), broken)
}

// TestNoGo: if go test cannot be run, that is reported as a failure.
func TestNoGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, errs bytes.Buffer
	assert.Equal(t, 1, runTests(t.Context(), nil, &out, &errs))
	assert.Contains(t, errs.String(), "gotest: exec: ")
}
