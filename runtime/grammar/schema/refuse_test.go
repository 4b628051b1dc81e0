package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// TestWork: a small schema that would need very much work is refused: nested choices with exponentially many states,
// and alternatives that must be compared pairwise.
func TestWork(t *testing.T) {
	held.Bounded(t)
	racing.Spare(t)
	raw := `{"pattern":"` + strings.Repeat("a?", 5000) + strings.Repeat("a", 5000) + `"}`
	_, err := Compile(t.Context(), []byte(raw), false)
	require.ErrorIs(t, err, regular.ErrWork)
	assert.ErrorContains(t, err, "#/pattern: ")
	many := func(n int) string {
		return `{"oneOf":[` + strings.TrimSuffix(strings.Repeat(`{"const":1},`, n), ",") + `]}`
	}
	_, err = Compile(t.Context(), []byte(many(maxWays+1)), false)
	assert.EqualError(t, err, "#/oneOf: more than 512 alternatives are not supported")
	_, err = Compile(t.Context(), []byte(many(maxWays)), false)
	assert.ErrorContains(t, err, "#/oneOf/510: more than 512 schemas")
	var depend []string // each doubles the combinations
	for i := range 2000 {
		depend = append(depend, fmt.Sprintf(`"a%d":["b%d"]`, i, i))
	}
	_, err = Compile(t.Context(), []byte(`{"dependentRequired":{`+strings.Join(depend, ",")+`}}`), false)
	require.ErrorIs(t, err, regular.ErrWork)
	var long []string // each letter is a state
	for i := range 300 {
		long = append(long, fmt.Sprintf(`"%01000d":{}`, i))
	}
	_, err = Compile(t.Context(), []byte(`{"properties":{`+strings.Join(long, ",")+`}}`), false)
	require.ErrorIs(t, err, regular.ErrSize)
	for _, raw := range []string{`{"pattern":"a"}`, `{"anyOf":[{"const":1}]}`, `{"oneOf":[{"const":1},{"const":2}]}`,
		`{"oneOf":[{"required":["a"]},{"type":"null"}]}`, `{"enum":[{"a":1}]}`} {
		m := &regular.Maker{Stop: func() error { return nil }}
		r, err := readSchema(m, []byte(raw))
		require.NoError(t, err)
		require.ErrorIs(t, m.Spend(math.MaxInt32), regular.ErrWork)
		c := newCompiler(r)
		_, err = c.ruleStart(r.root)
		require.NoError(t, err)
		assert.ErrorIs(t, c.buildPendingRules(), regular.ErrWork, raw)
	}
}

// TestPaths: a schema that makes too large an automaton, or takes too many steps at any point, is refused with a path.
func TestPaths(t *testing.T) {
	held.Bounded(t)
	racing.Spare(t)
	var many []string
	for i := range uint32(20_000) {
		many = append(many, fmt.Sprintf(`"%08x"`, i*2654435761))
	}
	for raw, path := range map[string]string{
		`{"type":"string","minLength":100000,"not":{"const":"a"}}`:       "#",
		`{"items":{"enum":[` + strings.Join(many, ",") + `]}}`:           "#/items",
		`{"propertyNames":{"minLength":100000,"pattern":"a"}}`:           "#/propertyNames",
		`{"properties":{"a":{"pattern":"\\pL{500}"}},"required":["a"]}`:  "#/properties/a/pattern",
		`{"patternProperties":{"\\pL{500}":{}},"properties":{"a":true}}`: "#",
	} {
		_, err := Compile(t.Context(), []byte(raw), false)
		var e *grammar.Error
		require.ErrorAs(t, err, &e, "%.100s", raw)
		require.ErrorIs(t, err, regular.ErrSize)
		assert.Equal(t, path, e.Path, "%.100s", raw)
	}
	const all = `{"type":["string","object","number","array"],"properties":{"a":{"minLength":2},"b":{"enum":["x"]}},` +
		`"patternProperties":{"^x":{"minimum":1}},"propertyNames":{"anyOf":[{"pattern":"^[abx]"},{"maxLength":3}]},` +
		`"not":{"const":"n"},"items":{"oneOf":[{"type":"string","minLength":3},{"type":"string","maxLength":5}]}}`
	refused := 0
	for left := 0; ; left += 50 + left/8 {
		stop := func() error { return nil }
		m := &regular.Maker{Stop: stop}
		require.NoError(t, m.Spend(1<<26-left))
		_, err := compileSchema(m, []byte(all), false, (*compiler).rootStart)
		if err == nil {
			break
		}
		refused++
		require.ErrorIs(t, err, regular.ErrWork)
		var e *grammar.Error
		require.ErrorAs(t, err, &e, "with %d steps left", left)
	}
	assert.Greater(t, refused, 20)
}

