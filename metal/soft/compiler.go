package soft

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// sourceName is how messages call a source that has no #line of its own.
const sourceName = "library.metal"

// stubs are the headers of Metal. The shim holds what is in them, so that they are empty.
var stubs = [...]string{"metal_stdlib", "metal_atomic", "metal_common", "metal_compute", "metal_geometric", "metal_integer",
	"metal_math", "metal_matrix", "metal_pack", "metal_relational", "metal_simdgroup", "metal_simdgroup_matrix", "metal_types"}

// compiler runs clang and lld and keeps what they make.
type compiler struct {
	clang, linker string
	version       string // of clang, in its own words
	arch          string // processor that code is made for, by Go's name
	cache         string // folder of compiled code
	shim          string // folder of the headers
}

// newCompiler finds clang and lld.
func newCompiler(o Options) (*compiler, error) {
	c := &compiler{cache: o.Cache, arch: runtime.GOARCH}
	var err error
	if c.clang, err = lookClang(o.Clang); err != nil {
		return nil, err
	}
	if c.linker, err = lookLinker(c.clang); err != nil {
		return nil, err
	}
	out, err := exec.Command(c.clang, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s --version: %w", metal.ErrNoDevice, c.clang, err)
	}
	c.version = string(out)
	if c.cache == "" {
		c.cache = defaultCache()
	}
	if c.cache, err = filepath.Abs(c.cache); err == nil {
		err = os.MkdirAll(c.cache, 0o777)
	}
	if err != nil {
		return nil, fmt.Errorf("cache of compiled kernels: %w", err)
	}
	prune(c.cache, time.Now())
	if c.shim, err = c.writeShim(); err != nil {
		return nil, fmt.Errorf("cache of compiled kernels: %w", err)
	}
	return c, nil
}

func lookClang(name string) (string, error) {
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
			if out, err := exec.Command(path, "-dumpversion").Output(); err != nil || !strings.HasPrefix(string(out), "19.") {
				continue
			}
		}
		return path, nil
	}
	return "", fmt.Errorf("%w: the software device needs a compiler, %s was not found: install clang-19 and lld-19", metal.ErrNoDevice, strings.Join(names, " or "))
}

func lookLinker(clang string) (string, error) {
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
	return "", fmt.Errorf("%w: the software device needs a linker, ld.lld-19 was not found: install clang-19 and lld-19", metal.ErrNoDevice)
}

// language are the flags of every compilation for a processor.
func language(arch string) []string {
	flags := []string{"-x", "c++", "-std=c++17", "-nostdinc", "-nostdinc++", "-ffreestanding", "-fno-exceptions", "-fno-rtti", "-fPIC",
		"-fvisibility=hidden", "-fsigned-char", "-fno-math-errno", "-Xclang", "-cl-single-precision-constant",
		"-Xclang", "-ffloat16-excess-precision=none", "-Xclang", "-fbfloat16-excess-precision=none", "-Wno-everything", "-I.", "-fdebug-compilation-dir=."}
	switch arch {
	case "amd64":
		return append(flags, "--target=x86_64-linux-gnu", "-march=x86-64-v3")
	case "arm64":
		return append(flags, "--target=aarch64-linux-gnu")
	}
	return flags
}

// diagnosed are warnings that are errors: in Metal they are, or mean a bug.
func diagnosed() []string {
	var flags []string
	for _, w := range []string{"vla", "vla-cxx-extension", "return-type", "uninitialized", "sometimes-uninitialized", "array-bounds", "unknown-attributes",
		"writable-strings", "shift-count-overflow", "division-by-zero", "undefined-internal"} {
		flags = append(flags, "-Werror="+w)
	}
	// Threads have small stacks.
	return append(flags, "-Wframe-larger-than=16384", "-Werror=frame-larger-than")
}

// flags are those of a variant.
func (v Variant) flags() []string {
	exact := []string{"-ffp-contract=off"}
	const undefined = "-fsanitize=alignment,array-bounds,shift-exponent,integer-divide-by-zero,signed-integer-overflow,unreachable,return,null"
	switch v {
	case FastMath:
		return []string{"-O2", "-ffast-math", "-fhonor-nans", "-fhonor-infinities"}
	case Check:
		return append(exact, "-O1", "-gline-tables-only", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-fsanitize=thread", undefined,
			"-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-instrument-atomics=0")
	case UBSan:
		return append(exact, "-O1", undefined)
	}
	return append(exact, "-O2")
}

