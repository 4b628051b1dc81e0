package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// python returns a sandbox with small limits and its own folder.
func python(t *testing.T) *Python {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		sharedtest.Missing(t, err)
	}
	p, err := New(t.Context())
	require.NoError(t, err)
	p.folder = held.TempDir(t)
	require.NoError(t, os.Chmod(filepath.Dir(p.folder), 0o755)) // programs may run as another user
	p.limits = maps.Clone(p.limits)
	p.limits["RLIMIT_CPU"], p.wall = 1, 15*time.Second
	t.Cleanup(func() { nothingLeft(t, p) })
	return p
}

// nothingLeft checks that no folder and no process of a sandbox is left.
func nothingLeft(t *testing.T, p *Python) {
	t.Helper()
	left, err := os.ReadDir(p.folder)
	require.NoError(t, err)
	assert.Empty(t, left)
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range environments {
		if b, err := os.ReadFile(path); err == nil {
			assert.NotContains(t, string(b), "HOME="+p.folder, path)
		}
	}
}

const tests = "assert f() == 1"

// TestPrograms: programs that pass and that do not.
func TestPrograms(t *testing.T) {
	t.Setenv("SECRET", "1")
	p := python(t)
	var all sync.WaitGroup
	for program, want := range map[string]bool{
		"def f(): return 1": true,
		"def f(): return 2": false,
		"f = lambda: True":  true,
		"":                  false,
		"def f(:":           false,
		"x = 1 / 0":         false,
		"import time\ndef f(): time.sleep(0.01); return 1":                                              true,
		"def f():\n  with open('a', 'w') as a: a.write('1')\n  return int(open('a').read())":            true,
		"import os\ndef f(): return len(os.listdir()) + 1":                                              true,
		"import os\ndef f(): return int(os.environ['HOME'] == os.environ['TMPDIR'] == os.getcwd())":     true,
		"import sys\ndef f(): return int(sys.stdin.read() == '')":                                       true,
		"from dataclasses import dataclass\n@dataclass\nclass P:\n  x: 'int'\ndef f(): return P(1).x":   true,
		"f = lambda: 1\nif __name__ == '__main__': f = None":                                            true,
		"print('é' * 100_000)\ndef f(): return 1":                                                       true,
		"import json, math, re, heapq, itertools, collections, typing, datetime\ndef f(): return 1":     true,
		"import os\ndef f(): return int(os.environ['PYTHONHASHSEED'] == '0')":                           true,
		"import os\ndef f(): return int('SECRET' not in os.environ)":                                    true,
		"import sys\nsys.setrecursionlimit(10**9)\ndef g(n): return g(n + 1) + 1\ndef f(): return g(0)": false,
	} {
		all.Go(func() {
			got, err := p.Run(t.Context(), []string{"", program}, tests)
			assert.NoError(t, err, program)
			assert.Equal(t, want, got, program)
		})
	}
	all.Wait()
	got, err := p.Run(t.Context(), []string{"from math import pi",
		"from __future__ import annotations\nf = lambda: int(pi) - 2"}, tests)
	require.NoError(t, err)
	assert.True(t, got, "the texts share names, and each starts a file")
}

// TestLimits: a program has all limits, and cannot raise them.
func TestLimits(t *testing.T) {
	p := python(t)
	if runtime.GOOS != "linux" {
		return // other systems have only some of them
	}
	p.limits = resourceLimits()
	for name, most := range map[string]int{"CPU": 10, "AS": 512 << 20, "FSIZE": 16 << 20, "NOFILE": 64, "NPROC": 1,
		"CORE": 0} {
		program := fmt.Sprintf("import resource as r\nf = lambda: int(r.getrlimit(r.RLIMIT_%s) == (%d, %[2]d))", name,
			most)
		got, err := p.Run(t.Context(), []string{program}, tests)
		require.NoError(t, err)
		assert.True(t, got, name)
	}
}

// TestPipes: no pipe stays open after a program that ends, is killed, or cannot start.
func TestPipes(t *testing.T) {
	p := python(t)
	run := func() {
		_, err := p.Run(t.Context(), []string{"f = lambda: 1"}, tests)
		require.NoError(t, err)
	}
	run()
	percent := debug.SetGCPercent(-1) // the collector would close leaked files
	defer debug.SetGCPercent(percent)
	before := held.Descriptors()
	run()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := p.Run(ctx, []string{"while True: pass"}, tests)
	require.ErrorIs(t, err, context.Canceled)
	p.path = filepath.Join(p.folder, "none")
	_, err = p.runPython(t.Context(), exec.Command(p.path), nil, "")
	require.ErrorContains(t, err, "start python3")
	assert.Equal(t, before, held.Descriptors())
}

