// Package sandbox runs programs written by models with python3, each in a separate process: with limits of time,
// memory, processes, files and output, in an empty folder, and if the system supports it without network and without
// write access elsewhere. After a run, no process and no file of it remains.
//
// A program passes when its tests have run to their end. The verdict does not depend on an exit code or on output:
// after the tests, prelude.py sends the key of the run, receives a number that did not exist before, and sends it back.
// A program that ends early, or that writes to every open file, does neither. A program that is written against this
// protocol can forge its verdict, but the limits still apply to it.
package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// The limits of a program.
const (
	maxCPU       = 10       // seconds of processor time, including the start of python3
	maxMemory    = 1 << 29  // bytes of address space
	maxFile      = 16 << 20 // bytes of a file
	maxFolder    = 64 << 20 // bytes of all files in its folder
	maxEntries   = 1000     // files and folders in its folder
	maxOpen      = 64       // open files
	maxProcesses = 1        // itself
	maxParallel  = 2        // concurrent programs
)

// maxWall is how long a program may take, including waits.
const maxWall = 40 * time.Second

// checkFolder is how often the size of a program's folder is checked.
const checkFolder = 50 * time.Millisecond

//go:embed prelude.py
var prelude string

// Python runs programs, at most two at a time. It is safe for concurrent use.
type Python struct {
	path        string
	confinement confinement
	running     chan struct{}
	wall        time.Duration
	limits      map[string]int
	folder      string // parent of the programs' folders; "" is the system's folder for temporary files
}

// New finds python3 and the strictest confinement in which it runs. Its errors say what is missing.
func New(ctx context.Context) (*Python, error) {
	path, err := findPython(ctx)
	if err != nil {
		return nil, err
	}
	p := &Python{path: path, running: make(chan struct{}, maxParallel), wall: maxWall, limits: resourceLimits()}
	return p, p.selectConfinement(ctx)
}

// executable prints the path of the running Python, if it is new enough.
const executable = `import sys; sys.stdout.write(sys.version_info >= (3, 8) and sys.executable or "")`

// findPython returns the python3 of PATH. It may be a wrapper script, so findPython runs it to get the path of the
// program.
func findPython(ctx context.Context) (string, error) {
	failed := errors.New("install it")
	for _, name := range []string{"python3", "python"} {
		found, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		c := exec.CommandContext(ctx, found, "-c", executable)
		c.WaitDelay = time.Second
		path, err := c.Output()
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err == nil && len(path) > 0:
			return string(path), nil
		case err != nil:
			failed = fmt.Errorf("%s: %w", found, err)
		}
	}
	return "", fmt.Errorf("running programs needs Python 3.8 or later as python3 in PATH: %w", failed)
}

func (p *Python) selectConfinement(ctx context.Context) error {
	var failed []error
	for _, p.confinement = range possibleConfinements() {
		passed, err := p.Run(ctx, []string{"x = 6 * 7"}, "assert x == 42")
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case passed:
			return nil
		}
		failed = append(failed, cmp.Or(err, errors.New("a correct program did not pass")))
	}
	return fmt.Errorf("%s cannot run programs under limits here (%s): let every user read Python and the folder for "+
		"temporary files, or install Python anew", p.path, errors.Join(failed...))
}

// Unlimited returns what this system does not limit; "" if it limits all.
func (p *Python) Unlimited() string { return strings.Join(p.confinement.missingLimits(), ", ") }

// programJob is the input of prelude.py.
type programJob struct {
	Program []string       `json:"program"` // texts that run in sequence, in the same namespace
	Tests   string         `json:"tests"`   // runs after them, in that namespace with Python's own functions restored
	Key     string         `json:"key"`
	Limits  map[string]int `json:"limits"` // by their names in the module resource
}

func resourceLimits() map[string]int {
	return map[string]int{
		"RLIMIT_CPU": maxCPU, "RLIMIT_AS": maxMemory, "RLIMIT_FSIZE": maxFile, "RLIMIT_NOFILE": maxOpen,
		"RLIMIT_NPROC": maxProcesses, "RLIMIT_CORE": 0,
	}
}

// Run runs the texts of a program in sequence, then its tests, and reports whether the tests ran to their end. It waits
// for its turn. An error means that the program was not judged.
func (p *Python) Run(ctx context.Context, program []string, tests string) (passed bool, err error) {
	select {
	case p.running <- struct{}{}:
		defer func() { <-p.running }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	dir, err := os.MkdirTemp(p.folder, "pilotfish-code-")
	if err != nil {
		return false, fmt.Errorf("a folder for a program: %w", err)
	}
	defer func() { err = cmp.Or(err, removeFolder(dir)) }()
	j := programJob{Program: program, Tests: tests, Key: rand.Text(), Limits: p.limits}
	line, err := json.Marshal(j)
	if err != nil {
		return false, err
	}
	err = p.confinement.runConfined(dir, func(c *exec.Cmd) (err error) {
		passed, err = p.runPython(ctx, c, append(line, '\n'), j.Key)
		return err
	})
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return passed, err
}

func (p *Python) runPython(ctx context.Context, c *exec.Cmd, line []byte, key string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.wall)
	defer cancel()
	in, toProgram, err := os.Pipe()
	if err != nil {
		return false, err
	}
	defer toProgram.Close()
	fromProgram, out, err := os.Pipe()
	if err != nil {
		return false, errors.Join(err, in.Close())
	}
	defer fromProgram.Close()
	c.Path, c.Args = p.path, append(c.Args, p.path, "-s", "-S", "-B", "-c", prelude)
	if c.Args[0] != p.path {
		c.Path = c.Args[0]
	}
	c.Env = []string{"HOME=" + c.Dir, "TMPDIR=" + c.Dir, "PYTHONHASHSEED=0", "PYTHONUTF8=1"}
	c.Stdin, c.Stdout = in, out
	err = errors.Join(c.Start(), in.Close(), out.Close())
	if c.Process == nil {
		return false, fmt.Errorf("start python3: %w", err)
	}
	defer context.AfterFunc(ctx, func() { toProgram.Close(); fromProgram.Close() })()
	watched := make(chan struct{})
	go func() { defer close(watched); watchFolder(ctx, cancel, c.Dir) }()
	passed := passesTests(toProgram, fromProgram, line, key)
	killProgram(c.Process)
	c.Wait() // the way in which a program ends is irrelevant
	cancel()
	<-watched
	return passed, nil
}

func passesTests(to io.Writer, from io.Reader, line []byte, key string) bool {
	if _, err := to.Write(line); err != nil {
		return false
	}
	said := func(want string) bool {
		got := make([]byte, len(want))
		_, err := io.ReadFull(from, got)
		return err == nil && bytes.Equal(got, []byte(want))
	}
	if !said(key) {
		return false
	}
	nonce := rand.Text() + "\n"
	_, err := io.WriteString(to, nonce)
	return err == nil && said(nonce)
}