// clangRun runs clang in the folder of the headers on text, and returns what it prints.
func (c *compiler) clangRun(text string, flags ...string) (string, error) {
	cmd := exec.Command(c.clang, append(append(language(c.arch), flags...), "-")...)
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

// translate preprocesses source and takes it apart. What Metal does not allow is a *metal.CompileError.
func (c *compiler) translate(source string) (*unit, error) {
	text, err := c.clangRun("# 1 "+quote(sourceName)+"\n"+source, "-E", "-undef", "-D__METAL__=1", "-D__METAL_VERSION__=310", "-isystem", "stubs")
	if err != nil {
		return nil, err
	}
	u := parse(text, sourceName)
	if len(u.problems) > 0 {
		var log []string
		for _, p := range u.problems {
			log = append(log, p.at.String()+": error: "+p.text)
		}
		return nil, &metal.CompileError{Log: strings.Join(slices.Compact(log), "\n")}
	}
	return u, nil
}

// strict lets clang check the source with address spaces kept apart.
func (c *compiler) strict(u *unit) error {
	_, err := c.clangRun(u.strictText(), append(diagnosed(), "-DMSL_STRICT", "-include", "metal.h", "-fsyntax-only")...)
	if e, ok := errors.AsType[*metal.CompileError](err); ok && strings.Contains(e.Log, "no matching constructor") {
		e.Log += "\nnote: the strict pass cannot copy a struct out of device, constant or threadgroup memory: use a reference, or copy its fields"
	}
	return err
}

// build returns the path of the shared library of a source, from the cache if it was made before.
func (c *compiler) build(source string, v Variant) (string, error) {
	text, err := ownText()
	if err != nil {
		return "", err
	}
	flags := append(append(v.flags(), diagnosed()...), "-include", "metal.h", "-c")
	path := filepath.Join(c.cache, "library-"+key(source, text, strings.Join(append(language(c.arch), flags...), " "), c.version, c.arch)+".so")
	if inCache(path) {
		return path, nil
	}
	u, err := c.translate(source)
	if err != nil {
		return "", err
	}
	strict := make(chan error, 1)
	go func() { strict <- c.strictOnce(u, source, text) }()
	linked, err := c.compile(u, flags)
	if s := <-strict; s != nil {
		err = s // it says more, and what was compiled must not be kept
	}
	if linked != "" {
		defer os.RemoveAll(filepath.Dir(linked)) // leftovers do no harm
	}
	if err != nil {
		return "", err
	}
	return path, os.Rename(linked, path)
}

// strictOnce does the strict pass unless the source has passed before, for another variant.
func (c *compiler) strictOnce(u *unit, source, ownText string) error {
	passed := filepath.Join(c.cache, "strict-"+key(source, ownText, c.version))
	if inCache(passed) {
		return nil
	}
	if err := c.strict(u); err != nil {
		return err
	}
	return os.WriteFile(passed, nil, 0o666)
}

// compile makes a shared library in a folder of its own.
func (c *compiler) compile(u *unit, flags []string) (linked string, err error) {
	parts, err := c.runtime()
	if err != nil {
		return "", err
	}
	text, err := u.runText()
	if err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp(c.cache, "new-")
	if err != nil {
		return "", err
	}
	object, linked := filepath.Join(scratch, "library.o"), filepath.Join(scratch, "library.so")
	if _, err := c.clangRun(text, append(flags, "-o", object)...); err != nil {
		return linked, err
	}
	cmd := exec.Command(c.linker, append([]string{"-shared", "--build-id=none", "-z", "noexecstack", "-o", linked, object}, parts...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return linked, fmt.Errorf("%s: %w: %s", c.linker, err, bytes.TrimSpace(out))
	}
	return linked, nil
}

// runtime returns the object files of the runtime, which all libraries contain.
func (c *compiler) runtime() ([]string, error) {
	text, err := ownText()
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, name := range [...]string{"runtime.cpp", "check.cpp"} {
		flags := []string{"-O2", "-fno-stack-protector", "-c"}
		path := filepath.Join(c.cache, "runtime-"+key(name, text, strings.Join(append(language(c.arch), flags...), " "), c.version, c.arch)+".o")
		parts = append(parts, path)
		if inCache(path) {
			continue
		}
		scratch, err := os.MkdirTemp(c.cache, "new-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(scratch) // leftovers do no harm
		file := filepath.Join(scratch, "runtime.o")
		if _, err := c.clangRun("#include \""+name+"\"\n", append(flags, "-o", file)...); err != nil {
			return nil, fmt.Errorf("runtime: %w", err)
		}
		if err := os.Rename(file, path); err != nil {
			return nil, err
		}
	}
	return parts, nil
}
