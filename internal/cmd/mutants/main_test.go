package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const code = `package m

import "time"

type options struct {
	wait time.Duration
	name string
}

const most = 10

func limit(n, by int) int {
	if n >= most && by != 0 {
		n = most - 1
	}
	return n + by
}

func atMost(n, by int) int { return limit(n, by) }

func defaults() options { return options{wait: 3 * time.Second, name: "a"} }

func check(a, b int, err error) error {
	if err != nil {
		return err
	}
	return less(min(a, 5), b)
}

func less(a, b int) error {
	count++
	for ; a < b; a += 2 {
		if a > 4 {
			break
		}
	}
	return nil
}

var count int

func half(a float32) float32 { return a / 2 }

func never() { half(float32(count)) }

func mask(bits int) uint64 { return uint64(count) & (1<<bits - 1) }
`

const codeTests = `package m

import (
	"errors"
	"os"
	"testing"
)

func TestLimit(t *testing.T) {
	for in, want := range map[[2]int]int{{12, 1}: 10, {12, 0}: 12, {10, 1}: 10, {4, 1}: 5} {
		if atMost(in[0], in[1]) != want {
			t.Error(in)
		}
	}
}

func TestDefaults(t *testing.T) {
	if defaults().name != "a" || half(3) != 1.5 {
		t.Error("name")
	}
}

func TestCheck(t *testing.T) {
	if check(1, 2, errors.New("x")) == nil || check(3, 4, nil) != nil {
		t.Error("error")
	}
}

func TestFails(t *testing.T) {
	if os.Getenv("MUTANT") == "" {
		t.Error("by itself")
	}
}
`

// found is what the tests of code do not find.
const found = `example.test/m: left out, as they fail by themselves: TestFails
example.test/m: lived: 11 m.go:21 zero: wait: 3 * time.Second
example.test/m: lived: 14 m.go:24 true: err != nil
example.test/m: lived: 16 m.go:27 its first argument: min(a, 5)
example.test/m: lived: 17 m.go:27 its second argument: min(a, 5)
example.test/m: lived: 18 m.go:31 dropped: count++
example.test/m: not reached: 19 m.go:32 off by one: a < b
example.test/m: not reached: 20 m.go:33 false: a > 4
example.test/m: lived: 21 m.go:33 true: a > 4
example.test/m: not reached: 22 m.go:33 off by one: a > 4
example.test/m: not reached: 23 m.go:34 dropped: break
example.test/m: not reached: 25 m.go:44 dropped: half(float32(count))
example.test/m: 25 mutants, tried: 14 killed, 6 lived, 5 not reached
`

// TestChoose: without a limit all mutants are tried, otherwise that many, in order.
func TestChoose(t *testing.T) {
	all := make([]mutant, 50)
	for i := range all {
		all[i] = mutant{number: i + 1}
	}
	assert.Equal(t, all, options{}.sampleMutants(all))
	assert.Equal(t, all, options{sample: 50}.sampleMutants(all))
	some := options{sample: 20}.sampleMutants(all)
	require.Len(t, some, 20)
	assert.NotEqual(t, all[:20], some)
	assert.Equal(t, some, options{sample: 20}.sampleMutants(all))
	for i := range some[1:] {
		assert.Less(t, some[i].number, some[i+1].number)
	}
}

// TestRun: a test is run by its name, with the variable, and in its short form only if that is asked for.
func TestRun(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tests")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho $MUTANT $*\n"), 0o700))
	const named = "7 -test.failfast -test.run ^TestA$"
	for short, want := range map[bool]string{false: named + "\n", true: named + " -test.short\n"} {
		r := &testBinary{binary: binary, dir: t.TempDir(), short: short}
		out, err := r.runTest(t.Context(), "MUTANT=7", time.Minute, "TestA")
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("there is no shell")
		}
		require.NoError(t, err)
		assert.Equal(t, want, string(out))
	}
}

// TestMutants: each mutant that no test finds is printed with its line, the others are counted, and a test that fails
// without a mutant does not count.
func TestMutants(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.26\n", "m.go": code, "m_test.go": codeTests,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var out bytes.Buffer
	require.NoError(t, scorePackages(t.Context(), []string{"-n", "0", "."}, &out))
	assert.Equal(t, found, out.String())
}

// TestKillMatrix: each test counts what it kills, and what it alone kills; spare tests can go together.
func TestKillMatrix(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.26\n",
		"m.go":   "package m\n\nfunc less(a, b int) bool { return a < b }\n\nfunc sum(a, b int) int { return a + b }\n",
		"m_test.go": `package m

import "testing"

func TestSum(t *testing.T) {
	if sum(1, 2) != 3 {
		t.Fail()
	}
}

func TestSumAgain(t *testing.T) {
	if sum(2, 2) != 4 {
		t.Fail()
	}
}

func TestLess(t *testing.T) {
	if less(2, 2) || sum(2, 2) != 4 {
		t.Fail()
	}
}

func TestNothing(t *testing.T) { sum(1, 0) }
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var out bytes.Buffer
	require.NoError(t, scorePackages(t.Context(), []string{"-n", "0", "-matrix", "."}, &out))
	lines := regexp.MustCompile(` +[0-9.]+s`).ReplaceAllString(out.String(), "")
	assert.ElementsMatch(t, []string{
		"example.test/m: spare  kills   0, alone   0, TestNothing",
		"example.test/m: spare  kills   1, alone   0, TestSum",
		"example.test/m: spare  kills   1, alone   0, TestSumAgain",
		"example.test/m: needed kills   2, alone   1, TestLess",
		"example.test/m: mutants tried: 2, killed: 2",
	}, strings.Split(strings.TrimSpace(lines), "\n"))
}