// TestForged: a program that ends before its tests, that claims to have passed, or that breaks the functions of the
// tests does not pass.
func TestForged(t *testing.T) {
	p := python(t)
	var all sync.WaitGroup
	for _, program := range []string{
		"import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit", "exit()", "quit(0)",
		"import sys\ndef f(): sys.exit(0)", "import os\ndef f(): os._exit(0)",
		"import os\nfor d in range(64):\n  try: os.write(d, b'passed\\n')\n  except OSError: pass\nf = lambda: 2",
		"import os\nfor d in range(64):\n  try: os.write(d, b'A' * 26)\n  except OSError: pass\nf = lambda: 1",
		"import os\nfor d in range(3, 64):\n  try: os.close(d)\n  except OSError: pass\nf = lambda: 1",
		"import builtins\nbuiltins.exec = builtins.compile = lambda *a: None\nf = lambda: 2",
		"import builtins\nbuiltins.AssertionError = ZeroDivisionError\nf = lambda: 2",
		"import os\nos.write = os.read = lambda *a: b''\nf = lambda: 2",
		"import atexit\natexit.register(print, 'passed')\nf = lambda: 2",
		"import threading, os\nthreading.Timer(0.01, os._exit, [0]).start()\nf = lambda: 2",
		"import os\nif os.fork(): os._exit(0)\nf = lambda: 1",
		"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'print(\"passed\")'])",
		"import signal, os\nos.kill(os.getpid(), signal.SIGSEGV)\nos.abort()",
		"'''", "f = lambda: 2\nassert_ = '''", "f = lambda: 2\n#",
		"import sys\nsys.excepthook = lambda *a: None\nf = lambda: 2",
	} {
		all.Go(func() {
			got, err := p.Run(t.Context(), []string{program}, tests)
			assert.NoError(t, err, program)
			assert.False(t, got, program)
		})
	}
	all.Wait()
}

