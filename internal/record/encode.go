package record

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"time"
)

// Marshal is [json.Marshal] with durations as milliseconds, to a microsecond. It does not escape <, > and &, since its
// lines are not copied into pages directly.
func Marshal(v any) ([]byte, error) {
	if from := reflect.ValueOf(v); from.IsValid() && plainType(from.Type()) != from.Type() {
		to := reflect.New(plainType(from.Type())).Elem()
		copyValue(to, from)
		v = to.Interface()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Unmarshal is [json.Unmarshal] of what [Marshal] writes. v is a pointer.
func Unmarshal(b []byte, v any) error {
	to := reflect.ValueOf(v).Elem()
	from := reflect.New(plainType(to.Type()))
	err := json.Unmarshal(b, from.Interface())
	copyValue(to, from.Elem())
	return err
}

// plainType returns a type with a number in place of each duration; t itself if it has none.
func plainType(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Int64:
		if t == reflect.TypeFor[time.Duration]() {
			return reflect.TypeFor[float64]()
		}
	case reflect.Pointer:
		if e := plainType(t.Elem()); e != t.Elem() {
			return reflect.PointerTo(e)
		}
	case reflect.Slice:
		if e := plainType(t.Elem()); e != t.Elem() {
			return reflect.SliceOf(e)
		}
	case reflect.Struct:
		var fields []reflect.StructField
		differs := false
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() || f.Tag.Get("json") == "-" {
				continue
			}
			plain := plainType(f.Type)
			differs = differs || plain != f.Type
			fields = append(fields, reflect.StructField{Name: f.Name, Type: plain, Tag: f.Tag, Anonymous: f.Anonymous})
		}
		if differs {
			return reflect.StructOf(fields)
		}
	}
	return t
}

// copyValue copies a value to or from its plain type.
func copyValue(to, from reflect.Value) {
	const unit = float64(time.Microsecond)
	switch {
	case to.Type() == from.Type():
		to.Set(from)
	case to.Kind() == reflect.Float64:
		to.SetFloat(float64(time.Duration(from.Int()).Round(time.Microsecond)) / float64(time.Millisecond))
	case from.Kind() == reflect.Float64:
		to.SetInt(int64(math.Round(from.Float()*float64(time.Millisecond)/unit) * unit))
	case from.Kind() == reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			copyValue(to.Elem(), from.Elem())
		}
	case from.Kind() == reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		}
		for i := range from.Len() {
			copyValue(to.Index(i), from.Index(i))
		}
	default:
		plain := to
		if from.NumField() < to.NumField() {
			plain = from
		}
		for i := range plain.NumField() {
			name := plain.Type().Field(i).Name
			copyValue(to.FieldByName(name), from.FieldByName(name))
		}
	}
}