// TestLarge: a large schema takes no more memory than its steps account for: it ends when they are refused.
func TestLarge(t *testing.T) {
	held.Bounded(t)
	racing.Spare(t)
	list := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, strings.ReplaceAll(format, "%d", "%[1]d")+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	numbers, texts := list(3000, "%d"), list(3000, `"%d"`)
	for _, raw := range []string{
		`{"type":"number","not":{"enum":[` + numbers + `]}}`, `{"type":"string","not":{"enum":[` + texts + `]}}`,
		`{"enum":[` + numbers + `],"not":{"enum":[` + numbers + `]}}`,
		`{"allOf":[{"enum":[` + numbers + `]},{"enum":[` + numbers + `]}]}`,
		`{"properties":{` + list(3000, `"%d":{}`) + `},"required":[` + texts + `]}`,
		`{"properties":{` + list(3000, `"%d":{}`) + `},"propertyNames":{"enum":[` + texts + `]}}`,
		`{"patternProperties":{` + list(3000, `"%d":{}`) + `}}`, `{` + list(3000, `"x%d":1`) + `}`,
		`{"allOf":[` + list(3000, `{"minLength":%d}`) + `]}`,
		`{"prefixItems":[` + list(3000, `{"maxLength":%d}`) + `]}`,
		`{"enum":[` + list(2000, `{"a%d":[1,2]}`) + `],"type":"object","minProperties":1}`,
		`{"$defs":{` + list(3000, `"d%d":{"type":"string"}`) + `},"anyOf":[` +
			list(500, `{"$ref":"#/$defs/d%d"}`) + `]}`,
		`{"anyOf":[` + list(500, `{"properties":{"a%d":{"type":"string"}},"required":["b"]}`) + `]}`,
		`{"const":"` + strings.Repeat("é", 50000) + `"}`, `{"allOf":[` + list(500, `{"multipleOf":1.%d}`) + `]}`,
		`{"type":"array","items":{"enum":[` + list(100, "%d") + `]},"uniqueItems":true}`,
	} {
		calls := 0
		stop := func() error {
			if calls++; calls > 4 {
				return context.Canceled
			}
			return nil
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := compileSchema(&regular.Maker{Stop: stop}, []byte(raw), false, (*compiler).rootStart)
		runtime.ReadMemStats(&after)
		assert.Equal(t, calls > 4, errors.Is(err, context.Canceled), "%.60s: %.200v", raw, err)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), "%.60s", raw)
	}
}

// TestManyExceptions: each number that does not fit adds one range to those that do.
func TestManyExceptions(t *testing.T) {
	var not strings.Builder
	for i := range 60 {
		fmt.Fprintf(&not, "%d,%d.0,", (i*7)%60, i)
	}
	for _, kind := range []string{"number", "integer"} {
		raw := fmt.Sprintf(`{"type":"%s","minimum":-2,"not":{"enum":[%s90]}}`, kind, not.String())
		g := compiled(t, []byte(raw), false)
		for v := -3; v < 100; v++ {
			whole, _ := fits(g, strconv.Itoa(v))
			assert.Equal(t, v >= -2 && v < 0 || v >= 60 && v != 90, whole, "%s %d", kind, v)
			broken, _ := fits(g, strconv.Itoa(v)+".5")
			assert.Equal(t, kind == "number" && v > -2, broken, "%s %d.5", kind, v)
		}
	}
}

