package mtl

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/apple.txt
var appleMethods string

// TestSelectors: every selector in the table is a method of Apple's class that the table names, and is listed once.
func TestSelectors(t *testing.T) {
	apple := appleTypes()
	seen := map[string]bool{}
	for i, s := range selectors {
		types, found := apple[s.class+" "+s.name]
		assert.True(t, found, "selector %d: %s has no method %q", i, s.class, s.name)
		assert.Equal(t, s.types, strings.Join(withoutHidden(splitEncoding(types)), ""), s.name)
		assert.False(t, seen[s.name], "%s is twice in the table", s.name)
		seen[s.name] = true
	}
	assert.NotContains(t, apple, "MTLDevice newCommandQueue:")
}

// appleTypes returns the methods in testdata/apple.txt, as class and selector, with their types if listed.
func appleTypes() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(appleMethods) {
		if f := strings.Fields(line); f[0] != "#" {
			all[f[0]+" "+f[1]] = strings.Join(f[2:], "")
		}
	}
	return all
}

// withoutHidden removes receiver and selector from the types of a method.
func withoutHidden(types []string) []string {
	if len(types) < 3 || types[1] != "@" || types[2] != ":" {
		return nil
	}
	return append(types[:1:1], types[3:]...)
}

// site is a message in the source of this package.
type site struct {
	place    string
	method   string // of scope
	selector string // name of the constant
	args     int
}

// sites returns every place in the package where a message is sent.
func sites(t *testing.T) (found []site) {
	t.Helper()
	set := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if s, ok := siteOf(c); ok {
					s.place = set.Position(c.Pos()).String()
					found = append(found, s)
				}
			}
			return true
		})
	}
	return found
}

// siteOf parses a call as a message, if it is a method of scope that sends one.
func siteOf(c *ast.CallExpr) (site, bool) {
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) < 2 {
		return site{}, false
	}
	sel, ok := c.Args[1].(*ast.Ident)
	if !ok || !strings.HasPrefix(sel.Name, "sel") || sel.Name == "sel" {
		return site{}, false
	}
	switch f.Sel.Name {
	case "send", "sendSizes", "sendForSeconds", "sendForSize", "sendForBool":
		return site{method: f.Sel.Name, selector: sel.Name, args: len(c.Args) - 2}, true
	}
	return site{}, false
}

// constantNames returns the names of the selector constants, in the order of the table.
func constantNames(t *testing.T) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "selectors.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(v.Names[0].Name, "sel") && len(names) < int(selectorCount) {
			names = append(names, v.Names[0].Name)
		}
		return true
	})
	require.Len(t, names, int(selectorCount))
	return names
}

// TestArgumentCounts: each message is sent by the method of scope for the type of its result, with the right number of
// words of arguments, and every entry of the table is used.
func TestArgumentCounts(t *testing.T) {
	index := map[string]int{}
	for i, name := range constantNames(t) {
		index[name] = i
	}
	sent := map[string]bool{}
	for _, s := range sites(t) {
		i, ok := index[s.selector]
		if !assert.True(t, ok, "%s: %s is not in the table", s.place, s.selector) {
			continue
		}
		types := splitEncoding(selectors[i].types)
		words := 0
		for _, t := range types[1:] {
			words += wordsOf(t)
		}
		want := "send"
		switch {
		case types[0] == "d":
			want = "sendForSeconds"
		case types[0] == typeSize:
			want = "sendForSize"
		case types[0] == "B":
			want = "sendForBool"
		case slices.Contains(types, typeSize):
			want, words = "sendSizes", 2
		}
		assert.Equal(t, want, s.method, "%s: %s", s.place, selectors[i].name)
		assert.Equal(t, words, s.args, "%s: %s", s.place, selectors[i].name)
		sent[s.selector] = true
	}
	for name, i := range index {
		assert.True(t, sent[name], "%s is never sent", selectors[i].name)
	}
}
