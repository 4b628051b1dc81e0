package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// values are of all types.
var values = []string{
	`null`, `true`, `1`, `2`, `2.5`, `12`, `"a"`, `"ab"`, `"b"`, `"x1"`, `[]`, `[1]`, `[1,2]`, `["a"]`, `[1,"a"]`,
	`[1,"a",true]`, `{}`, `{"a":1}`, `{"a":"a"}`, `{"b":1}`, `{"a":1,"b":1}`, `{"a":2,"b":"b"}`, `{"x1":1}`,
	`{"x1":"a"}`, `{"a":1,"x1":1}`, `{"a":1,"b":1,"x1":1}`, `{"a":1,"b":1,"c":1}`, `{"b":1,"c":"x"}`,
}

// objectWith returns a schema of objects.
func objectWith(rest string) string { return `{"type":"object",` + rest + `}` }

var schemasOfObjects = []string{
	objectWith(`"patternProperties":{"^x":{"type":"integer"}}`),
	objectWith(`"patternProperties":{"^x":{"type":"integer"},"1$":{"const":1}},"additionalProperties":false`),
	objectWith(`"properties":{"a":{},"x1":{"const":1}},"patternProperties":{"x":{"type":"integer"}},` +
		`"additionalProperties":{"type":"string"}`),
	objectWith(`"minProperties":1`), objectWith(`"maxProperties":2`),
	objectWith(`"properties":{"a":{},"b":{}},"minProperties":2`),
	objectWith(`"properties":{"a":{},"b":{}},"minProperties":1,"maxProperties":1`),
	objectWith(`"properties":{"a":{},"b":{}},"minProperties":1,"maxProperties":2,"additionalProperties":false`),
	objectWith(`"propertyNames":{"pattern":"^[ab]$"}`), objectWith(`"propertyNames":{"enum":["a","x1"]}`),
	objectWith(`"propertyNames":{"maxLength":1},"properties":{"a":{},"x1":{}}`),
	objectWith(`"propertyNames":{"anyOf":[{"const":"a"},{"minLength":2}]}`),
	objectWith(`"propertyNames":{"minLength":2,"maxLength":1}`),
	objectWith(`"properties":{"a":{}},"dependentRequired":{"a":["b"]}`),
	objectWith(`"properties":{"a":{},"b":{}},"dependencies":{"a":["b"],"b":{"properties":{"b":{"const":1}}}}`),
	objectWith(`"properties":{"a":{}},"dependentSchemas":{"a":{"required":["b"]}}`),
	objectWith(`"properties":{"a":{}},"not":{"required":["b"]}`),
	objectWith(`"properties":{"a":{},"b":{}},"not":{"properties":{"a":{"const":1}},"required":["a"]}`),
	objectWith(`"properties":{"a":{},"b":{}},"not":{"anyOf":[{"required":["a"]},{"required":["c"]}]}`),
	objectWith(`"properties":{"a":{},"b":{}},"not":{"allOf":[{"required":["a"]},{"required":["b"]}]}`),
	objectWith(`"properties":{"a":{},"b":{}},"not":{"minProperties":2}`), objectWith(`"not":{"maxProperties":1}`),
	objectWith(`"not":{"const":{}}`), objectWith(`"not":{"not":{"required":["a"]}}`),
	objectWith(`"properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]`),
	objectWith(`"properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]`),
	objectWith(`"properties":{"a":{},"b":{}},"if":{"properties":{"a":{"const":1}},"required":["a"]},` +
		`"then":{"required":["b"]},"else":{"maxProperties":1}`),
	objectWith(`"properties":{"a":{},"b":{}},"if":{"required":["a"]},"then":{"properties":{"a":{"const":1}}}`),
	`{"oneOf":[{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}},` +
		`{"type":"object","required":["a"],"additionalProperties":{"type":"integer"}}]}`,
	objectWith(`"patternProperties":{"[^\\s\\S]":{}},"additionalProperties":false`),
	objectWith(`"oneOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},` +
		`{"properties":{"a":{"type":"string"}},"required":["x1"]},{"properties":{"a":{"const":true}}}]`),
}

