package answer

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
