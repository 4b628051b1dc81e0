package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mutant is one mistake that can be switched on.
type mutant struct {
	number int
	file   string // base name
	line   int
	what   string // the mistake, and the code
}

func (m mutant) String() string { return fmt.Sprintf("%d %s:%d %s", m.number, m.file, m.line, m.what) }

// most is the largest number of mutants of a package, as in the hooks.
const most = 1<<16 - 1

//go:embed hooks.go.txt
var hooks string

// plantMutants writes the source of a package with all mutants into a folder, and returns them and the paths that the
// files replace, as go build -overlay takes them.
func plantMutants(p *packages.Package, folder string) (all []mutant, replace map[string]string, err error) {
	replace = map[string]string{}
	write := func(path, text string) error {
		replace[path] = filepath.Join(folder, filepath.Base(path))
		return os.WriteFile(replace[path], []byte(text), 0o600)
	}
	for _, f := range p.Syntax {
		path := p.Fset.File(f.FileStart).Name()
		if ast.IsGenerated(f) || !slices.Contains(p.GoFiles, path) {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		pl := planter{Package: p, src: string(src), mutants: all}
		ast.Inspect(f, pl.visitNode)
		all = pl.mutants
		if err := write(path, pl.editedSource()); err != nil {
			return nil, nil, err
		}
	}
	if len(all) > most {
		return nil, nil, fmt.Errorf("%s: more than %d mutants", p.PkgPath, most)
	}
	here := strings.Replace(hooks, "\npackage hooks\n", "\npackage "+p.Name+"\n", 1)
	return all, replace, write(filepath.Join(p.Dir, "mutants_hooks.go"), here)
}

// planter collects the mutants of one file, and the edits that plant them. No edit adds a line.
type planter struct {
	*packages.Package
	src     string
	mutants []mutant
	edits   []edit
}

// edit replaces src[at:end] by text. At the same place a closing comes first, the innermost first, then an opening, the
// outermost first, then what replaces something.
type edit struct {
	at, end int
	kind    int // closing, opening, replacing
	order   int
	text    string
}

const (
	closing = iota
	opening
	replacing
)

func (p *planter) editedSource() string {
	slices.SortFunc(p.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.order, b.order))
	})
	var b strings.Builder
	at := 0
	for _, e := range p.edits {
		b.WriteString(p.src[at:e.at] + e.text)
		at = e.end
	}
	return b.String() + p.src[at:]
}

func (p *planter) byteOffset(x token.Pos) int { return p.Fset.Position(x).Offset }

func (p *planter) sourceOf(n ast.Node) string {
	return p.src[p.byteOffset(n.Pos()):p.byteOffset(n.End())]
}

func (p *planter) wrapNode(n ast.Node, before, after string) {
	at, end := p.byteOffset(n.Pos()), p.byteOffset(n.End())
	p.edits = append(p.edits, edit{at, at, opening, len(p.edits), before})
	p.edits = append(p.edits, edit{end, end, closing, -len(p.edits), after})
}

func (p *planter) replaceRange(at, end token.Pos, text string) {
	p.edits = append(p.edits, edit{p.byteOffset(at), p.byteOffset(end), replacing, len(p.edits), text})
}

// addMutants adds the mutants of one hook, with consecutive numbers, and returns the first.
func (p *planter) addMutants(n ast.Node, mistakes ...string) int {
	first := len(p.mutants) + 1
	code := strings.Join(strings.Fields(p.sourceOf(n)), " ")
	if r := []rune(code); len(r) > 110 {
		code = string(r[:110]) + " …"
	}
	at := p.Fset.Position(n.Pos())
	for i, m := range mistakes {
		p.mutants = append(p.mutants, mutant{first + i, filepath.Base(at.Filename), at.Line, m + ": " + code})
	}
	return first
}

