package layering

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// source is the source of a package: all its files except tests, of every system.
type source struct {
	dir   string // below the module's root, with slashes
	set   *token.FileSet
	files []*ast.File
}

// checkSource returns violations of the rules that the compiler does not check.
func checkSource(s source) (wrong []string) {
	wrong = checkPackageComment(s)
	written := writtenNames(s)
	for _, f := range s.files {
		for _, d := range f.Decls {
			wrong = append(wrong, s.checkDecl(f, d, written)...)
		}
	}
	return wrong
}

func (s source) checkDecl(f *ast.File, d ast.Decl, written map[string]bool) (wrong []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.Name == "init" {
			wrong = append(wrong,
				s.at(d, "init has effects that no caller asked for: use a function, or sync.OnceValue"))
		}
		if f.Name.Name != "main" && d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
			wrong = append(wrong, s.at(d, d.Name.Name+" has no doc comment"))
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if f.Name.Name != "main" {
				wrong = append(wrong, s.checkDoc(d, spec)...)
			}
			if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
				wrong = append(wrong, s.checkVar(d, v, written)...)
			}
		}
	}
	return wrong
}

// at returns a violation with its position.
func (s source) at(n ast.Node, what string) string {
	p := s.set.Position(n.Pos())
	return fmt.Sprintf("%s/%s:%d: %s", s.dir, filepath.Base(p.Filename), p.Line, what)
}

func checkPackageComment(s source) []string {
	n := 0
	for _, f := range s.files {
		if f.Doc != nil {
			n++
		}
	}
	if n != 1 {
		return []string{fmt.Sprintf("%s has %d package comments instead of one", s.dir, n)}
	}
	return nil
}

// exportedReceiver reports whether a function is not a method, or is one of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return ast.IsExported(name)
}

// checkDoc requires a comment for every exported name: its own, one at the end of its line, or one for its group.
func (s source) checkDoc(d *ast.GenDecl, spec ast.Spec) (wrong []string) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			wrong = append(wrong, s.at(spec, spec.Name.Name+" has no doc comment"))
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				wrong = append(wrong, s.at(name, name.Name+" has no doc comment"))
			}
		}
	}
	return wrong
}

// checkVar refuses package-level variables that hold state. Allowed are variables that are constant in effect: error
// values, values made once by a listed function, embedded files, and unexported tables that the package never writes
// to.
func (s source) checkVar(d *ast.GenDecl, v *ast.ValueSpec, written map[string]bool) (wrong []string) {
	for i, name := range v.Names {
		if _, allowed := allowedState()[s.dir+"."+name.Name]; allowed || name.Name == "_" || embedded(d, v) {
			continue
		}
		var value ast.Expr
		if i < len(v.Values) {
			value = v.Values[i]
		}
		switch {
		case written[name.Name]:
			wrong = append(wrong,
				s.at(name, name.Name+" is a package-level variable that is written to: state belongs into a value"))
		case madeOnce(value), !name.IsExported() && isTable(value):
		default:
			wrong = append(wrong,
				s.at(name, name.Name+" is a package-level variable: state belongs into a value, a constant into const"))
		}
	}
	return wrong
}

// embedded reports whether a variable is set by go:embed.
func embedded(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if doc != nil && slices.ContainsFunc(doc.List,
			func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") }) {
			return true
		}
	}
	return false
}

// madeOnce reports whether an expression calls a function with an immutable result.
func madeOnce(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains([]string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "sync.OnceValue",
		"sync.OnceValues"}, pkg.Name+"."+sel.Sel.Name)
}

// isTable reports whether an expression is a literal without calls, pointers and functions.
func isTable(e ast.Expr) bool {
	if e == nil {
		return false
	}
	table := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr, *ast.FuncLit:
			table = false
		case *ast.UnaryExpr:
			table = table && n.Op != token.AND
		case *ast.Ident:
			table = table && n.Name != "nil"
		}
		return table
	})
	return table
}

// writtenNames returns the identifiers that the package assigns to, increments, deletes from, copies into or takes the
// address of. It compares only names: a local variable with the same name counts, too, and needs another name at worst.
func writtenNames(s source) map[string]bool {
	written := map[string]bool{}
	note := func(e ast.Expr) {
		if name := rootName(e); name != "" {
			written[name] = true
		}
	}
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if _, plain := left.(*ast.Ident); !plain || n.Tok != token.DEFINE {
						note(left)
					}
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					note(n.X)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 &&
					slices.Contains([]string{"append", "copy", "clear", "delete"}, id.Name) {
					note(n.Args[0])
				}
			}
			return true
		})
	}
	return written
}

