package schema

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPartsApart: a grammar shares a part between several places only if their conditions are equal. In a list of two
// values, each value has its own conditions, whatever those of the other are.
func TestPartsApart(t *testing.T) {
	conditions := []string{
		`"type":"integer"`, `"type":"number"`, `"type":"number","multipleOf":2`, `"type":"integer","multipleOf":3`,
		`"type":"number","minimum":2`, `"type":"number","not":{"const":2}`,
		`"type":"string"`,
		`"type":"string","minLength":2`, `"type":"string","maxLength":2`, `"type":"string","pattern":"^a"`,
		`"type":"string","pattern":"b"`, `"type":"string","format":"date"`, `"type":"string","not":{"const":"a"}`,
		`"type":"string","not":{"const":"b"}`, `"type":"string","not":{"pattern":"b"}`,
		`"type":"string","not":{"pattern":"^a"}`, `"type":"string","minLength":2,"maxLength":2`,
	}
	values := []string{`-3`, `0.5`, `2`, `6`, `7`, `7.25`, `"a"`, `"ab"`, `"b"`, `"abc"`, `"2024-02-28"`}
	takes := map[[2]string]bool{}
	for _, c := range conditions {
		g := compiled(t, []byte("{"+c+"}"), false)
		for _, v := range values {
			takes[[2]string{c, v}], _ = fits(g, v)
		}
	}
	for i, a := range conditions {
		for _, b := range conditions[i:] {
			g := compiled(t, fmt.Appendf(nil, `{"type":"array","prefixItems":[{%s},{%s}]}`, a, b), false)
			for i, v := range values {
				w := values[(3*i+1)%len(values)]
				whole, _ := fits(g, "["+v+","+w+"]")
				want := takes[[2]string{a, v}] && takes[[2]string{b, w}]
				assert.Equal(t, want, whole, "%s and %s: %s, %s", a, b, v, w)
			}
		}
	}
}