// acceptOnce listens on a port of this machine, and reports the first connection.
func acceptOnce(t *testing.T) (port string, reached <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	connected := make(chan struct{}, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
			connected <- struct{}{}
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port, connected
}

// hostilePrograms returns programs by what they try: one writes to outside, and one connects to port.
func hostilePrograms(outside, port string) map[string]string {
	return map[string]string{
		"loop":           "while True: pass",
		"many processes": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
		"many threads":   "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
		"memory":         "x = []\nwhile True: x.append(bytearray(1 << 20))",
		"limits raised": "import resource\nfor l in resource.RLIMIT_AS, resource.RLIMIT_CPU:\n" +
			"  try: resource.setrlimit(l, (-1, -1))\n  except (ValueError, OSError): pass\n" +
			"x = []\nwhile True: x.append(bytearray(1 << 20))",
		"big file":       "a = open('a', 'wb')\nwhile True: a.write(bytes(1 << 20))",
		"many big files": "n = 0\nwhile True:\n  n += 1\n  open(str(n), 'wb').write(bytes(8 << 20))",
		"many files":     "n = 0\nwhile True:\n  n += 1\n  open(str(n), 'w').close()",
		"open files":     "x = []\nwhile True: x.append(open('/dev/null'))",
		"deep folders":   "import os\nwhile True: os.mkdir('d'); os.chdir('d')",
		"output":         "import os\nwhile True: os.write(1, bytes(1 << 16)); os.write(2, bytes(1 << 16))",
		"other files":    "import os\nfor p in ['/etc/passwd', '/etc/shadow']: print(open(p).read())",
		"writes outside": "open('" + outside + "', 'w').write('x')",
		"network":        "import socket\nsocket.create_connection(('127.0.0.1', " + port + "))",
		"signals": "import signal\nfor s in range(1, 32):\n" +
			"  try: signal.signal(s, signal.SIG_IGN)\n  except OSError: pass\nwhile True: pass",
		"children": "import os, time\nfor i in range(3):\n" +
			"  if os.fork() == 0:\n    os.setsid()\n    time.sleep(100)\nf = lambda: 1",
		"children, run": "import subprocess\n" +
			"subprocess.Popen(['sleep', '100'], start_new_session=True)\nf = lambda: 1",
		"no folder":      "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)\nwhile True: pass",
		"another folder": "import os\nos.chdir('/')\nwhile True: pass",
		"sealed folder": "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w')\n" +
			"os.chmod('a/b', 0)\nos.chmod('a', 0)\nos.chmod('.', 0)",
		"sealed contents": "import os\nopen('a', 'w')\nos.chmod('a', 0)\nos.chmod('.', 0o500)",
		"waits for input": "import sys\nsys.stdin.read()\ninput()",
	}
}

// TestHostile: any program ends within its limits, and no process or file of it is left.
func TestHostile(t *testing.T) {
	racing.Spare(t)
	p := python(t)
	outside := filepath.Join(held.TempDir(t), "outside")
	require.NoError(t, os.Chmod(filepath.Dir(outside), 0o777)) // only the confinement prevents writing
	port, reached := acceptOnce(t)
	var all sync.WaitGroup
	for name, program := range hostilePrograms(outside, port) {
		all.Go(func() {
			got, err := p.Run(t.Context(), []string{program}, tests)
			assert.NoError(t, err, name)
			assert.False(t, got, name)
		})
	}
	all.Wait()
	nothingLeft(t, p)
	if !strings.Contains(p.Unlimited(), "writing") {
		assert.NoFileExists(t, outside)
	}
	if !strings.Contains(p.Unlimited(), "network") {
		assert.Empty(t, reached)
	}
}

// TestPlaces: the limits of processes, memory and time hold in the strictest and in the weakest confinement.
func TestPlaces(t *testing.T) {
	racing.Spare(t)
	p := python(t)
	var work []confinement
	for _, p.confinement = range possibleConfinements() {
		if ok, err := p.Run(t.Context(), []string{"f = lambda: 1"}, tests); err == nil && ok {
			work = append(work, p.confinement)
		}
	}
	require.NotEmpty(t, work)
	for _, p.confinement = range []confinement{work[0], work[len(work)-1]} {
		for _, program := range []string{
			"import os\nos.fork()\nf = lambda: 1", "x = bytes(1 << 30)\nf = lambda: 1", "while True: pass",
			"open('a', 'wb').write(bytes(1 << 25))\nf = lambda: 1", "import os\nos._exit(0)",
		} {
			got, err := p.Run(t.Context(), []string{program}, tests)
			require.NoError(t, err, program)
			assert.False(t, got && runtime.GOOS == "linux", "%+v: %s", p.confinement, program)
			nothingLeft(t, p)
		}
	}
}

// TestWall: a program that waits is killed, as is one that is running when the context ends, or that waits to start.
func TestWall(t *testing.T) {
	p := python(t)
	const sleeps = "import time\ntime.sleep(1000)"
	p.wall = 2 * time.Second
	got, err := p.Run(t.Context(), []string{sleeps}, tests)
	require.NoError(t, err)
	assert.False(t, got)

	p.wall = time.Hour
	got, err = p.Run(t.Context(), []string{"import os\nfor i in range(1001): os.mkdir(str(i))", sleeps}, tests)
	require.NoError(t, err)
	assert.False(t, got, "ended because its folder is full")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var all sync.WaitGroup
	for range 4 { // two of them wait to start
		all.Go(func() {
			_, err := p.Run(ctx, []string{sleeps}, tests)
			assert.Equal(t, cause, err)
		})
	}
	require.Eventually(t, func() bool {
		running, err := os.ReadDir(p.folder)
		return err == nil && len(running) == maxParallel
	}, 20*time.Second, 5*time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	running, err := os.ReadDir(p.folder)
	require.NoError(t, err)
	assert.Len(t, running, maxParallel, "limited concurrency")
	cancel(cause)
	all.Wait()
}

// TestNoPython: without python3 the error says what is needed.
func TestNoPython(t *testing.T) {
	dir := held.TempDir(t)
	t.Setenv("PATH", dir)
	_, err := New(t.Context())
	assert.ErrorContains(t, err, "needs Python 3.8 or later as python3 in PATH")
	if runtime.GOOS == "windows" {
		return
	}
	broken := "python3: exit status 3"
	for name, c := range map[string]struct{ script, why string }{
		"no Python": {"exit 3", broken}, "an old one": {"exit 0", "install it"},
		"a broken one": {"echo /bin/false; exit 3", broken},
	} {
		t.Run(name, func(t *testing.T) {
			script := "#!/bin/sh\n" + c.script + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o755))
			_, err := New(t.Context())
			assert.ErrorContains(t, err, "needs Python 3.8 or later as python3 in PATH: ")
			assert.ErrorContains(t, err, c.why)
		})
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\necho /bin/false\n"), 0o755))
	_, err = New(t.Context())
	assert.ErrorContains(t, err, "cannot run programs under limits here")
}

// TestNewStopped: a search for Python that is stopped returns the cause, and does not say that Python is missing.
func TestNewStopped(t *testing.T) {
	python(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := New(ctx)
	assert.Equal(t, cause, err)
	assert.Equal(t, cause, (&Python{path: "python3", running: make(chan struct{}, 1)}).selectConfinement(ctx))
}

// TestUnjudged: a program that gets no folder, or no process, is not judged.
func TestUnjudged(t *testing.T) {
	p := python(t)
	folder := p.folder
	p.folder = filepath.Join(folder, "none")
	_, err := p.Run(t.Context(), []string{"f = lambda: 1"}, tests)
	assert.ErrorContains(t, err, "a folder for a program")
	p.folder, p.path, p.confinement = folder, filepath.Join(folder, "none"), confinement{}
	_, err = p.Run(t.Context(), []string{"f = lambda: 1"}, tests)
	assert.ErrorContains(t, err, "start python3")
}

// TestOverfull: a folder may have exactly as many bytes in files, and as many entries, as the limits say. A program is
// ended when its folder has more.
func TestOverfull(t *testing.T) {
	dir := t.TempDir()
	resize := func(name string, bytes int64) {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, errors.Join(f.Truncate(bytes), f.Close()))
	}
	resize("a", maxFolder)
	for i := range maxEntries - 1 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700))
	}
	assert.False(t, exceedsFolderLimits(dir))
	resize("a", maxFolder+1)
	assert.True(t, exceedsFolderLimits(dir), "too many bytes")
	resize("a", 0)
	resize("b", 0)
	assert.True(t, exceedsFolderLimits(dir), "too many entries")
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		watchFolder(ctx, cancel, dir)
		assert.Equal(t, checkFolder, time.Since(began))
	})
}