var schemasOfOtherTypes = []string{
	`{"type":["string","integer"],"not":{"enum":["a",2]}}`, `{"type":"string","not":{"pattern":"^a"}}`,
	`{"type":"string","not":{"minLength":2}}`, `{"type":"string","not":{"maxLength":1}}`,
	`{"type":"string","pattern":"a","allOf":[{"pattern":"b"}]}`,
	`{"type":"string","pattern":"b$","not":{"const":"b"}}`,
	`{"type":"integer","not":{"minimum":2,"maximum":5}}`, `{"type":"integer","not":{"exclusiveMinimum":2}}`,
	`{"type":"number","not":{"type":"integer"}}`, `{"oneOf":[{"type":"integer"},{"type":"number"}]}`,
	`{"not":{"type":["object","array","string","boolean"]}}`,
	objectWith(`"properties":{"a":{"not":{"type":["object","array","string","boolean","null","number"]}}}`),
	`{"not":{"enum":[null,true,2,"a",[]]}}`,
	`{"type":"array","not":{"minItems":2}}`, `{"type":"array","not":{"prefixItems":[{"const":1}]}}`,
	`{"type":"array","not":{"prefixItems":[{"type":"integer"},{"const":"a"}]}}`,
	`{"type":"integer","not":{"exclusiveMaximum":2}}`, `{"type":"number","not":{"maximum":2}}`,
	`{"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"string"}}`,
	`{"oneOf":[{"type":"string","minLength":2},{"type":"string","pattern":"^a"}]}`,
	`{"type":"string","pattern":"^(?!b)(?=.*[b1])."}`, `{"type":"string","pattern":"^(?!ab$|b).*$"}`,
	`{"type":"string","pattern":"^([A-Zx]\\d)?[aA]?b?$"}`, `{"type":"string","not":{"pattern":"^(?!a)(?!b)"}}`,
	objectWith(`"patternProperties":{"^(?!a)":{"type":"string"}}`),
	`{"type":"array","contains":{"type":"integer"}}`, `{"type":"array","contains":{"const":1},"minContains":0}`,
	`{"type":"array","contains":{"type":"integer"},"minContains":2}`,
	`{"type":"array","contains":{"type":"integer"},"maxContains":1}`,
	`{"type":"array","contains":{"type":"integer"},"minContains":0,"maxContains":1}`,
	`{"type":"array","contains":{"type":"integer"},"maxContains":1,"prefixItems":[{"const":1}],"minItems":2}`,
	`{"type":"array","contains":{"const":2},"prefixItems":[{"type":"integer"},{"type":"integer"}],"maxItems":2}`,
	`{"type":"array","not":{"contains":{"type":"integer"}}}`,
	`{"type":"array","if":{"contains":{"const":"a"}},"then":{"minItems":2},"else":{"maxItems":1}}`,
	`{"type":"string","pattern":"^(a|^b)$"}`, `{"type":"string","pattern":"^(a$|x)"}`,
	`{"oneOf":[{"type":"integer","maximum":5},{"type":"integer","minimum":2}]}`,
	`{"then":{"type":"string"},"else":{"type":"integer"}}`,
	`{"not":{"oneOf":[{"type":"string"},{"type":"integer"}]}}`,
}

var schemasWithUnevaluated = []string{
	objectWith(`"properties":{"a":{}},"unevaluatedProperties":false`),
	objectWith(`"unevaluatedProperties":{"type":"integer"}`),
	objectWith(`"allOf":[{"properties":{"a":{}}},{"properties":{"b":{"type":"integer"}}}],` +
		`"unevaluatedProperties":false`),
	objectWith(`"allOf":[{"properties":{"a":{}},"unevaluatedProperties":true}],"unevaluatedProperties":false`),
	objectWith(`"allOf":[{"properties":{"a":{}},"additionalProperties":{"type":"integer"}}],` +
		`"unevaluatedProperties":false`),
	objectWith(`"$ref":"#/$defs/x","patternProperties":{"^x":{}},"unevaluatedProperties":false,` +
		`"$defs":{"x":{"properties":{"a":{}}}}`),
	objectWith(`"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"properties":{"b":{}}},` +
		`"else":{"properties":{"x1":{}}},"unevaluatedProperties":false`),
	objectWith(`"oneOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}],` +
		`"unevaluatedProperties":{"type":"string"}`),
	objectWith(`"dependentSchemas":{"a":{"properties":{"b":{}}}},"properties":{"a":{}},"unevaluatedProperties":false`),
	objectWith(`"not":{"not":{"properties":{"b":{}},"required":["a"]}},"properties":{"a":{}},` +
		`"unevaluatedProperties":false`),
	objectWith(`"properties":{"a":{}},"allOf":[{"unevaluatedProperties":{"type":"integer"}}]`),
	`{"type":"array","prefixItems":[{"type":"integer"}],"unevaluatedItems":{"type":"string"}}`,
	`{"type":"array","allOf":[{"prefixItems":[true,{"type":"integer"}]}],"unevaluatedItems":false}`,
	`{"type":"array","allOf":[{"items":{"type":"integer"}}],"unevaluatedItems":false}`,
	`{"type":"array","allOf":[{"prefixItems":[true],"unevaluatedItems":{"type":"integer"}}],` +
		`"unevaluatedItems":false}`,
}