// refusedSchemas are schemas that are invalid, unsupported or undecidable, with what the error says.
var refusedSchemas = map[string]string{
	``:               "#: it is not JSON",
	`[]`:             "#: a schema is an object, true or false",
	`7`:              "#: a schema is an object, true or false",
	`false`:          "#: no value fits",
	`{"type":"int"}`: `#/type: "int" is no type`,
	`{"type":[]}`:    "#/type: it must be the name",
	`{"type":null}`:  "#/type: ",
	`{"extends":{}}`: "#/extends: this keyword is not supported",
	`{"properties":{"a/b~":{"divisibleBy":2}}}`: "#/properties/a~1b~0/divisibleBy: ",
	`{"not":{}}`:                                      "#: no value fits",
	`{"not":{"format":"date"}}`:                       "#/not: values that do not fit it cannot be described",
	`{"patternProperties":{"a(":{}}}`:                 "#/patternProperties/a(: ",
	`{"patternProperties":{"a":1}}`:                   "#/patternProperties/a: a schema is an object",
	`{"dependencies":{"a":["b"],"b":1}}`:              "#/dependencies/b: a schema is an object",
	`{"dependentRequired":{"a":{}}}`:                  "#/dependentRequired/a: it must be a list of names",
	`{"minProperties":100000}`:                        "#: to count as many properties it makes too large",
	`{"minProperties":2,"maxProperties":1}`:           "#: no value that fits can be described",
	`{"propertyNames":false,"required":["a"]}`:        "#: no value that fits can be described",
	`{"pattern":"^a$","allOf":[{"pattern":"b"}]}`:     "#: no value that fits can be described",
	`{"oneOf":[{"format":"date"},{"format":"time"}]}`: "#/oneOf/0: a value may fit other schemas of oneOf",
	`{"oneOf":[{"const":1},{"const":1.0}]}`:           "#: no value fits",
	`{"properties":{"a":1}}`:                          "#/properties/a: a schema is an object",
	`{"properties":[]}`:                               "#/properties: it must be an object",
	`{"required":"a"}`:                                "#/required: it must be a list of names",
	`{"items":{"uniqueItems":true}}`:                  "#/items/uniqueItems: ",
	`{"minItems":-1}`:                                 "#/minItems: it must be a whole number",
	`{"maxItems":1.5}`:                                "#/maxItems: it must be a whole number",
	`{"minLength":null}`:                              "#/minLength: it must be a whole number",
	`{"minimum":"1"}`:                                 "#/minimum: it must be a number",
	`{"minimum":1e401}`:                               "#/minimum: 1e401 is not possible: exponents are -400 to",
	`{"maximum":1e-401}`:                              "#/maximum: 1e-401 is not possible: exponents are -400",
	`{"multipleOf":1E-999999999}`:                     "#/multipleOf: 1E-999999999 is not possible: exponents are",
	`{"multipleOf":0}`:                                "#/multipleOf: it must be above 0",
	`{"multipleOf":"2"}`:                              "#/multipleOf: it must be a number",
	`{"multipleOf":1e-16}`:                            "#/multipleOf: multiples of",
	`{"multipleOf":99999}`:                            "#/multipleOf: it makes too large",
	`{"items":{"uniqueItems":1}}`:                     "#/items/uniqueItems: it must be true or false",
	`{"pattern":"b(?=a)"}`:                            "#/pattern: ",
	`{"pattern":"^(?!a)b|c"}`:                         "#/pattern: ",
	`{"pattern":"^(?!(?!a))b"}`:                       "#/pattern: ",
	`{"pattern":"^(?!a"}`:                             "#/pattern: ",
	`{"pattern":"a\\b"}`:                              "#/pattern: ",
	`{"pattern":"(?i)a"}`:                             "#/pattern: (?i",
	`{"pattern":"a(^b|c)d"}`:                          "#/pattern: ^ and $ are supported at the ends",
	`{"pattern":"(a{1000}){1000}"}`:                   "#/pattern: ",
	`{"pattern":"^a+$","minLength":100000}`:           "#/pattern: with lengths of up to 100000 characters",
	`{"enum":[]}`:                                     "#/enum: it must be a list of at least one value",
	`{"enum":[1],"const":2}`:                          "#: no value fits",
	`{"items":{"type":"string"},"uniqueItems":true}`:  "#/uniqueItems: it is supported where items are",
	`{"exclusiveMaximum":` +
		strings.Repeat("9", 1001) + `}`: "99999 is not a number of at most 1000 digits",
	`{"type":"array","items":{"enum":[1,2]},` +
		`"minItems":3,"uniqueItems":true}`: "#: no value fits",
	`{"prefixItems":[{"const":1}],"items":{"const":2},"uniqueItems":true}`: "#/uniqueItems: ",
	`{"items":{"type":"string"},"uniqueItems":true,"maxItems":2}`:          "#/uniqueItems: ",
	`{"type":"object","not":{"enum":[{},{"a":1}]}}`:                        "#: no value that fits can be",
	`{"type":"array","not":{"enum":[[],[1]]}}`:                             "#: no value that fits can be",
	`{"items":[true],"additionalItems":1}`:                                 "#/additionalItems: a schema is an",
	`{"propertyNames":1}`:                                                  "#/propertyNames: a schema is an",
	`{"additionalProperties":1}`:                                           "#/additionalProperties: a schema is",
	`{"if":{},"then":1}`:                                                   "#/then: a schema is an object",
	`{"enum":["a"],"type":"integer"}`:                                      "#: no value fits",
	`{"type":"integer","minimum":2,"maximum":1}`:                           "#: no value fits",
	`{"type":"string","minLength":2,"maxLength":1}`:                        "#: no value fits",
	`{"type":"array","minItems":2,"maxItems":1}`:                           "#: no value fits",
	`{"type":"array","minItems":1,"items":false}`:                          "#: no value fits",
	`{"type":"object","properties":{"a":false},"required":["a"]}`:          "#: no value fits",
	`{"allOf":[{"type":"string"},{"type":"null"}]}`:                        "#: no value fits",
	`{"$ref":"#"}`: "#: it refers to itself without",
	`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`: "#: it refers to itself without",
	`{"$ref":"#/$defs/a"}`:                     "#/$ref: #/$defs/a: nothing is there",
	`{"$ref":"other.json"}`:                    "#/$ref: other.json: it leads outside of the schema",
	`{"$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}},` +
		`"$ref":"#/$defs/a"}`: "#: no value fits",
	`{"type":"string","type":"null"}`:                                  `"type" stands there twice`,
	`{"type":"number","minimum":0.0000000000000000001}`:                "#: bounds of more than 15 digits",
	strings.Repeat(`{"items":`, 200) + `{}` + strings.Repeat(`}`, 200): "more than 128 schemas within each other",
	strings.Repeat(" ", maxSchema) + "true":                            "#: the schema has",
}

