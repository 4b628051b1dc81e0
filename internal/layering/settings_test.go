package layering

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// settings matches the names of structs with settings.
var settings = regexp.MustCompile(`(?i)(options|flags|settings|limits)$`)

// TestEverySettingIsRead: code outside of tests reads each field of a struct with settings, and each variable that a
// flag sets. Checking a value, or registering its flag, does not count.
func TestEverySettingIsRead(t *testing.T) {
	c := &settingsCheck{t: t, packages: map[string]*types.Package{}, exports: map[string]string{},
		set: token.NewFileSet(), read: map[types.Object]bool{}, wanted: map[types.Object]bool{}}
	c.importer = importer.ForCompiler(c.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(c.exports[path])
	})
	const form = "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{range .GoFiles}}{{.}} {{end}}"
	list := exec.Command("go", "list", "-export", "-deps", "-f", form, module+"/...")
	out, err := list.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) { // after the packages that they import
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		c.exports[f[0]] = f[1]
		if f[0] == module || strings.HasPrefix(f[0], module+"/") {
			c.add(f[0], f[2], strings.Fields(f[3]))
		}
	}
	require.Greater(t, len(c.wanted), 500)
	var unread []string
	for o := range c.wanted {
		if !c.read[o] && o.Name() != "allowed" { // the permission of --run-code is all that it is
			at := c.set.Position(o.Pos())
			unread = append(unread, fmt.Sprintf("%s:%d %s", at.Filename, at.Line, o.Name()))
		}
	}
	slices.Sort(unread)
	assert.Empty(t, unread, "settings that only tests, checks or registrations read")
}

// settingsCheck collects settings, and those that are read.
type settingsCheck struct {
	t            *testing.T
	packages     map[string]*types.Package // of this module, from source
	exports      map[string]string         // files with the types of other packages
	importer     types.Importer
	set          *token.FileSet
	wanted, read map[types.Object]bool
}

// Import implements [types.Importer].
func (c *settingsCheck) Import(path string) (*types.Package, error) {
	if p := c.packages[path]; p != nil {
		return p, nil
	}
	return c.importer.Import(path)
}

// add adds a package of the module.
func (c *settingsCheck) add(path, dir string, names []string) {
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(c.set, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		require.NoError(c.t, err)
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Types: map[ast.Expr]types.TypeAndValue{}}
	p, err := (&types.Config{Importer: c}).Check(path, c.set, files, info)
	require.NoError(c.t, err)
	c.packages[path] = p
	for _, o := range info.Defs {
		if name, ok := o.(*types.TypeName); ok && settings.MatchString(name.Name()) {
			c.want(name)
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			c.declaration(d, info)
		}
	}
}

// want adds the fields of a struct without tags: others are read by package json.
func (c *settingsCheck) want(name *types.TypeName) {
	s, ok := name.Type().Underlying().(*types.Struct)
	for i := 0; ok && i < s.NumFields(); i++ {
		f := s.Field(i)
		_, set := f.Type().(*types.Pointer) // of flags: only to see which are given
		if s.Tag(i) == "" && !f.Embedded() && !(set && strings.HasSuffix(f.Type().String(), "flag.FlagSet")) &&
			!strings.HasSuffix(f.Type().String(), "cli.OptionsFlag") {
			c.wanted[f] = true
		}
	}
}

// notUse matches the names of functions that do not use settings, unless they set other fields.
var notUse = regexp.MustCompile(`^([cC]heck|[rR]egister)`)

// declaration records the variables that a declaration reads.
func (c *settingsCheck) declaration(d ast.Decl, info *types.Info) {
	written, sets := map[*ast.Ident]bool{}, false
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				written[last(left)] = true
				_, field := left.(*ast.SelectorExpr)
				sets = sets || field
			}
		case *ast.IncDecStmt:
			written[last(n.X)] = true
		case *ast.KeyValueExpr:
			written[last(n.Key)] = true
		case *ast.CallExpr:
			if strings.HasPrefix(last(n.Fun).String(), "Add") && len(n.Args) > 2 {
				if a, ok := n.Args[2].(*ast.UnaryExpr); ok && a.Op == token.AND {
					written[last(a.X)] = true
					if o := info.Uses[last(a.X)]; o != nil {
						c.wanted[origin(o)] = true
					}
				}
			}
		}
		return true
	})
	if f, ok := d.(*ast.FuncDecl); ok && notUse.MatchString(f.Name.Name) && !sets {
		return
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if o := info.Uses[n]; o != nil && !written[n] {
				c.read[origin(o)] = true
			}
		case *ast.CallExpr:
			if info.Types[n.Fun].IsType() {
				c.conversion(info.TypeOf(n.Args[0]), info.TypeOf(n.Fun))
			}
		}
		return true
	})
}

// conversion reads all fields of settings that become other settings, which are checked themselves.
func (c *settingsCheck) conversion(from, to types.Type) {
	named, ok := to.(*types.Named)
	s, fields := from.Underlying().(*types.Struct)
	if !ok || !fields || !settings.MatchString(named.Obj().Name()) {
		return
	}
	for f := range s.Fields() {
		c.read[origin(f)] = true
	}
}

// last returns the last name of an expression.
func last(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return e.Sel
	case *ast.IndexExpr:
		return last(e.X)
	case *ast.ParenExpr:
		return last(e.X)
	}
	return new(ast.Ident)
}

// origin returns the declaration of a variable, which may be a field of a generic type.
func origin(o types.Object) types.Object {
	if v, ok := o.(*types.Var); ok {
		return v.Origin()
	}
	return o
}