// TestKeywords: each value is accepted exactly if another implementation calls it valid.
func TestKeywords(t *testing.T) {
	plainly := strings.NewReplacer( // the other implementation has no lookahead
		`"pattern":"^(?!b)(?=.*[b1])."`, `"pattern":"^[^b].*[b1]|^[b1]$","not":{"pattern":"^b"}`,
		`"pattern":"^(?!ab$|b).*$"`, `"not":{"pattern":"^(ab$|b)"}`,
		`"pattern":"^(?!a)(?!b)"`, `"pattern":"^([^ab]|$)"`,
		`"^(?!a)"`, `"^([^a]|$)"`)
	for _, schema := range slices.Concat(schemasOfObjects, schemasOfOtherTypes, schemasWithUnevaluated) {
		t.Run(schema, func(t *testing.T) {
			g := compiled(t, []byte(schema), false)
			valid, some := validator(t, []byte(plainly.Replace(schema))), 0
			for _, value := range values {
				whole, _ := fits(g, value)
				if assert.Equal(t, valid(value) == nil, whole, value); whole {
					some++
				}
			}
			assert.Positive(t, some)
		})
	}
}

// TestNeverTwo: no value of two schemas of oneOf is accepted, even if the complement of one of them can be described
// only in part or not at all.
func TestNeverTwo(t *testing.T) {
	for schema, value := range map[string]string{
		`{"oneOf":[{"maxProperties":0,"type":"string"},{"additionalProperties":{"type":"integer"},` +
			`"minProperties":0},{"required":["b"]}]}`: `false`,
		`{"oneOf":[{"type":"object"},{"allOf":[{"patternProperties":{"^a":{"enum":["a"]}},"type":"object"},` +
			`{"not":{"propertyNames":{"enum":["a"]},"type":"object"}}]}]}`: `{"x":"F"}`,
		`{"oneOf":[{"type":"object","anyOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},` +
			`"required":["b"]}],"unevaluatedProperties":false},{"required":["a","b"]}]}`: `{"a":1,"b":1}`,
	} {
		g, err := Compile(t.Context(), []byte(schema), false)
		if err != nil {
			continue // no value is allowed at all
		}
		require.Error(t, validator(t, []byte(schema))(value))
		whole, _ := fits(g, value)
		assert.False(t, whole, "%s: %s", schema, value)
	}
}

// TestUndescribed: a schema with values that this package does not generate is refused with the reason, and not as one
// without values.
func TestUndescribed(t *testing.T) {
	for schema, c := range map[string]struct{ value, why string }{
		`{"type":"array","not":{"items":{"type":"null"}}}`:           {`[1]`, "#/not: values that do not fit it"},
		`{"type":"array","not":{"type":"array","uniqueItems":true}}`: {`[1,1]`, "#/not/uniqueItems: of"},
		`{"type":"object","not":{"type":"object","propertyNames":{"const":"a"}}}`: {`{"b":1}`,
			"#/not/propertyNames: of"},
		`{"type":"object","not":{"type":"object","patternProperties":{"a":false}}}`: {`{"a":1}`,
			"#/not/patternProperties: of"},
		`{"type":"object","not":{"type":"object","additionalProperties":false}}`: {`{"b":1}`,
			"#/not/additionalProperties: of"},
		`{"type":"number","not":{"type":"number","multipleOf":2}}`:         {`1`, "#/not/multipleOf: of"},
		`{"type":"string","not":{"type":"string","format":"date"}}`:        {`"a"`, "#/not/format: of"},
		`{"type":"null","not":{"oneOf":[{"type":"null"},{"const":null}]}}`: {`null`, "#/not/oneOf: of"},
		`{"type":"string","format":"time","pattern":"^23:59:60"}`:          {`"23:59:60Z"`, "#/format: only common"},
		`{"required":["a"],"properties":{"a":false}}`:                      {`1`, "#: values have the types that"},
		`{"type":"array","not":{"const":[1]},"maxItems":1}`:                {`[]`, "#: only an empty list or"},
		`{"type":"object","minProperties":9}`: {`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`,
			"at most 8 that must differ"},
		`{"allOf":[{"type":"object","minProperties":9},{"enum":[{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,` +
			`"i":1}]}]}`: {
			`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`, "at most 8 that must differ"},
	} {
		t.Run(schema, func(t *testing.T) {
			require.NoError(t, validator(t, []byte(schema))(c.value))
			_, err := Compile(t.Context(), []byte(schema), false)
			require.ErrorContains(t, err, c.why)
			if !strings.Contains(c.why, "do not fit it") {
				assert.ErrorContains(t, err, "#: no value that fits can be described: #")
			}
		})
	}
	_, err := Compile(t.Context(), []byte(`{"type":"object","properties":{"a":{}},"minProperties":2}`), true)
	assert.ErrorContains(t, err, "#: objects have the properties that are listed here, no others")
	const long = `{"type":"string","pattern":"^a{100}$","maxLength":999}`
	for schema, value := range map[string]string{
		long: `"` + strings.Repeat("a", 100) + `"`,
		`{"type":"number","exclusiveMinimum":1,"exclusiveMaximum":1.0000001}`:       `1.00000005`,
		`{"type":"number","exclusiveMinimum":-0.25000001,"exclusiveMaximum":-0.25}`: `-0.250000005`,
		`{"enum":[1,2,"b"],"pattern":"^a"}`:                                         `1`,
		`{"const":[1],"required":["a"]}`:                                            `[1]`,
		`{"type":"object","propertyNames":{"minimum":3},"required":["a"]}`:          `{"a":1}`,
	} {
		require.NoError(t, validator(t, []byte(schema))(value), schema)
		whole, _ := fits(compiled(t, []byte(schema), false), value)
		assert.True(t, whole, "%s: %s", schema, value)
	}
}