func TestRefusals(t *testing.T) {
	held.Bounded(t)
	for schema, want := range refusedSchemas {
		t.Run(fmt.Sprintf("%.200s", schema), func(t *testing.T) {
			_, err := Compile(t.Context(), []byte(schema), false)
			var e *grammar.Error
			require.ErrorAs(t, err, &e)
			assert.ErrorContains(t, err, want)
			assert.NotNil(t, errors.Unwrap(e))
		})
	}
}

// TestContainsRefused: what contains, unevaluatedItems and unevaluatedProperties may not be.
func TestContainsRefused(t *testing.T) {
	for schema, want := range map[string]string{
		`{"contains":{},"minContains":-1}`:                               "#/minContains: it must be a whole",
		`{"contains":{},"maxContains":"1"}`:                              "#/maxContains: it must be a whole",
		`{"type":"array","contains":1}`:                                  "#/contains: a schema is an object",
		`{"type":"array","unevaluatedItems":1}`:                          "#/unevaluatedItems: a schema is an object",
		`{"type":"object","unevaluatedProperties":1}`:                    "#/unevaluatedProperties: a schema",
		`{"contains":{"const":1},"uniqueItems":true}`:                    "#/contains: it is not supported",
		`{"contains":{"const":1},"minContains":65}`:                      "#/contains: at most 64 items can be counted",
		`{"contains":{},"minItems":9000}`:                                "#/contains: to count as many items",
		`{"contains":{"const":1},"allOf":[{"contains":{"const":2}}]}`:    "#/allOf/0/contains: it is supported once",
		`{"type":"array","contains":{},"minContains":2,"maxItems":1}`:    "#: no value fits",
		`{"type":"array","contains":{},"minContains":2,"maxContains":1}`: "#: no value fits",
		`{"type":"array","contains":{},"maxContains":2,"minItems":3}`:    "#: no value fits",
		`{"type":"array","contains":false}`:                              "#: no value fits",
	} {
		_, err := Compile(t.Context(), []byte(schema), false)
		assert.ErrorContains(t, err, want, schema)
	}
}