func (p *planter) visitNode(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.GenDecl:
		return x.Tok == token.VAR
	case *ast.BlockStmt:
		p.mutateStatements(x.List)
	case *ast.CaseClause:
		p.mutateStatements(x.Body)
	case *ast.CommClause:
		p.mutateStatements(x.Body)
	case *ast.IfStmt:
		p.mutateCondition(x.Cond)
	case *ast.BinaryExpr:
		p.mutateBinary(x)
	case *ast.ReturnStmt:
		p.mutateReturn(x)
	case *ast.CompositeLit:
		for _, e := range x.Elts {
			p.mutateField(e)
		}
	case *ast.CallExpr:
		p.mutateCall(x)
	}
	return true
}

func (p *planter) mutateStatements(list []ast.Stmt) {
	for _, s := range list {
		switch x := s.(type) {
		case *ast.ExprStmt:
			if c, ok := x.X.(*ast.CallExpr); !ok || p.sourceOf(c.Fun) == "panic" {
				continue // panic may be what ends a function
			}
		case *ast.AssignStmt:
			if x.Tok == token.DEFINE || p.sourceOf(x.Lhs[0]) == "_" {
				continue
			}
		case *ast.BranchStmt:
			if x.Tok != token.BREAK && x.Tok != token.CONTINUE {
				continue
			}
		case *ast.IncDecStmt, *ast.DeferStmt:
		default:
			continue
		}
		p.wrapNode(s, fmt.Sprintf("if !mutantIs(%d) { ", p.addMutants(s, "dropped")), " }")
	}
}

func (p *planter) mutateCondition(cond ast.Expr) {
	if b, ok := p.TypesInfo.TypeOf(cond).(*types.Basic); ok && b.Info()&types.IsBoolean != 0 {
		p.wrapNode(cond, fmt.Sprintf("mutantCond(%d, ", p.addMutants(cond, "false", "true")), ")")
	}
}

// mutateBinary makes operands of && and || that can be false or true, comparisons that can be off by one, and
// arithmetic that can be wrong.
func (p *planter) mutateBinary(x *ast.BinaryExpr) {
	var mistake string
	switch x.Op {
	case token.LAND, token.LOR:
		for _, o := range []ast.Expr{x.X, x.Y} {
			if b, ok := o.(*ast.BinaryExpr); !ok || b.Op != x.Op {
				p.mutateCondition(o)
			}
		}
		return
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		mistake = "off by one"
	case token.ADD, token.SUB:
		mistake = "other sign"
	case token.MUL, token.QUO:
		mistake = "left operand alone"
	default:
		return
	}
	if !p.bothOrdered(x.X, x.Y) || x.Op == token.ADD && p.hasBasicInfo(x.X, types.IsString) ||
		p.TypesInfo.Types[x].Value != nil {
		return
	}
	names := map[token.Token]string{
		token.LSS: "LSS", token.LEQ: "LEQ", token.GTR: "GTR", token.GEQ: "GEQ",
		token.ADD: "ADD", token.SUB: "SUB", token.MUL: "MUL", token.QUO: "QUO",
	}
	p.wrapNode(x, fmt.Sprintf("mutant%s(%d, ", names[x.Op], p.addMutants(x, mistake)), ")")
	p.replaceRange(x.OpPos, x.OpPos+token.Pos(len(x.Op.String())), ", ")
}

// bothOrdered reports whether cmp.Ordered holds for two expressions of the same type.
func (p *planter) bothOrdered(a, b ast.Expr) bool {
	return p.hasBasicInfo(a, types.IsOrdered) && types.Identical(p.TypesInfo.TypeOf(a), p.TypesInfo.TypeOf(b)) &&
		(p.infersOwnType(a) || p.infersOwnType(b))
}

func (p *planter) hasBasicInfo(x ast.Expr, what types.BasicInfo) bool {
	t := p.TypesInfo.TypeOf(x)
	_, parameter := t.(*types.TypeParam)
	b, ok := t.Underlying().(*types.Basic)
	return ok && !parameter && b.Info()&what != 0
}