// TestDifferingNames: where the number of properties has a minimum, an object has that many different names, and most
// such objects are accepted.
func TestDifferingNames(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	names := []string{"a", "b", "c", "ab", "ba", "temperature", "humidity", "x1", "日本", "日", "q\"", ""}
	for _, schema := range []string{
		`{"type":"object","minProperties":2,"additionalProperties":{"type":"integer"}}`,
		`{"type":"object","minProperties":2,"maxProperties":2}`, `{"type":"object","minProperties":3}`,
		`{"type":"object","minProperties":4,"maxProperties":5}`,
		`{"type":"object","properties":{"p":{}},"minProperties":3}`,
		`{"type":"object","minProperties":2,"patternProperties":{"a":{"type":"integer"},"^.$":{"const":1}}}`,
		`{"type":"object","minProperties":2,"propertyNames":{"maxLength":2}}`,
	} {
		g, valid := compiled(t, []byte(schema), false), validator(t, []byte(schema))
		right, accepted := 0, 0
		for range 3000 {
			var fields []string
			if r.IntN(2) == 0 {
				fields = append(fields, `"p":1`)
			}
			for range r.IntN(5) {
				fields = append(fields, regular.Quote(names[r.IntN(len(names))])+":1")
			}
			text := "{" + strings.Join(fields, ",") + "}"
			ok := valid(text) == nil
			if ok {
				right++
			}
			if whole, _ := fits(g, text); whole {
				accepted++
				require.True(t, ok, "%s: %s", schema, text)
			}
		}
		t.Logf("%s: %d of %d", schema, accepted, right)
		assert.Greater(t, accepted, right/4, schema)
	}
	whole, _ := fits(compiled(t, []byte(`{"type":"object","minProperties":2}`), false), `{"a":1,"a":2,"b":3}`)
	assert.True(t, whole, "a name that is there again does not count")
}

// TestDiscriminator: a mapping distinguishes schemas that would otherwise be ambiguous; a discriminator without one has
// no effect.
func TestDiscriminator(t *testing.T) {
	const rest = `,"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}],"$defs":{` +
		`"A":{"type":"object","properties":{"n":{"type":"integer"},"k":{"type":"string"}},"required":["k"]},` +
		`"B":{"type":"object","properties":{"n":{"type":"null"},"k":{"type":"string"}},"required":["k"]}}}`
	for _, list := range []string{"oneOf", "anyOf"} {
		g, err := Compile(t.Context(), []byte(`{"discriminator":{"propertyName":"k","mapping":{"a":"#/$defs/A",`+
			`"b":"#/$defs/B","c":"#/$defs/B"}}`+strings.Replace(rest, "oneOf", list, 1)), false)
		require.NoError(t, err)
		for value, want := range map[string]bool{
			`{"n":1,"k":"a"}`: true, `{"k":"a"}`: true, `{"n":null,"k":"b"}`: true, `{"k":"c"}`: true,
			`{"n":1,"k":"b"}`: false, `{"k":"d"}`: false, `{"n":1}`: false,
		} {
			whole, _ := fits(g, value)
			assert.Equal(t, want, whole, "%s: %s", list, value)
		}
	}
	g := compiled(t, []byte(`{"discriminator":{"propertyName":"k"}`+rest), false)
	whole, _ := fits(g, `{"n":1,"k":"d"}`)
	assert.True(t, whole)
	whole, _ = fits(g, `{"k":"d"}`)
	assert.False(t, whole, "it is a value of both")
}

