package schema

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Inner is a part of another type. (It has a capital because encoding/json sets only such embedded fields.)
type Inner struct {
	Deep int `json:"deep"` // how deep it is
}

// Sometimes is there or not.
type Sometimes struct {
	Maybe string `json:"maybe"`
}

// all has every kind of field.
type all struct {
	// of a person
	Name     string  `json:"name"`
	Share    float64 `json:"share,omitempty"` // in 0..1
	Count    uint8   `json:"count,omitzero"`
	Why      *string `json:"why"`
	Left     *int    `json:"left,omitempty"`
	Hidden   int     `json:"-"`
	Plain    bool
	Times    []time.Time    `json:"times"`
	ByName   map[string]all `json:"by_name,omitempty"`
	In       Inner          `json:"in"`
	private  int
	Anything struct {
		X int64 `json:"x"`
	} `json:"anything"`
	Inner
	*Sometimes
}

func TestOf(t *testing.T) {
	w, err := New(map[string]string{".": "github.com/pilotfish-ai/pilotfish/internal/schema"})
	require.NoError(t, err)
	_ = all{}.private
	root := w.Of(reflect.TypeFor[*all]())
	text, err := w.Text(Object{"allOf": []Object{root}})
	require.NoError(t, err)
	inner := `{"type":"object","properties":{"deep":{"type":"integer","description":"how deep it is"}},` +
		`"required":["deep"],` +
		`"additionalProperties":false}`
	assert.JSONEq(t, `{"$schema":"https://json-schema.org/draft/2020-12/schema",
		"allOf":[{"$ref":"#/$defs/schema.all"}],"$defs":{
		"schema.Inner":`+inner+`,
		"schema.all":{"type":"object","additionalProperties":false,
		"required":["name","why","Plain","times","in","anything","deep"],
		"properties":{
			"name":{"type":"string","description":"of a person"},
			"share":{"type":"number","description":"in 0..1"},
			"count":{"type":"integer","minimum":0},
			"why":{"anyOf":[{"type":"string"},{"type":"null"}]},
			"left":{"type":"integer"},
			"Plain":{"type":"boolean"},
			"times":{"anyOf":[{"type":"array","items":{"type":"string","format":"date-time"}},{"type":"null"}]},
			"by_name":{"type":"object","additionalProperties":{"$ref":"#/$defs/schema.all"}},
			"in":{"$ref":"#/$defs/schema.Inner"},
			"anything":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],
				"additionalProperties":false},
			"deep":{"type":"integer","description":"how deep it is"},
			"maybe":{"type":"string"}
		}}}}`, string(text))
	w.Special[reflect.TypeFor[Inner]()] = Object{"type": "null"}
	assert.Equal(t, Object{"type": "null"}, w.Of(reflect.TypeFor[Inner]()))
	assert.Panics(t, func() { w.Of(reflect.TypeFor[func()]()) })
	var whole map[string]any
	require.NoError(t, json.Unmarshal(text, &whole))
	_, err = New(map[string]string{"[": "x"})
	assert.Error(t, err)
}
