package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// testBinary is a package's test binary with all mutants in it.
type testBinary struct {
	binary, dir string
	short       bool
	tests       []packageTest
}

// packageTest is a test of the package that passes by itself.
type packageTest struct {
	name    string
	took    time.Duration
	reaches []byte // 1 at the number of each mutant
}

// buildTests compiles the tests of the package in dir, with files replaced. It returns nil if there are none.
func buildTests(ctx context.Context, dir, folder string, replace map[string]string) (*testBinary, error) {
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	t := &testBinary{binary: filepath.Join(folder, "tests"), dir: dir}
	name := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(name, overlay, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", name, "-o", t.binary, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests with mutants: %w\n%s", err, out)
	}
	if _, err := os.Stat(t.binary); os.IsNotExist(err) {
		return nil, nil
	}
	return t, nil
}

// runTest runs a test for at most limit, with an environment variable, and returns what it wrote.
func (t *testBinary) runTest(ctx context.Context, variable string, limit time.Duration, test string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := []string{"-test.failfast", "-test.run", "^" + test + "$"}
	if t.short {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Dir, cmd.WaitDelay = t.dir, time.Second // a child of a killed test may hold its output
	cmd.Env = append(os.Environ(), variable)
	return cmd.CombinedOutput()
}

// longest is the limit of one test that measures what it reaches.
const longest = 10 * time.Minute

// measureTests runs each test by itself, without a mutant, for what it reaches and the time that it takes. It returns
// the names of the tests that fail.
func (t *testBinary) measureTests(ctx context.Context, folder string, mutants int) (failing []string, err error) {
	cmd := exec.CommandContext(ctx, t.binary, "-test.list", ".")
	cmd.Dir = t.dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the list of tests: %w", err)
	}
	reached := filepath.Join(folder, "reached")
	for name := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(name, "Benchmark") {
			continue
		}
		if err := os.WriteFile(reached, make([]byte, mutants+1), 0o600); err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := t.runTest(ctx, "MUTANTS_REACHED="+reached, longest, name); err != nil {
			failing = append(failing, name)
			continue
		}
		took := time.Since(began)
		b, err := os.ReadFile(reached)
		if err != nil {
			return nil, err
		}
		t.tests = append(t.tests, packageTest{name, took, b})
	}
	slices.SortStableFunc(t.tests, func(a, b packageTest) int { return cmp.Compare(a.took, b.took) })
	return failing, ctx.Err()
}

// mutantStatus is what became of a mutant.
type mutantStatus string

const (
	killed     mutantStatus = "killed"
	lived      mutantStatus = "lived"
	notReached mutantStatus = "not reached"
)

// tryMutant runs the tests that reach a mutant, the fast ones first, until one kills it.
func (t *testBinary) tryMutant(ctx context.Context, m mutant) mutantStatus {
	result := notReached
	for _, one := range t.tests {
		if one.reaches[m.number] == 0 {
			continue
		}
		if t.killsMutant(ctx, one, m) {
			return killed
		}
		result = lived
	}
	return result
}

// killsMutant reports whether a test fails with a mutant, or takes far longer than without it.
func (t *testBinary) killsMutant(ctx context.Context, one packageTest, m mutant) bool {
	_, err := t.runTest(ctx, "MUTANT="+strconv.Itoa(m.number), 4*one.took+15*time.Second, one.name)
	return err != nil
}
