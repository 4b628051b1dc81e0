package api

import (
	"flag"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the exported names as they are now into testdata/stable.txt")

// stable returns the packages with a stable API, as documented in docs/use/embedding.md.
func stable() []string {
	return []string{module, module + "/serve", module + "/gguf", module + "/kernels/cpu",
		module + "/kernels/cpu/vector", module + "/kernels/cpu/pool", module + "/runtime/draft"}
}

const golden = "testdata/stable.txt"

// TestStable: the exported names of the stable packages equal the committed list.
func TestStable(t *testing.T) {
	now := list(load(t, stable()...)...)
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(strings.Join(now, "\n")+"\n"), 0o644))
		return
	}
	b, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.True(t, string(b) == strings.Join(now, "\n")+"\n", "the exported names of the stable packages have "+
		"changed: if that is meant, go test ./internal/api -update, and a line in CHANGELOG.md")
}

// TestDocumented: the page about embedding names the stable packages.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/use/embedding.md")
	require.NoError(t, err)
	for _, p := range stable() {
		assert.Contains(t, string(page), "`"+p+"`")
	}
}

// load type-checks packages.
func load(t *testing.T, paths ...string) (all []*types.Package) {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}"}
	cmd := exec.Command("go", append(args, paths...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		part := strings.Split(strings.TrimSpace(line), "\t")
		files[part[0]] = part[1]
		if strings.HasPrefix(part[0], module) {
			_, err := os.ReadDir(part[2]) // so that go test does not take an earlier result when sources have changed
			require.NoError(t, err)
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
	for _, path := range paths {
		p, err := from.Import(path)
		require.NoError(t, err)
		all = append(all, p)
	}
	return all
}

// source returns the lines of a package with the given source text.
func source(t *testing.T, text string) []string {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "p.go", "package pilotfish\n"+text, 0)
	require.NoError(t, err)
	p, err := (&types.Config{}).Check(module, set, []*ast.File{f}, nil)
	require.NoError(t, err)
	return list(p)
}

// TestChanges: each kind of change shows in the lines.
func TestChanges(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"func F(a int) {}", "func F(b int) {}", ""},
		{"func f() {}", "func f(a int) {}", ""},
		{"type T struct{ a int }", "type T struct{ b string }", ""},
		{"type T struct{ F func(a int) }", "type T struct{ F func(b int) }", ""},

		{"", "const C = 1", "+ pilotfish: const C untyped int = 1"},
		{"", "var V []int", "+ pilotfish: var V []int"},
		{"", "func F(a ...int) error { return nil }", "+ pilotfish: func F(...int) error"},
		{"type T struct{}", "type T struct{ A int }", "+ pilotfish: type T struct, field A int"},
		{"type T struct{}", "type T struct{}\nfunc (T) M() {}", "+ pilotfish: method (T) M()"},
		{"type t struct{}\nfunc F() t { return t{} }", "type t struct{ A int }\nfunc F() t { return t{} }",
			"+ pilotfish: type t struct, field A int"},
		{"type I interface{ m() }", "type I interface{ m(); M() }", "+ pilotfish: type I closed interface, method M()"},
		{"", "type I interface{ M() }", "+ pilotfish: type I interface"},

		{"const C = 1", "const C = 2", "- pilotfish: const C untyped int = 1"},
		{"var V []int", "var V []string", "- pilotfish: var V []int"},
		{"func F(a int) {}", "func F(a string) {}", "- pilotfish: func F(int)"},
		{"func F(a int) {}", "func F(a ...int) {}", "- pilotfish: func F(int)"},
		{"func F() {}", "func F() error { return nil }", "- pilotfish: func F()"},
		{"type T struct{ A int }", "type T struct{ A int64 }", "- pilotfish: type T struct, field A int"},
		{"type T struct{ A int }", "type T struct{ B int }", "- pilotfish: type T struct, field A int"},
		{"type T struct{}\nfunc (T) M() {}", "type T struct{}\nfunc (*T) M() {}", "- pilotfish: method (T) M()"},
		{"type T struct{}", "type T int", "- pilotfish: type T struct"},
		{"type T = int", "type T = string", "- pilotfish: type T = int"},
		{"type T[P any] struct{}", "type T struct{}", "- pilotfish: type T[1] struct"},
		{"type E struct{ A int }\ntype T struct{ E }", "type E struct{ A int }\ntype T struct{ e E }",
			"- pilotfish: type T struct, embedded pilotfish.E"},
		{"type t struct{ A int }\nfunc F() []t { return nil }", "type t struct{}\nfunc F() []t { return nil }",
			"- pilotfish: type t struct, field A int"},
		{"type t struct{ A int }\nvar V map[string]func(*t)", "type t struct{}\nvar V map[string]func(*t)",
			"- pilotfish: type t struct, field A int"},
		{"type I interface{ M() }", "type I interface{ M(); N() }", "+ pilotfish: type I interface, method N()"},
		{"type I interface{ M() }", "type I interface{ M(int) }", "- pilotfish: type I interface, method M()"},
		{"type I interface{ M() }", "type I interface{ M(); m() }", "- pilotfish: type I interface"},
		{"type I interface{ int }", "type I interface{ int | string }", "- pilotfish: type I interface, any of"},
	} {
		before, after := source(t, c.before), source(t, c.after)
		if c.want == "" {
			assert.Equal(t, before, after, c.after)
			continue
		}
		if c.want[0] == '-' {
			before, after = after, before
		}
		is := func(line string) bool { return strings.HasPrefix(line, c.want[2:]) && !slices.Contains(before, line) }
		assert.True(t, slices.ContainsFunc(after, is), "%s\n%s", c.before, c.after)
	}
}

// TestMadeOf: the types of other packages that the stable ones use are listed, too.
func TestMadeOf(t *testing.T) {
	b, err := os.ReadFile(golden)
	require.NoError(t, err)
	lines := strings.Split(string(b), "\n")
	for _, want := range []string{
		"pilotfish: type Escalation = runtime/draft.Escalation",
		"runtime/draft: type Event struct, field Escalation *runtime/draft.Escalation",
		"runtime/backend: type Output struct, field Top []runtime/backend.Candidate",
		"pilotfish: type Router interface, method Decide(pilotfish.Head) pilotfish.Decision",
	} {
		assert.True(t, slices.Contains(lines, want), want)
	}
}