// TestEarlierDrafts: keywords of drafts 4 to 7.
func TestEarlierDrafts(t *testing.T) {
	for _, c := range []struct{ schema, yes, no string }{
		{`{"type":"integer","minimum":3,"exclusiveMinimum":true}`, `4`, `3`},
		{`{"type":"integer","maximum":3,"exclusiveMaximum":true}`, `2`, `3`},
		{`{"type":"integer","exclusiveMaximum":false,"maximum":3}`, `3`, `4`},
		{`{"type":"integer","exclusiveMaximum":5.5}`, `5`, `6`},
		{`{"type":"integer","exclusiveMinimum":-5.5}`, `-5`, `-6`},
		{`{"type":"array","items":[{"const":1}],"additionalItems":{"const":2}}`, `[1,2,2]`, `[1,1]`},
		{`{"type":"array","additionalItems":false,"items":[{"const":1}]}`, `[1]`, `[1,1]`},
		{`{"type":"array","items":{"const":1},"additionalItems":false}`, `[1,1]`, `[2]`},
		{`{"type":"array","items":[],"additionalItems":false}`, `[]`, `[1]`},
		{"{\"type\":\"array\", \"items\": [\n], \"additionalItems\": false}", `[]`, `[1]`},
		{`{"type":"array","prefixItems":[{"const":1}],"additionalItems":{"const":2}}`, `[1,2]`, `[1,1]`},
		{`{"type":"array","prefixItems":[{"const":1}],"additionalItems":{"const":2},"items":{"const":3}}`, `[1,3]`,
			`[1,2]`},
		{`{"id":"http://x.org/s","type":"null"}`, `null`, `1`},
		{`{"type":"object","properties":{"a":{"type":"null","required":true}}}`, `{}`, `{"a":1}`},
	} {
		t.Run(c.schema, func(t *testing.T) {
			g := compiled(t, []byte(c.schema), false)
			assertValues(t, g, true, c.yes)
			assertValues(t, g, false, c.no)
		})
	}
}

// TestDrafts: which keywords count, and what an id is, depends on the draft that $schema names. Without one, the rules
// are those of 2020-12.
func TestDrafts(t *testing.T) {
	const four, six, seven = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-07/schema#"
	const later, last = "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"
	// An id beside a reference: it leads to "x" if the id counts, else to "y".
	const beside = `{"$schema":"S","$id":"http://o/base/","definitions":{"x":{"$id":"http://o/sub/y","const":"x"},` +
		`"y":{"$id":"y","const":"y"}},"allOf":[{"$id":"http://o/sub/","$ref":"y"}]}`
	// An id in a keyword that no draft has, and in a value: they do not count.
	const unknown = `{"$schema":"S","$id":"http://o/","definitions":{"a":{"const":"y"},` +
		`"x":{"$id":"d","const":"x"}},"own":{"$id":"d","const":"y"},"allOf":[{"$ref":"d"}],"examples":[{"$id":"d"}],` +
		`"not":{"enum":[{"$id":"d"}]}}`
	const siblings = `{"$schema":"S","allOf":[{"$ref":"#/definitions/a","maxLength":1}],` +
		`"definitions":{"a":{"type":"string","maxLength":2}}}`
	for _, c := range []struct{ schema, draft, yes, no string }{
		{beside, six, `"y"`, `"x"`}, {beside, seven, `"y"`, `"x"`}, {beside, later, `"x"`, `"y"`},
		{beside, last, `"x"`, `"y"`}, {beside, "", `"x"`, `"y"`},
		{strings.ReplaceAll(beside, "$id", "id"), four, `"y"`, `"x"`},
		{strings.ReplaceAll(beside, "$id", "id"), "", `"y"`, `"x"`},
		{unknown, six, `"x"`, `"y"`}, {unknown, later, `"x"`, `"y"`}, {unknown, last, `"x"`, `"y"`},
		{unknown, "", `"x"`, `"y"`},
		{strings.ReplaceAll(unknown, "$id", "id"), four, `"x"`, `"y"`},
		{siblings, four, `"ab"`, `"abc"`}, {siblings, seven, `"ab"`, `"abc"`}, {siblings, later, `"a"`, `"ab"`},
		{siblings, last, `"a"`, `"ab"`}, {siblings, "", `"a"`, `"ab"`},
		{`{"$schema":"S","$ref":"#it","definitions":{"a":{"$id":"#it","const":"x"}}}`, six, `"x"`, `"y"`},
		{`{"$schema":"S","type":"object","properties":{"a":{"enum":["x"],"required":true}}}`,
			"http://json-schema.org/draft-03/schema#", `{"a":"x"}`, `{}`},
		{`{"$schema":"S","type":"object","properties":{"a":{"enum":["x"],"required":true}}}`, last, `{}`, `{"a":1}`},
	} {
		schema := strings.Replace(c.schema, `"$schema":"S"`, `"$schema":"`+c.draft+`"`, 1)
		t.Run(schema, func(t *testing.T) {
			g := compiled(t, []byte(schema), false)
			assertValues(t, g, true, c.yes)
			assertValues(t, g, false, c.no)
		})
	}
	for _, schema := range []string{
		`{"$schema":"S","$ref":"#it","definitions":{"a":{"$anchor":"it"}}}`,
		`{"$schema":"S","allOf":[{"$ref":"http://o/a"}],"definitions":{"a":{"id":"http://o/a"}}}`,
	} {
		_, err := Compile(t.Context(), []byte(strings.Replace(schema, `:"S"`, `:"`+seven+`"`, 1)), false)
		assert.ErrorContains(t, err, "it leads outside of the schema", schema)
	}
	g := compiled(t, []byte(strings.Replace(siblings, `:"S"`, `:"`+seven+`"`, 1)), false)
	assert.Equal(t, []string{"#/allOf/0/maxLength"}, g.Ignored(), "what a reference makes ineffective is named")
}