// TestAtLimits: a schema at a limit is accepted, and one beyond it refused.
func TestAtLimits(t *testing.T) {
	held.Bounded(t)
	racing.Spare(t)
	nested := func(n int) string { return strings.Repeat(`{"items":`, n) + `{}` + strings.Repeat(`}`, n) }
	classes := func(n int) string { // each pattern doubles the classes of names
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%c":{}`, 'a'+i))
		}
		return `{"type":"object","patternProperties":{` + strings.Join(all, ",") + `}}`
	}
	numbered := func(n int) string {
		return fmt.Sprintf(`{"type":"object","properties":{"a":{}},"maxProperties":%d}`, n)
	}
	blanks := func(n int) string { return strings.Repeat(" ", n) + "true" }
	digits := func(n int) string { return `{"maximum":` + strings.Repeat("9", n) + `}` }
	ways := func(n int) string {
		return `{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"null"},`, n), ",") + `]}`
	}
	for name, c := range map[string]struct {
		fits, beyond string
		want         error
	}{
		"nesting":            {nested(maxDepth), nested(maxDepth + 1), nil},
		"bytes":              {blanks(maxSchema - 4), blanks(maxSchema - 3), nil},
		"exponent":           {`{"maximum":1e400}`, `{"maximum":1e401}`, nil},
		"negative exponent":  {`{"minimum":0e-400}`, `{"minimum":0e-401}`, nil},
		"digits":             {digits(1000), digits(1001), nil},
		"classes of names":   {classes(6), classes(7), regular.ErrSize},
		"counted properties": {numbered(maxNumbered / 2), numbered(maxNumbered/2 + 1), regular.ErrSize},
		"digits of a step":   {`{"multipleOf":1e-15,"maximum":0}`, `{"multipleOf":1e-16,"maximum":0}`, nil},
		"digits of a bound":  {`{"minimum":1e-15}`, `{"minimum":1e-16}`, nil},
		"alternatives":       {ways(maxWays), ways(maxWays + 1), nil},
		"length":             {`{"maxLength":1073741823}`, `{"maxLength":1073741824}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			compiled(t, []byte(c.fits), false)
			_, err := Compile(t.Context(), []byte(c.beyond), false)
			var e *grammar.Error
			require.ErrorAs(t, err, &e)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
}

// TestNesting: schemas within each other are limited, whichever keywords they are in.
func TestNesting(t *testing.T) {
	for _, in := range []string{
		`{"items":_}`, `{"prefixItems":[_]}`, `{"items":[],"additionalItems":_}`, `{"properties":{"a":_}}`,
		`{"patternProperties":{"a":_}}`, `{"additionalProperties":_}`, `{"propertyNames":_}`, `{"not":_}`,
		`{"anyOf":[_]}`, `{"allOf":[_]}`, `{"oneOf":[_]}`, `{"if":_}`, `{"if":true,"then":_}`, `{"if":true,"else":_}`,
		`{"dependentSchemas":{"a":_}}`, `{"contains":_}`, `{"unevaluatedItems":_}`, `{"unevaluatedProperties":_}`,
	} {
		before, after, _ := strings.Cut(in, "_")
		for _, n := range []int{maxDepth, maxDepth + 1} {
			raw := strings.Repeat(before, n) + "true" + strings.Repeat(after, n)
			_, err := Compile(t.Context(), []byte(raw), false)
			deep := err != nil && strings.Contains(err.Error(), "more than 128 schemas within each other")
			assert.Equal(t, n > maxDepth, deep, "%s: %v", in, err)
		}
	}
}

// TestKeywordsKnown: every keyword of a draft has an effect, is an annotation, or is refused. None of the first two is
// listed as ignored. Of regular expressions, what has another meaning in JavaScript is refused.
func TestKeywordsKnown(t *testing.T) {
	for _, name := range []string{"extends", "disallow", "divisibleBy", "propertyDependencies"} {
		_, err := Compile(t.Context(), fmt.Appendf(nil, `{"%s":{}}`, name), false)
		assert.EqualError(t, err, "#/"+name+": this keyword is not supported")
	}
	for _, name := range []string{"title", "description", "default", "examples", "$comment", "$schema", "deprecated",
		"readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema", "strict", "example", "$id",
		"id", "$anchor", "$vocabulary", "discriminator", "externalDocs", "xml", "$defs", "definitions", "then", "else",
		"additionalItems", "$dynamicAnchor", "$recursiveAnchor", "x-own"} {
		g, err := Compile(t.Context(), fmt.Appendf(nil, `{"type":"null","%s":{}}`, name), false)
		if assert.NoError(t, err, name) {
			assert.Empty(t, g.Ignored())
		}
	}
	for _, part := range []string{`\A`, `\z`, `\Q`, `\E`, `\C`, `\a`, `[[:alpha:]]`, `(?i)`, `(?m)`, `(?s)`, `(?U)`,
		`(?P<a>b)`, `(?-i)`} {
		raw, err := json.Marshal(obj{"pattern": "x" + part})
		require.NoError(t, err)
		_, err = Compile(t.Context(), raw, false)
		assert.ErrorContains(t, err, "#/pattern: ", part)
		raw, err = json.Marshal(obj{"pattern": "x" + strings.ReplaceAll(part, `\`, `\\`)}) // a backslash, then a letter
		require.NoError(t, err)
		if strings.HasPrefix(part, `\`) {
			_, err = Compile(t.Context(), raw, false)
			assert.NoError(t, err, part)
		}
	}
}

// TestCancelled: if the context ends, the error is its cause alone, and no statement about the schema.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	_, err := Compile(ctx, []byte(`{"pattern":"(a?){200}b{200}"}`), false)
	assert.Equal(t, why, err)
	_, err = Compile(ctx, []byte(`{"type":"null"}`), false)
	assert.NoError(t, err, "it was done before anybody asked")
}

// TestAccepted: keywords without effect, and rare forms.
func TestAccepted(t *testing.T) {
	for schema, value := range map[string]string{
		`{"title":"t","description":"d","default":1,"examples":[],"$comment":"c","deprecated":true,` +
			`"x-own":{},"type":"null"}`: `null`,
		`{"type":"string","if":{"format":"date"}}`:                                                           `"x"`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/y","type":"boolean"}`:    `true`,
		`{"definitions":{"a":{"const":"x"}},"$ref":"#/definitions/a"}`:                                       `"x"`,
		`{"properties":{"a":{"const":1}},"items":{"$ref":"#/properties/a"},"type":"array"}`:                  `[1, 1]`,
		`{"anyOf":[{"const":1},{"const":2}],"prefixItems":[{"$ref":"#/anyOf/1"}],"type":["array","number"]}`: `2`,
		`{"required":["z"]}`: `{"z":[true]}`,
		`{"required":["z"],"additionalProperties":{"const":1}}`: `{"z":1,"y":1}`,
		`{"pattern":""}`:        `"anything"`,
		`{"pattern":"^\\\\A$"}`: `"\\A"`,
		`{"type":"integer","multipleOf":1,"minimum":-3e0}`:                           `-3`,
		`{"enum":[1,2,3],"const":2.0}`:                                               `2`,
		`{"items":{"type":"string"},"uniqueItems":true,"maxItems":1,"type":"array"}`: `["a"]`,
		`{"type":"array","items":false,"uniqueItems":true}`:                          `[]`,
		`{"multipleOf":2.5,"minimum":1,"type":"integer"}`:                            `5`,
		`{"enum":["a","a",1.50]}`:                                                    `1.5`,
		`{"const":{"b":[1e2,"\u00e9\u0007"],` +
			`"a":null}}`: `{"b":[100,"é\u0007"],"a":null}`,
		`{"type":"object","properties":{"":{"const":1}},"additionalProperties":false}`: `{"":1}`,
		`{"$defs":{"unused":{"not":{}}},"type":"null"}`:                                `null`,
		`{"anyOf":[false,{"type":"null"}]}`:                                            `null`,
		`{"type":"array","items":false}`:                                               `[]`,
		`{"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":3}`:                 `2`,
		`{"type":"integer","minimum":99999999999999999999}`:                            `100000000000000000000`,
		`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],` +
			`"$defs":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`: `null`,
	} {
		t.Run(schema, func(t *testing.T) {
			assertValues(t, compiled(t, []byte(schema), false), true, value)
			assert.NoError(t, validator(t, []byte(schema))(value))
		})
	}
}

