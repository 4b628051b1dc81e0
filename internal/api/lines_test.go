package api

import (
	"fmt"
	"go/constant"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// module is the path of this module.
const module = "github.com/pilotfish-ai/pilotfish"

// lister lists the names that other programs can use: a line for each exported constant, variable, function, type,
// field and method. Types of this module in their signatures are included, wherever they are declared.
type lister struct {
	lines  map[string]bool
	listed map[*types.TypeName]bool
	queue  []*types.TypeName
}

// list returns the lines of packages, sorted.
func list(packages ...*types.Package) []string {
	l := &lister{lines: map[string]bool{}, listed: map[*types.TypeName]bool{}}
	for _, p := range packages {
		for _, name := range p.Scope().Names() {
			if o := p.Scope().Lookup(name); o.Exported() {
				l.object(o)
			}
		}
	}
	for len(l.queue) > 0 {
		next := l.queue[0]
		l.queue = l.queue[1:]
		l.typeName(next)
	}
	return slices.Sorted(maps.Keys(l.lines))
}

// line adds a line about an object.
func (l *lister) line(p *types.Package, format string, args ...any) {
	l.lines[short(p)+": "+fmt.Sprintf(format, args...)] = true
}

// short returns the name of a package in lines.
func short(p *types.Package) string {
	if p.Path() == module {
		return p.Name()
	}
	return strings.TrimPrefix(p.Path(), module+"/")
}

func (l *lister) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		value := o.Val().ExactString()
		if o.Val().Kind() == constant.Float {
			value = o.Val().String()
		}
		l.line(o.Pkg(), "const %s %s = %s", o.Name(), l.of(o.Type()), value)
	case *types.Var:
		l.line(o.Pkg(), "var %s %s", o.Name(), l.of(o.Type()))
	case *types.Func:
		l.line(o.Pkg(), "func %s%s", o.Name(), strings.TrimPrefix(l.of(o.Type()), "func"))
	case *types.TypeName:
		l.typeName(o)
	}
}

// typeName lists a type with its fields and methods.
func (l *lister) typeName(o *types.TypeName) {
	if l.listed[o] {
		return
	}
	l.listed[o] = true
	if alias, ok := o.Type().(*types.Alias); ok {
		l.line(o.Pkg(), "type %s = %s", o.Name(), l.of(alias.Rhs()))
		return
	}
	switch t := o.Type().Underlying().(type) {
	case *types.Struct:
		l.line(o.Pkg(), "type %s struct", parameters(o))
		for i := range t.NumFields() {
			if f := t.Field(i); f.Embedded() {
				l.line(o.Pkg(), "type %s struct, embedded %s", o.Name(), l.of(f.Type()))
			} else if f.Exported() {
				l.line(o.Pkg(), "type %s struct, field %s %s", o.Name(), f.Name(), l.of(f.Type()))
			}
		}
	case *types.Interface:
		l.interfaceType(o, t)
		return
	default:
		l.line(o.Pkg(), "type %s %s", parameters(o), l.of(t))
	}
	onValue := types.NewMethodSet(o.Type())
	for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
		if !m.Obj().Exported() {
			continue
		}
		receiver := o.Name()
		if onValue.Lookup(o.Pkg(), m.Obj().Name()) == nil {
			receiver = "*" + receiver
		}
		l.line(o.Pkg(), "method (%s) %s%s", receiver, m.Obj().Name(), strings.TrimPrefix(l.of(m.Type()), "func"))
	}
}

// interfaceType lists an interface. If one of its methods is not exported, other packages cannot implement it.
func (l *lister) interfaceType(o *types.TypeName, t *types.Interface) {
	kind := "interface"
	for m := range t.Methods() {
		if !m.Exported() {
			kind = "closed interface"
		}
	}
	l.line(o.Pkg(), "type %s %s", parameters(o), kind)
	if !t.IsMethodSet() {
		l.line(o.Pkg(), "type %s %s, any of %s", o.Name(), kind, l.of(t))
		return
	}
	for m := range t.Methods() {
		if m.Exported() {
			signature := strings.TrimPrefix(l.of(m.Type()), "func")
			l.line(o.Pkg(), "type %s %s, method %s%s", o.Name(), kind, m.Name(), signature)
		}
	}
}

// parameters returns the name of a type with its type parameters.
func parameters(o *types.TypeName) string {
	if named, ok := o.Type().(*types.Named); ok && named.TypeParams().Len() > 0 {
		return o.Name() + "[" + fmt.Sprint(named.TypeParams().Len()) + "]"
	}
	return o.Name()
}

// of formats a type, and lists the types of this module in it.
func (l *lister) of(t types.Type) string {
	l.follow(t, map[types.Type]bool{})
	return types.TypeString(unnamed(t), short)
}

// follow finds the names in a type. The types in named ones are found when these are listed.
func (l *lister) follow(t types.Type, seen map[types.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	if named, ok := t.(interface {
		Obj() *types.TypeName
		TypeArgs() *types.TypeList
	}); ok {
		if o := named.Obj(); o.Pkg() != nil && strings.HasPrefix(o.Pkg().Path()+"/", module+"/") {
			l.queue = append(l.queue, o)
		}
		for a := range named.TypeArgs().Types() {
			l.follow(a, seen)
		}
		return
	}
	for _, part := range parts(t) {
		l.follow(part, seen)
	}
}

// parts returns the component types of an unnamed type.
func parts(t types.Type) (all []types.Type) {
	switch t := t.(type) {
	case *types.Map:
		return []types.Type{t.Key(), t.Elem()}
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		return []types.Type{t.Elem()}
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				all = append(all, v.Type())
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			all = append(all, f.Type())
		}
	case *types.Interface:
		for m := range t.Methods() {
			all = append(all, m.Type())
		}
	}
	return all
}

// unnamed returns a type without the names of parameters, which may change without breaking programs.
func unnamed(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Pointer:
		return types.NewPointer(unnamed(t.Elem()))
	case *types.Slice:
		return types.NewSlice(unnamed(t.Elem()))
	case *types.Signature:
		if t.TypeParams().Len() > 0 {
			return t
		}
		return types.NewSignatureType(nil, nil, nil, unnamedAll(t.Params()), unnamedAll(t.Results()), t.Variadic())
	}
	return t
}

func unnamedAll(t *types.Tuple) *types.Tuple {
	var all []*types.Var
	for v := range t.Variables() {
		all = append(all, types.NewParam(v.Pos(), v.Pkg(), "", unnamed(v.Type())))
	}
	return types.NewTuple(all...)
}