// TestIgnored: undefined keywords and unknown formats have no effect, and are listed, up to a limit.
func TestIgnored(t *testing.T) {
	for schema, want := range map[string][]string{
		`{"type":"null","title":"t","x-own":1,"then":{}}`:                      nil,
		`{"typ":"null","properties":{"a/b":{"nullable":true}}}`:                {"#/typ", "#/properties/a~1b/nullable"},
		`{"type":"string","format":"int32"}`:                                   {"#/format"},
		`{"$defs":{"a":{"odd":1},"b":{"odd":1}},"items":{"$ref":"#/$defs/a"}}`: {"#/$defs/a/odd"},
	} {
		g := compiled(t, []byte(schema), false)
		assert.Equal(t, want, g.Ignored(), schema)
	}
	var many []string
	for i := range 2 * maxIgnored {
		many = append(many, fmt.Sprintf(`"k%d":0`, i))
	}
	g := compiled(t, []byte("{"+strings.Join(many, ",")+"}"), false)
	assert.Len(t, g.Ignored(), maxIgnored)
}

// TestReferences: references by pointers in any spelling, by ids and by anchors. They all refer to "a".
func TestReferences(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#/$defs/Bar%3Cx%3E","$defs":{"Bar<x>":{"const":"a"}}}`,
		`{"$ref":"#/$defs/Bar%3Cx%3E","$defs":{"Bar%3Cx%3E":{"const":"a"}}}`,
		`{"$ref":"#/$defs/100%","$defs":{"100%":{"const":"a"}}}`,
		`{"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"const":"a"}}}`,
		`{"$ref":"#/$defs/a%2Fb","$defs":{"a":{"b":{"const":"a"}}}}`,
		`{"$id":"http://x.org/s.json","$ref":"#/$defs/a","$defs":{"a":{"const":"a"}}}`,
		`{"$id":"http://x.org/s.json","$ref":"s.json#/$defs/a","$defs":{"a":{"const":"a"}}}`,
		`{"$id":"http://x.org/s.json","$ref":"http://x.org/s.json#/$defs/a","$defs":{"a":{"const":"a"}}}`,
		`{"$id":"http://x.org/s.json","$ref":"t.json","$defs":{"a":{"$id":"t.json","const":"a"}}}`,
		`{"$id":"http://x.org/s.json#","$ref":"s.json#/$defs/a","$defs":{"a":{"const":"a"}}}`,
		`{"$ref":"http://x.org/s.json#","$defs":{"a":{"$id":"http://x.org/s.json#","const":"a"}}}`,
		`{"$id":"http://x.org/s.json","$ref":"/d/t.json#/$defs/b","$defs":{"a":{"$id":"d/t.json",` +
			`"$defs":{"b":{"const":"a"}}}}}`,
		`{"$ref":"t.json","$defs":{"a":{"$id":"t.json","$ref":"#/$defs/b","$defs":{"b":{"const":"a"}}}}}`,
		`{"$ref":"#it","$defs":{"a":{"$anchor":"it","const":"a"}}}`,
		`{"$ref":"#it","definitions":{"a":{"id":"#it","const":"a"}}}`,
		`{"id":"http://x.org/s","allOf":[{"$ref":"s#/definitions/b"}],"definitions":{"b":{"const":"a"},` +
			`"a":{"id":"#it"}}}`,
		`{"$dynamicRef":"#it","$defs":{"a":{"$dynamicAnchor":"it","const":"a"}}}`,
		`{"$dynamicRef":"#it","$defs":{"a":{"$anchor":"it","const":"a"},"b":{"$dynamicAnchor":"other"}}}`,
		`{"$recursiveAnchor":true,"anyOf":[{"const":"a"},{"type":"array","items":{"$recursiveRef":"#"}}]}`,
		`{"$ref":"#it","items":[{"$anchor":"it","const":"a"}]}`, `{"$ref":"#it","dependencies":{"b":{"$anchor":"it",` +
			`"const":"a"}}}`,
		`{"$defs":{"b":{"id":"/properties/b","$ref":"#/definitions/a"}},"$ref":"#/$defs/b",` +
			`"definitions":{"a":{"const":"a"}}}`,
		`{"$ref":"#/else","else":{"const":"a"},"enum":[{"$id":"#/else"},"a"]}`,
	} {
		t.Run(schema, func(t *testing.T) {
			g := compiled(t, []byte(schema), false)
			assertValues(t, g, true, `"a"`)
			assertValues(t, g, false, `"b"`)
		})
	}
}