// rootName returns the variable at the root of an expression: x in x.a[i].
func rootName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return ""
		}
	}
}

// sources parses every package of the module.
func sources(t *testing.T) []source {
	t.Helper()
	root, err := filepath.Abs(root)
	require.NoError(t, err)
	byDir := map[string]*source{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && !holdsPackages(path):
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return parseInto(byDir, filepath.ToSlash(dir), path)
	}))
	var all []source
	for _, s := range byDir {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.dir, b.dir) })
	return all
}

// holdsPackages reports whether a folder may contain source of the module. internal/sharedtest is a package despite its
// name; other folders with that name contain data.
func holdsPackages(path string) bool {
	name := filepath.Base(path)
	if name == "testdata" {
		return filepath.Base(filepath.Dir(path)) == "internal"
	}
	return name[0] != '.' && name[0] != '_'
}

// parseInto adds a file to the source of its folder, unless it is a program for go generate, which belongs to no
// package.
func parseInto(byDir map[string]*source, dir, path string) error {
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains("\n"+string(text), "\n//go:build ignore\n") {
		return err
	}
	s := byDir[dir]
	if s == nil {
		s = &source{dir: dir, set: token.NewFileSet()}
		byDir[dir] = s
	}
	f, err := parser.ParseFile(s.set, path, text, parser.ParseComments)
	if err == nil {
		s.files = append(s.files, f)
	}
	return err
}

// TestSource: the source of the module follows the rules, in the files of every system.
func TestSource(t *testing.T) {
	all := sources(t)
	assert.NotEmpty(t, all)
	for _, s := range all {
		for _, w := range checkSource(s) {
			t.Error(w)
		}
	}
}

// TestAllowedStateExists: every entry in the list of exceptions still exists.
func TestAllowedStateExists(t *testing.T) {
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, f := range s.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						there[s.dir+"."+name.Name] = true
					}
				}
				return true
			})
		}
	}
	for name, why := range allowedState() {
		assert.True(t, there[name], "%s (%s) does not exist", name, why)
	}
}

// TestSourceFindsFaults: a violation of each kind is found, and allowed code is not.
func TestSourceFindsFaults(t *testing.T) {
	const head = "// Package x is one.\npackage x\n"
	for _, c := range []struct{ text, want string }{
		{head, ""},
		{head + "const a = 1\nvar _ error = e{}\ntype e struct{}\nfunc (e) Error() string { return \"\" }", ""},
		{head + "// ErrA is one.\nvar ErrA = errors.New(\"a\")", ""},
		{head + "var table = [...]int{1, 2}\nfunc f() int { return table[0] }", ""},
		{head + "var once = sync.OnceValue(func() int { return 1 })", ""},
		{head + "// These are two.\nconst (\n\tA = 1\n\tB = 2\n)", ""},
		{"// Command x is one.\npackage main\nfunc main() {}\nfunc Exported() {}", ""},

		{"package x\n", "0 package comments"},
		{head + "func init() {}", "x/x.go:3: init has effects"},
		{head + "func Exported() {}", "Exported has no doc comment"},
		{head + "// T is one.\ntype T struct{}\nfunc (t *T) Method() {}", "Method has no doc comment"},
		{head + "type T struct{}", "T has no doc comment"},
		{head + "const (\n\tA = 1\n)", "A has no doc comment"},
		{head + "var count int", "count is a package-level variable"},
		{head + "// Table is one.\nvar Table = []int{1}", "Table is a package-level variable"},
		{head + "var table = []int{1}\nfunc f() { table[0] = 2 }", "that is written to"},
		{head + "var n = 1\nfunc f() *int { return &n }", "that is written to"},
		{head + "var errA = errors.New(\"a\")\nfunc f() { errA = nil }", "that is written to"},
	} {
		t.Run(c.text, func(t *testing.T) {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, "x.go", c.text, parser.ParseComments)
			require.NoError(t, err, c.text)
			wrong := strings.Join(checkSource(source{dir: "x", set: set, files: []*ast.File{f}}), "\n")
			if c.want == "" {
				assert.Empty(t, wrong, c.text)
				return
			}
			assert.Contains(t, wrong, c.want, c.text)
		})
	}
}