// seedsOfSchemas are the seeds of FuzzSchema.
var seedsOfSchemas = []string{
	`true`, `{"type":"object"}`, `{"anyOf":[{"$ref":"#"},{}]}`, `{"oneOf":[{"const":1},{"enum":["a",null]}]}`,
	`{"allOf":[{"properties":{"a":{"minimum":1.5}}},{"required":["a"]}]}`, `{"pattern":"^a{2,3}(b|c)*$","maxLength":5}`,
	`{"items":{"format":"date"},"minItems":2,"maxItems":3}`,
	`{"$defs":{"a":{"items":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}`,
	`{"type":"number","exclusiveMinimum":-1.25,"maximum":2}`, `{"prefixItems":[true,{"type":"null"}],"items":false}`,
}

// FuzzSchema: no schema causes a panic, or makes a grammar with dead ends; generated values are valid.
func FuzzSchema(f *testing.F) {
	for _, s := range seedsOfSchemas {
		f.Add(s)
	}
	for seed := range uint64(20) {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, 9))}
		_, raw := m.whole(2)
		f.Add(string(raw))
	}
	v := smallVocabulary(f)
	f.Fuzz(func(t *testing.T, schema string) {
		if len(schema) > 2000 {
			return
		}
		g, err := Compile(t.Context(), []byte(schema), false)
		if err != nil {
			var e *grammar.Error
			require.ErrorAs(t, err, &e)
			return
		}
		text, done := draw(rand.New(rand.NewPCG(1, 2)), v.matcher(g), v, 60)
		if done {
			require.True(t, json.Valid([]byte(text)), "%s: %s", schema, text)
		}
	})
}

