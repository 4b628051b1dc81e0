package translate

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// findClang finds clang by a name or path. If the name is empty it finds version 19 by its usual names.
func findClang(name string) (string, error) {
	names := []string{"clang-19", "clang"}
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		path, err := exec.LookPath(n)
		if err != nil {
			continue
		}
		if n == "clang" { // of any version
			out, err := exec.Command(path, "-dumpversion").Output()
			if err != nil || !strings.HasPrefix(string(out), "19.") {
				continue
			}
		}
		return path, nil
	}
	return "", fmt.Errorf("%w: the software device needs a compiler, %s was not found: install clang-19 and lld-19",
		metal.ErrNoDevice, strings.Join(names, " or "))
}

func findLinker(clang string) (string, error) {
	if real, err := filepath.EvalSymlinks(clang); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(real), "ld.lld")); err == nil {
			return path, nil
		}
	}
	for _, n := range []string{"ld.lld-19", "ld.lld"} {
		if path, err := exec.LookPath(n); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: the software device needs a linker, "+
		"ld.lld-19 was not found: install clang-19 and lld-19", metal.ErrNoDevice)
}

func languageFlags(arch string) []string {
	flags := []string{"-x", "c++", "-std=c++17", "-nostdinc", "-nostdinc++", "-ffreestanding", "-fno-exceptions",
		"-fno-rtti", "-fPIC", "-fvisibility=hidden", "-fsigned-char", "-fno-math-errno",
		"-Xclang", "-cl-single-precision-constant",
		"-Xclang", "-ffloat16-excess-precision=none", "-Xclang", "-fbfloat16-excess-precision=none",
		"-Wno-everything", "-I.", "-fdebug-compilation-dir=."}
	switch arch {
	case "amd64":
		return append(flags, "--target=x86_64-linux-gnu", "-march=x86-64-v3")
	case "arm64":
		return append(flags, "--target=aarch64-linux-gnu")
	}
	return flags
}

// warningFlags returns warnings that are errors here: they are errors in Metal, or indicate a bug.
func warningFlags() []string {
	var flags []string
	for _, w := range []string{"vla", "vla-cxx-extension", "return-type", "uninitialized", "sometimes-uninitialized",
		"array-bounds", "unknown-attributes", "writable-strings", "shift-count-overflow",
		"division-by-zero", "undefined-internal"} {
		flags = append(flags, "-Werror="+w)
	}
	// Threads have small stacks.
	return append(flags, "-Wframe-larger-than=16384", "-Werror=frame-larger-than")
}

func (v Variant) codegenFlags() []string {
	if v != Check {
		return []string{"-ffp-contract=off", "-O2"}
	}
	return []string{"-ffp-contract=off", "-O1", "-gline-tables-only", "-fno-vectorize", "-fno-slp-vectorize",
		"-fno-unroll-loops", "-fsanitize=thread", "-fsanitize=alignment,array-bounds,shift-exponent," +
			"integer-divide-by-zero,signed-integer-overflow,unreachable,return,null",
		"-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-instrument-read-before-write=1",
		"-mllvm", "-tsan-instrument-atomics=0"}
}

// runClang runs clang in the folder of the headers on text, and returns its output.
func (c *Compiler) runClang(text string, flags ...string) (string, error) {
	cmd := exec.Command(c.clang, append(append(languageFlags(c.arch), flags...), "-")...)
	cmd.Dir = c.shim
	cmd.Stdin = strings.NewReader(text)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); exited && log.Len() > 0 {
			return "", &metal.CompileError{Log: strings.TrimSpace(log.String())}
		}
		return "", fmt.Errorf("%s: %w", c.clang, err)
	}
	return out.String(), nil
}