// infersOwnType reports whether a type parameter that is inferred from x is the type of x. This holds unless all parts
// of x are untyped constants, whose type depends on what they are assigned to.
func (p *planter) infersOwnType(x ast.Expr) bool {
	switch t := p.TypesInfo.TypeOf(x); {
	case t == types.Typ[types.Int], t == types.Typ[types.String], t == types.Typ[types.Bool]:
		return true
	case t == types.Typ[types.UntypedNil]:
		return false
	}
	typed := false
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			_, isPackage := p.TypesInfo.ObjectOf(n).(*types.PkgName)
			typed = typed || !isPackage && !isUntyped(p.TypesInfo.ObjectOf(n).Type())
		case *ast.CompositeLit, *ast.FuncLit:
			typed = true
		case *ast.BinaryExpr:
			if n.Op == token.SHL || n.Op == token.SHR { // the number of bits has a type of its own
				typed = typed || p.infersOwnType(n.X)
				return false
			}
		}
		return !typed
	})
	return typed
}

func isUntyped(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && b.Info()&types.IsUntyped != 0
}

// mutateReturn makes an error of a return that can be nil.
func (p *planter) mutateReturn(x *ast.ReturnStmt) {
	if n := len(x.Results); n > 0 && p.sourceOf(x.Results[n-1]) == "err" {
		p.wrapNode(x.Results[n-1], fmt.Sprintf("mutantZero(%d, ", p.addMutants(x, "without its error")), ")")
	}
}

func (p *planter) mutateField(e ast.Expr) {
	kv, ok := e.(*ast.KeyValueExpr)
	if !ok {
		return
	}
	if name, ok := kv.Key.(*ast.Ident); !ok || !isField(p.TypesInfo.ObjectOf(name)) || !p.infersOwnType(kv.Value) {
		return
	}
	p.wrapNode(kv.Value, fmt.Sprintf("mutantZero(%d, ", p.addMutants(kv, "zero")), ")")
}

func isField(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && v.IsField()
}

// mutateCall makes min and max that can be one of their arguments, and neighbouring variables of the same type, as
// arguments, that can be exchanged.
func (p *planter) mutateCall(x *ast.CallExpr) {
	switch name := p.sourceOf(x.Fun); {
	case (name == "min" || name == "max") && len(x.Args) == 2:
		if p.bothOrdered(x.Args[0], x.Args[1]) && p.TypesInfo.Types[x].Value == nil {
			first := p.addMutants(x, "its first argument", "its second argument")
			p.replaceRange(x.Fun.Pos(), x.Fun.End(), map[string]string{"min": "mutantMin", "max": "mutantMax"}[name])
			p.wrapNode(x.Args[0], fmt.Sprintf("%d, ", first), "")
		}
		return
	}
	if _, ok := p.TypesInfo.TypeOf(x.Fun).(*types.Signature); !ok {
		return // a conversion
	}
	for i := 1; i < len(x.Args); i++ {
		a, b := x.Args[i-1], x.Args[i]
		if !p.isVariable(a) || !p.isVariable(b) || p.sourceOf(a) == p.sourceOf(b) ||
			!types.Identical(p.TypesInfo.TypeOf(a), p.TypesInfo.TypeOf(b)) {
			continue
		}
		n := p.addMutants(x, p.sourceOf(a)+" and "+p.sourceOf(b)+" exchanged")
		p.wrapNode(a, fmt.Sprintf("mutantEither(%d, ", n), ", "+p.sourceOf(b)+")")
		p.wrapNode(b, fmt.Sprintf("mutantEither(%d, ", n), ", "+p.sourceOf(a)+")")
		i++ // no argument takes part in two exchanges
	}
}

func (p *planter) isVariable(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		_, ok := p.TypesInfo.ObjectOf(x).(*types.Var)
		return ok
	case *ast.SelectorExpr:
		return p.isVariable(x.X) && isField(p.TypesInfo.ObjectOf(x.Sel))
	}
	return false
}
