package answer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDescribes: a function without a schema of parameters has none; one that accepts any object says so.
func TestDescribes(t *testing.T) {
	for parameters, want := range map[string]bool{
		"": false, "{}": false, `{"type":"object"}`: false, `{"type":"object","required":[],"title":"x"}`: false,
		`{"$schema":"http://x/schema#","description":"none","type":"object"}`: false,

		`{"type":"object","properties":{}}`: true, `{"type":"object","additionalProperties":true}`: true,
		`{"type":["object","null"]}`: true, `{"type":"object","required":["a"]}`: true, `{"anyOf":[]}`: true,
		`{"$ref":"#/$defs/x"}`: true,
	} {
		assert.Equal(t, want, hasParameters([]byte(parameters)), parameters)
	}
}

// TestReferences: references in the schemas of parameters hold in the schema of a call, alone and among others.
func TestReferences(t *testing.T) {
	parameters := []byte(`{"type":"object","properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{}}}`)
	c, err := NewCalls([]Tool{{Name: "f"}, {Name: "g", Parameters: parameters}},
		func(int, []byte) (bool, error) { return true, nil })
	require.NoError(t, err)
	assert.Contains(t, string(c.Each["g"]), `"$ref":"#/properties/arguments/$defs/n"`)
	assert.Contains(t, string(c.One), `"$ref":"#/anyOf/1/properties/arguments/$defs/n"`)
	assert.Equal(t, []string{"#/a", "#/b"},
		ParameterPaths([]string{"#/properties/arguments/a", "#/properties/arguments/allOf/1/b"}))
}
