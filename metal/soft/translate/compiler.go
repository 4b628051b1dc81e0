package translate

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

// sourceName is the name of a source without #line directives in messages.
const sourceName = "library.metal"

// Options of a compiler. The zero value is good.
type Options struct {
	Cache string // folder of compiled code; empty means pilotfish/soft in the user's cache folder
	Clang string // name or path of the compiler; empty means clang-19, or clang if it is version 19
}

// Compiler runs clang and lld and caches their output. Several goroutines may use it at once, and several processes may
// share its cache.
type Compiler struct {
	clang, linker string
	version       string // of clang, as clang prints it
	arch          string // target processor, by Go's name
	cache         string // folder of compiled code
	shim          string // folder of the headers
}

// NewCompiler finds clang and lld, and removes old files from the cache. It fails with [metal.ErrNoDevice] if one of
// them is missing.
func NewCompiler(o Options) (*Compiler, error) {
	c := &Compiler{cache: o.Cache, arch: runtime.GOARCH}
	var err error
	if c.clang, err = findClang(o.Clang); err != nil {
		return nil, err
	}
	if c.linker, err = findLinker(c.clang); err != nil {
		return nil, err
	}
	out, err := exec.Command(c.clang, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s --version: %w", metal.ErrNoDevice, c.clang, err)
	}
	c.version = string(out)
	if c.cache == "" {
		c.cache = defaultCacheDir()
	}
	if c.cache, err = filepath.Abs(c.cache); err == nil {
		err = os.MkdirAll(c.cache, 0o777)
	}
	if err != nil {
		return nil, fmt.Errorf("cache of compiled kernels: %w", err)
	}
	pruneCache(c.cache, time.Now())
	if c.shim, err = c.writeShim(); err != nil {
		return nil, fmt.Errorf("cache of compiled kernels: %w", err)
	}
	return c, nil
}

// Build returns the path of the shared library of a source, from the cache if it was built before. An error in the
// source is a [*metal.CompileError].
func (c *Compiler) Build(source string, v Variant) (string, error) {
	text, err := ownText()
	if err != nil {
		return "", err
	}
	flags := append(append(v.codegenFlags(), warningFlags()...), "-include", "metal.h", "-c")
	path := filepath.Join(c.cache, "library-"+c.cacheKey(source, text, flags)+".so")
	if inCache(path) {
		return path, nil
	}
	u, err := c.parseSource(source)
	if err != nil {
		return "", err
	}
	strict := make(chan error, 1)
	go func() { strict <- c.checkStrictOnce(u, source, text) }()
	linked, err := c.buildLibrary(u, flags)
	if s := <-strict; s != nil {
		err = s // it is more precise, and the compiled code must not be kept
	}
	if linked != "" {
		defer os.RemoveAll(filepath.Dir(linked)) // leftovers do no harm
	}
	if err != nil {
		return "", err
	}
	return path, os.Rename(linked, path)
}

// parseSource preprocesses and parses source. Code that Metal does not allow is a *metal.CompileError.
func (c *Compiler) parseSource(source string) (*unit, error) {
	text, err := c.runClang("# 1 "+quoteASCII(sourceName)+"\n"+source,
		"-E", "-undef", "-D__METAL__=1", "-D__METAL_VERSION__=310", "-isystem", "stubs")
	if err != nil {
		return nil, err
	}
	u := parseUnit(text, sourceName)
	if len(u.problems) > 0 {
		var log []string
		for _, p := range u.problems {
			log = append(log, p.at.String()+": error: "+p.text)
		}
		return nil, &metal.CompileError{Log: strings.Join(slices.Compact(log), "\n")}
	}
	return u, nil
}

func (c *Compiler) checkStrict(u *unit) error {
	_, err := c.runClang(u.strictText(),
		append(warningFlags(), "-DMSL_STRICT", "-include", "metal.h", "-fsyntax-only")...)
	if e, ok := errors.AsType[*metal.CompileError](err); ok && strings.Contains(e.Log, "no matching constructor") {
		e.Log += "\nnote: the strict pass cannot copy a struct out of device, constant or threadgroup memory: " +
			"use a reference, or copy its fields"
	}
	return err
}

// checkStrictOnce runs the strict pass unless the source has passed before, for another variant.
func (c *Compiler) checkStrictOnce(u *unit, source, ownText string) error {
	passed := filepath.Join(c.cache, "strict-"+contentKey(source, ownText, c.version))
	if inCache(passed) {
		return nil
	}
	if err := c.checkStrict(u); err != nil {
		return err
	}
	return os.WriteFile(passed, nil, 0o666)
}

func (c *Compiler) buildLibrary(u *unit, flags []string) (linked string, err error) {
	parts, err := c.buildRuntime()
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
	if _, err := c.runClang(text, append(flags, "-o", object)...); err != nil {
		return linked, err
	}
	link := append([]string{"-shared", "--build-id=none", "-z", "noexecstack", "-o", linked, object}, parts...)
	if out, err := exec.Command(c.linker, link...).CombinedOutput(); err != nil {
		return linked, fmt.Errorf("%s: %w: %s", c.linker, err, bytes.TrimSpace(out))
	}
	return linked, nil
}

func (c *Compiler) buildRuntime() ([]string, error) {
	text, err := ownText()
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, name := range [...]string{"runtime.cpp", "check.cpp"} {
		flags := []string{"-O2", "-fno-stack-protector", "-c"}
		path := filepath.Join(c.cache, "runtime-"+c.cacheKey(name, text, flags)+".o")
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
		if _, err := c.runClang("#include \""+name+"\"\n", append(flags, "-o", file)...); err != nil {
			return nil, fmt.Errorf("runtime: %w", err)
		}
		if err := os.Rename(file, path); err != nil {
			return nil, err
		}
	}
	return parts, nil
}