// FuzzPattern: strings generated by a pattern match it with package regexp, and have the given length.
func FuzzPattern(f *testing.F) {
	for _, p := range []string{
		"a", "^a$", "^(a|b)+c{2,3}$", `\d+\.\w?`, "[^a-f]x*?", "^$", "a|^b|c$", `^\pL{1,3}$`, "(ab){2}", `"\\`,
		"^.{3}$", `[\x00-\x1f]`, "a**", "(|a)+", "[^\\s]", "x{0,3}y{2}", `\u00e9`, "日本?", "(^a)", "a$$",
	} {
		f.Add(p, uint8(0), uint8(9))
	}
	v := smallVocabulary(f)
	f.Fuzz(func(t *testing.T, pattern string, least, most uint8) {
		if len(pattern) > 40 || !utf8.ValidString(pattern) {
			return
		}
		raw, _ := json.Marshal(obj{
			"type": "string", "pattern": pattern, "minLength": least % 10, "maxLength": most % 20,
		})
		g, err := Compile(t.Context(), raw, false)
		if err != nil {
			return
		}
		re, err := regexp.Compile(pattern)
		if err != nil || regexp.MustCompile(`\[\^?\]|\\[sS]`).MatchString(pattern) {
			return // Go has another syntax, or other blanks: see regular.TestSpellings and TestBlanks
		}
		r := rand.New(rand.NewPCG(uint64(least), 2))
		for range 3 {
			text, done := draw(r, v.matcher(g), v, 100)
			if !done {
				continue
			}
			var s string
			require.NoError(t, json.Unmarshal([]byte(text), &s), text)
			require.True(t, pattern == "" || re.MatchString(s), "%q: %q", pattern, s)
			n := len([]rune(s))
			require.True(t, n >= int(least%10) && n <= int(most%20), "%q has %d characters: %s", s, n, raw)
		}
	})
}
