package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// schemaObject is a schema, or a part of one.
type schemaObject map[string]any

// schemaWriter collects the schemas of types by name.
type schemaWriter struct {
	Defs     schemaObject                  // "$defs" of the whole
	Special  map[reflect.Type]schemaObject // types that marshal themselves
	Shared   reflect.Type                  // embedded in others, by reference
	comments map[string]string             // of fields, by package, type and field
}

// newSchemaWriter returns a schemaWriter with the comments of the packages in folders, by their import paths.
func newSchemaWriter(folders map[string]string) (*schemaWriter, error) {
	w := &schemaWriter{Defs: schemaObject{}, Special: map[reflect.Type]schemaObject{}, comments: map[string]string{}}
	for dir, importPath := range folders {
		if err := w.read(dir, importPath); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// read collects the comments of a package's fields.
func (w *schemaWriter) read(dir, importPath string) error {
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

// fields collects the comments of one type's fields.
func (w *schemaWriter) fields(of string, s *ast.StructType) {
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

// Of returns the schema of a type: a reference if it is a named struct.
func (w *schemaWriter) Of(t reflect.Type) schemaObject {
	if s, ok := w.Special[t]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.Of(t.Elem())
	case reflect.Struct:
		if t == w.Shared {
			return schemaObject{"$ref": w.named(t)["$ref"], "unevaluatedProperties": false}
		}
		if t == reflect.TypeFor[time.Time]() {
			return schemaObject{"type": "string", "format": "date-time"}
		}
		return w.named(t)
	case reflect.Slice, reflect.Array:
		return schemaObject{"type": "array", "items": w.Of(t.Elem())}
	case reflect.Map:
		return schemaObject{"type": "object", "additionalProperties": w.Of(t.Elem())}
	case reflect.String:
		return schemaObject{"type": "string"}
	case reflect.Bool:
		return schemaObject{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return schemaObject{"type": "number"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schemaObject{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if t == reflect.TypeFor[time.Duration]() {
			return schemaObject{"type": "number"} // see record.Marshal
		}
		return schemaObject{"type": "integer"}
	}
	panic(fmt.Sprintf("schema: %v is nothing that a measurement has", t))
}

// named adds a struct to the definitions.
func (w *schemaWriter) named(t reflect.Type) schemaObject {
	if t.Name() == "" {
		return w.Struct(t)
	}
	name := path.Base(t.PkgPath()) + "." + t.Name()
	if _, known := w.Defs[name]; !known {
		w.Defs[name] = nil // for recursive types
		w.Defs[name] = w.Struct(t)
	}
	return schemaObject{"$ref": "#/$defs/" + name}
}

// Struct returns the schema of a struct.
func (w *schemaWriter) Struct(t reflect.Type) schemaObject {
	properties, required := schemaObject{}, []string{}
	shares := w.add(t, true, properties, &required)
	s := schemaObject{"type": "object", "properties": properties, "required": required}
	switch {
	case shares:
		s["allOf"], s["unevaluatedProperties"] = []schemaObject{w.named(w.Shared)}, false
	case t != w.Shared:
		s["additionalProperties"] = false
	}
	return s
}

// add adds the fields of a struct; always reports whether it is present whenever its parent is. It returns whether the
// shared struct is among them.
func (w *schemaWriter) add(t reflect.Type, always bool, properties schemaObject, required *[]string) (shares bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			if inner == w.Shared {
				shares = true
			} else if w.add(inner, always && f.Type.Kind() == reflect.Struct, properties, required) {
				shares = true
			}
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
			one = schemaObject{"anyOf": []schemaObject{one, {"type": "null"}}}
			fallthrough
		default:
			if always {
				*required = append(*required, name)
			}
		}
		if text := w.comments[t.PkgPath()+"."+t.Name()+"."+f.Name]; text != "" {
			described := schemaObject{"description": text}
			for k, v := range one {
				described[k] = v
			}
			one = described
		}
		properties[name] = one
	}
	return shares
}

// Text returns the whole schema as a file: a line for each property.
func (w *schemaWriter) Text(root schemaObject) ([]byte, error) {
	var b bytes.Buffer
	var failed error
	plain := func(v any) string {
		text, err := record.Marshal(v)
		failed = errors.Join(failed, err)
		return string(text)
	}
	b.WriteString("{\n")
	for _, name := range slices.Sorted(maps.Keys(root)) {
		fmt.Fprintf(&b, "%q: %s,\n", name, strings.ReplaceAll(plain(root[name]), `,{"if"`, ",\n"+`{"if"`))
	}
	b.WriteString(`"$schema": "https://json-schema.org/draft/2020-12/schema",` + "\n" + `"$defs": {` + "\n")
	for i, name := range slices.Sorted(maps.Keys(w.Defs)) {
		if i > 0 {
			b.WriteString(",\n")
		}
		def := maps.Clone(w.Defs[name].(schemaObject))
		properties, _ := def["properties"].(schemaObject)
		delete(def, "properties")
		fmt.Fprintf(&b, "%q: %s", name, strings.TrimSuffix(plain(def), "}"))
		for k, property := range slices.Sorted(maps.Keys(properties)) {
			fmt.Fprintf(&b, "%s\n %q: %s", map[bool]string{true: `, "properties": {`, false: ","}[k == 0], property,
				plain(properties[property]))
		}
		if len(properties) > 0 {
			b.WriteString("}")
		}
		b.WriteString("}")
	}
	b.WriteString("\n}}\n")
	return b.Bytes(), failed
}
