package examples

import (
	"bytes"
	"context"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/pilotfish-ai/pilotfish"

// names returns the names of the examples.
func names(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	for _, f := range files {
		all = append(all, filepath.Dir(f))
	}
	require.NotEmpty(t, all)
	return all
}

// program builds all examples once, as packages of one program in another module: one link instead of many. The caller
// removes its folder.
type program struct {
	once sync.Once
	dir  string
	err  error
	out  []byte
}

// build returns the path of the program, which takes the name of the example as its first argument.
func (p *program) build(t *testing.T) string {
	t.Helper()
	p.once.Do(func() {
		p.dir, p.err = os.MkdirTemp("", "examples")
		require.NoError(t, p.err)
		writeModule(t, p.dir)
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "program", ".")
		build.Dir = p.dir
		build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "CGO_ENABLED=0")
		p.out, p.err = build.CombinedOutput()
	})
	require.NoError(t, p.err, "%s", p.out)
	return filepath.Join(p.dir, "program")
}

// writeModule writes the examples as packages of a module that requires this one, and a main package that calls them.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	read := func(name string) string {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(b)
	}
	mod := regexp.MustCompile(`(?m)^(module|tool) .*$`).ReplaceAllString(read("../../go.mod"), "")
	write("go.mod", "module example.test/embedder\n"+mod+"\n"+
		"require "+module+" v0.0.0\nreplace "+module+" => "+strconv.Quote(root)+"\n")
	write("go.sum", read("../../go.sum"))
	imports, calls := "", ""
	for _, name := range names(t) {
		text := read(filepath.Join(name, "main.go"))
		for old, with := range map[string]string{
			"\npackage main\n": "\npackage it\n", "\nfunc main() {\n": "\n// Main is it.\nfunc Main() {\n",
		} {
			require.Equal(t, 1, strings.Count(text, old), "%s: %q", name, old)
			text = strings.Replace(text, old, with, 1)
		}
		write("run_"+name+"/main.go", text)
		imports += "\tit_" + name + ` "example.test/embedder/run_` + name + "\"\n"
		calls += "\tcase " + strconv.Quote(name) + ":\n\t\tit_" + name + ".Main()\n"
	}
	write("main.go", "package main\n\nimport (\n\t\"os\"\n\n"+imports+")\n\nfunc main() {\n\tname := os.Args[1]\n"+
		"\tos.Args = os.Args[1:]\n\tswitch name {\n"+calls+"\t}\n}\n")
}

// run runs an example from the module's root, as a reader does, and returns its output.
func run(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	cmd := command(t.Context(), t, name, args...)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.Bytes())
	return string(out)
}

func command(ctx context.Context, t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, built.build(t), append([]string{name}, args...)...)
	cmd.Dir = "../.."
	return cmd
}

// TestImports: a program that embeds pilotfish needs only the root package, and serve for the HTTP server.
func TestImports(t *testing.T) {
	for _, name := range names(t) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(name, "main.go"), nil, parser.ImportsOnly)
		require.NoError(t, err)
		var got []string
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			require.NoError(t, err)
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") { // not in the standard library
				got = append(got, path)
			}
		}
		want := []string{module}
		if name == "server" {
			want = append(want, module+"/serve")
		}
		assert.Equal(t, want, got, name)
	}
}