// TestReferencesRefused: a reference is text, and leads to one place within the schema that has a schema.
func TestReferencesRefused(t *testing.T) {
	for schema, want := range map[string]string{
		`{"$ref":"http://x.org/other.json"}`:                     "it leads outside of the schema",
		`{"$ref":"#nothing"}`:                                    "it leads outside of the schema",
		`{"$ref":"#/a%2"}`:                                       "nothing is there",
		`{"$ref":"#/$defs/a","$defs":[]}`:                        "nothing is there",
		`{"$ref":1}`:                                             "it must be a string",
		`{"properties":{"a":{"$ref":null}}}`:                     "it must be a string",
		`{"$ref":"#it","default":{"$anchor":"it"}}`:              "it leads outside",
		`{"$ref":"#it","examples":[{"$anchor":"it"}]}`:           "it leads outside",
		`{"$ref":"#it","const":{"$anchor":"it"}}`:                "it leads outside",
		`{"$ref":"#it","enum":[{"$anchor":"it"}]}`:               "it leads outside",
		`{"$ref":"#it","unknown":{"$anchor":"it"}}`:              "it leads outside",
		`{"$ref":"#it","not":{"list":[{"$anchor":"it"}]}}`:       "it leads outside",
		`{"$ref":"#it","properties":{"$anchor":{"const":"it"}}}`: "it leads outside",
		`{"$dynamicRef":1}`:                                      "#/$dynamicRef: it must be a string",
		`{"$recursiveRef":"a"}`:                                  "#/$recursiveRef: a: it leads outside",
		`{"$dynamicRef":"#it","$dynamicAnchor":"it",` +
			`"$defs":{"a":{"$id":"a","$dynamicAnchor":"it"}}}`: "#/$dynamicRef: it is supported where only one",
		`{"$dynamicRef":"#it"}`: "#/$dynamicRef: #it: it leads outside",

		`{"$recursiveRef":"#","$recursiveAnchor":true,` +
			`"$defs":{"a":{"$id":"a","$recursiveAnchor":true}}}`: "#/$recursiveRef: it is supported where only one",
		`{"$ref":"t.json#/b","$defs":{"a":{"$id":"t.json"}}}`:            "nothing is there",
		`{"$ref":"#/$defs/a/0/b","$defs":{"a":[{"b":{"type":"none"}}]}}`: "#/$defs/a/0/b/type: ",
	} {
		_, err := Compile(t.Context(), []byte(schema), false)
		assert.ErrorContains(t, err, want, schema)
	}
}

