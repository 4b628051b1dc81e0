package errs

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Differences returns the fields in which two structs of one type differ, by their names in JSON and with both values;
// "" if they are equal.
func Differences(there, here any) string {
	var all []string
	before, after := reflect.ValueOf(there), reflect.ValueOf(here)
	for i := range before.NumField() {
		a, b := before.Field(i).Interface(), after.Field(i).Interface()
		if !reflect.DeepEqual(a, b) {
			name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("json"), ",")
			all = append(all, fmt.Sprintf("%s (there %s, here %s)", name, marshalShort(a), marshalShort(b)))
		}
	}
	return strings.Join(all, ", ")
}

func marshalShort(v any) string {
	const most = 80
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(b) > most {
		return string(Start(b, most)) + "…"
	}
	return string(b)
}
