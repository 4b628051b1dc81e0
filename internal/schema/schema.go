// Package schema describes the JSON encoding of Go types as JSON Schema (2020-12), with the comments of their fields as
// descriptions. Other fields than those of the types are not allowed.
package schema

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"time"
)

// Object is a schema, or a part of one.
type Object map[string]any

// Writer collects the schemas of types, by their names.
type Writer struct {
	Defs     Object                  // "$defs" of the schema
	Special  map[reflect.Type]Object // types that marshal themselves
	comments map[string]string       // of fields, by package, type and field
}

// New returns a Writer with the comments of the packages in some folders, by import path.
func New(folders map[string]string) (*Writer, error) {
	w := &Writer{Defs: Object{}, Special: map[reflect.Type]Object{}, comments: map[string]string{}}
	for dir, importPath := range folders {
		if err := w.read(dir, importPath); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// read reads the comments of a package's fields.
func (w *Writer) read(dir, importPath string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if t, ok := n.(*ast.TypeSpec); ok {
				if s, ok := t.Type.(*ast.StructType); ok {
					w.fields(importPath+"."+t.Name.Name, s)
				}
			}
			return true
		})
	}
	return nil
}

// fields reads the comments of one type's fields.
func (w *Writer) fields(of string, s *ast.StructType) {
	for _, f := range s.Fields.List {
		text := f.Comment.Text()
		if f.Doc != nil {
			text = f.Doc.Text()
		}
		for _, name := range f.Names {
			w.comments[of+"."+name.Name] = strings.Join(strings.Fields(text), " ")
		}
	}
}

// Of returns the schema of a type, a reference for a named struct.
func (w *Writer) Of(t reflect.Type) Object {
	if s, ok := w.Special[t]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.Of(t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return Object{"type": "string", "format": "date-time"}
		}
		return w.named(t)
	case reflect.Slice, reflect.Array:
		return Object{"type": "array", "items": w.Of(t.Elem())}
	case reflect.Map:
		return Object{"type": "object", "additionalProperties": w.Of(t.Elem())}
	case reflect.String:
		return Object{"type": "string"}
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return Object{"type": "number"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Object{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Object{"type": "integer"}
	}
	panic(fmt.Sprintf("schema: measurements cannot have a %v", t))
}

// named adds a struct to the definitions.
func (w *Writer) named(t reflect.Type) Object {
	if t.Name() == "" {
		return w.Struct(t)
	}
	name := path.Base(t.PkgPath()) + "." + t.Name()
	if _, known := w.Defs[name]; !known {
		w.Defs[name] = nil // for types that contain themselves
		w.Defs[name] = w.Struct(t)
	}
	return Object{"$ref": "#/$defs/" + name}
}

// Struct returns the schema of a struct itself.
func (w *Writer) Struct(t reflect.Type) Object {
	properties, required := Object{}, []string{}
	w.add(t, true, properties, &required)
	return Object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// add adds the fields of a struct; always says whether the struct is present whenever its parent is.
func (w *Writer) add(t reflect.Type, always bool, properties Object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			w.add(inner, always && f.Type.Kind() == reflect.Struct, properties, required)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		one, optional := w.Of(f.Type), strings.Contains(options, "omit")
		switch kind := f.Type.Kind(); {
		case optional:
		case kind == reflect.Pointer, kind == reflect.Slice, kind == reflect.Map:
			one = Object{"anyOf": []Object{one, {"type": "null"}}}
			fallthrough
		default:
			if always {
				*required = append(*required, name)
			}
		}
		if text := w.comments[t.PkgPath()+"."+t.Name()+"."+f.Name]; text != "" {
			described := Object{"description": text}
			for k, v := range one {
				described[k] = v
			}
			one = described
		}
		properties[name] = one
	}
}

// Text returns the whole schema as a file.
func (w *Writer) Text(root Object) ([]byte, error) {
	root["$schema"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", w.Defs
	b, err := json.MarshalIndent(root, "", " ")
	return append(b, '\n'), err
}