// condition returns a schema of one keyword or two.
func (m *maker) condition() obj {
	switch m.IntN(9) {
	case 0:
		return obj{"required": []string{m.one("a", "b", "c")}}
	case 1:
		return obj{"properties": obj{m.one("a", "b"): m.small()}, "required": []string{m.one("a", "b")}}
	case 2:
		return obj{"type": m.one("object", "string", "integer", "array"), "maxProperties": m.IntN(3)}
	case 3:
		return obj{"enum": []any{"x", 1, nil, obj{}, []any{1}}[m.IntN(4):]}
	case 4:
		return obj{"type": "string", "pattern": m.one("^a", "b$", "^[a-c]{1,3}$", "x|y")}
	case 5:
		return obj{"type": "array", "minItems": m.IntN(3), "items": m.small()}
	case 6:
		return obj{"patternProperties": obj{m.one("^a", "b"): m.small()}, "type": "object"}
	case 7:
		return obj{"type": "number", "minimum": m.IntN(9)}
	}
	return obj{"propertyNames": m.small(), "type": "object"}
}

// rareCondition is like condition, with keywords that count items or name what others leave open.
func (m *maker) rareCondition() obj {
	switch m.IntN(10) {
	case 0:
		return obj{"type": "array", "contains": m.small(), "minContains": m.IntN(3), "maxItems": 1 + m.IntN(3)}
	case 1:
		return obj{"type": "array", "contains": m.small(), "maxContains": m.IntN(3),
			"prefixItems": []any{m.small()}, "maxItems": m.IntN(4)}
	case 2:
		return obj{"type": "array", "prefixItems": []any{m.small()}, "unevaluatedItems": m.small()}
	case 3:
		return obj{"type": "object", "properties": obj{m.one("a", "b"): m.small()},
			"unevaluatedProperties": m.small()}
	}
	return m.condition()
}

// part returns a condition, or a combination of less depth.
func (m *maker) part(depth int) obj {
	if depth > 0 && m.IntN(3) == 0 {
		return m.combination(depth - 1)
	}
	return m.rareCondition()
}

// combination returns a schema with keywords that combine other schemas, which often contradict each other.
func (m *maker) combination(depth int) obj {
	some := func() obj { return m.part(depth) }
	s := obj{}
	for range 1 + m.IntN(3) {
		switch m.IntN(9) {
		case 7:
			s["unevaluatedProperties"] = m.small()
		case 8:
			s["unevaluatedItems"] = m.small()
		case 0:
			s["not"] = some()
		case 1:
			s["oneOf"] = []any{some(), some(), some()}[:2+m.IntN(2)]
		case 2:
			s["anyOf"] = []any{some(), some()}
		case 3:
			s["allOf"] = []any{some(), obj{"not": some()}}
		case 4:
			s["if"], s["then"], s["else"] = some(), some(), some()
		case 5:
			s["dependentRequired"] = obj{"a": []string{m.one("b", "c")}}
			s["dependentSchemas"] = obj{"b": some()}
		default:
			s["minProperties"], s["additionalProperties"] = m.IntN(3), m.small()
		}
	}
	if m.IntN(2) == 0 {
		s["type"] = m.one("object", "object", "string", "array", "number")
	}
	return s
}

func (m *maker) small() obj {
	return []obj{{}, {"type": "string", "maxLength": 2}, {"const": 1}, {"type": "integer"}, {"minLength": 1},
		{"enum": []any{"a", "b"}}, {"not": obj{"const": "a"}}}[m.IntN(7)]
}

// TestRandomCombinations: values generated by schemas that contradict, negate and exclude each other are valid, and
// where no value is said to fit, none does.
func TestRandomCombinations(t *testing.T) {
	racing.Spare(t)
	v := smallVocabulary(t)
	m := &maker{Rand: rand.New(rand.NewPCG(11, 12))}
	schemas, ended, empty := 0, 0, 0
	for range 600 {
		raw, err := json.Marshal(m.combination(1))
		require.NoError(t, err)
		valid := validator(t, raw)
		g, err := Compile(t.Context(), raw, false)
		if err != nil { // many have no values, or are too ambiguous
			if strings.Contains(err.Error(), "no value fits") {
				empty++
				for _, value := range values {
					require.Error(t, valid(value), "%s\n%s", raw, value)
				}
			}
			continue
		}
		schemas++
		matcher := v.matcher(g)
		for range 8 {
			s := matcher.Start()
			text, done := draw(m.Rand, matcher, v, 20)
			if !done { // with a short end
				if s = g.Next(s, []byte(text)...); s != nil {
					text += string(g.Shortest(s))
				}
			}
			ended++
			require.NoError(t, valid(text), "%s\n%s", raw, text)
		}
	}
	t.Logf("%d schemas, %d texts; %d schemas without a value", schemas, ended, empty)
	assert.Greater(t, schemas, 300)
	assert.Greater(t, empty, 30)
}
