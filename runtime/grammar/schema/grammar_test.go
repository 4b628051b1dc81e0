package schema

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
)

// compiled is [Compile] without an error.
func compiled(t testing.TB, raw []byte, closed bool) *grammar.Grammar {
	t.Helper()
	g, err := Compile(t.Context(), raw, closed)
	require.NoError(t, err, "%s", raw)
	return g
}

// fits reports whether a text is a complete value of a grammar, and whether it is the prefix of one.
func fits(g *grammar.Grammar, text string) (whole, begins bool) {
	s := g.Next(g.Start(), []byte(text)...)
	return s != nil && s.Done(), s != nil
}

// assertValues checks that texts are values of a grammar, or that they are not.
func assertValues(t *testing.T, g *grammar.Grammar, want bool, texts ...string) {
	t.Helper()
	for _, text := range texts {
		whole, _ := fits(g, text)
		assert.Equal(t, want, whole, text)
	}
}

// schemaCase is a schema with texts that are its values, and texts that are not.
type schemaCase struct {
	schema  string
	yes, no []string
}

var schemasOfEachKind = []schemaCase{
	{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},` +
		`"required":["a"],"additionalProperties":false}`,
		[]string{`{"a":1}`, `{"a": 12, "b": "x"}`, `{"a":-3,"b":"é\n"}`},
		[]string{`{}`, `{"b":"x"}`, `{"a":1,}`, `{"a":1,"c":2}`, `{"a":01}`, `{ "a":1}`, `{"a":  1}`}},
	{`{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3}`,
		[]string{`[true]`, `[true,false]`, `[true, false, true]`}, []string{`[]`, `[true,true,true,true]`, `[1]`}},
	{`true`, []string{`null`, `{}`, `[]`, `[{"a":[1,2.5e3]}]`, `"x"`}, []string{``, `nul`, `{1:2}`}},
	{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"aé\""`}, []string{`"a"`, `"abcd"`, `ab`}},
	{`{"type":"string","pattern":"^[a-c]{2}$"}`, []string{`"ab"`}, []string{`"a"`, `"abc"`, `"ad"`}},
	{`{"type":"string","pattern":"b+"}`, []string{`"b"`, `"xby"`, `"bb"`}, []string{`"a"`, `""`}},
	{`{"enum":["a",1,null,{"x":[1,2]}]}`, []string{`"a"`, `1`, `null`, `{"x":[1,2]}`}, []string{`"b"`, `2`, `{}`}},
	{`{"enum":[1e2,1e500]}`, []string{`100`, `1e500`}, []string{`1e2`, `1`}},
	{`{"enum":[["a,b:c\\",1]]}`, []string{`["a,b:c\\",1]`, `["a,b:c\\", 1]`},
		[]string{`["a, b:c\\",1]`, `["a,b: c\\",1]`}},
	{`{"type":"integer","minimum":-5,"maximum":12}`,
		[]string{`-5`, `0`, `12`, `9`}, []string{`-6`, `13`, `-0`, `1.0`}},
	{`{"type":"number","minimum":0,"maximum":1}`, []string{`0`, `1`, `0.5`}, []string{`1.5`, `-0.5`, `2`}},
	{`{"type":"number","minimum":-1e308,"maximum":1e308}`, []string{`0`, `-1.5`, `1e5`}, []string{`01`}},
	{`{"type":"number","minimum":1e40,"maximum":1e50}`,
		[]string{"1" + strings.Repeat("0", 45)}, []string{`1`, `1e5`}},
	{`{"type":"number","minimum":-1e50,"maximum":-1e40}`,
		[]string{"-1" + strings.Repeat("0", 45)}, []string{`-1`, `1e5`}},
	{`{"type":"number","exclusiveMinimum":0.5,"maximum":3.25}`,
		[]string{`0.51`, `1.7777`, `3.25`, `3`}, []string{`0.5`, `3.26`, `0.50`}},
	{`{"$defs":{"n":{"type":"object","properties":{` +
		`"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},` +
		`"required":["v","next"],"additionalProperties":false}},"$ref":"#/$defs/n"}`,
		[]string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":null}}`},
		[]string{`{"v":1}`, `{"v":1,"next":1}`}},
	{`{"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},` +
		`{"properties":{"a":{"minimum":3},"b":true}}]}`,
		[]string{`{"a":3}`, `{"a":5,"b":[]}`, `{"a":5,"c":1}`}, []string{`{"a":2}`, `{}`, `{"b":1}`}},
	{`{"type":"array","prefixItems":[{"const":1},{"const":"x"}],"items":false}`,
		[]string{`[]`, `[1]`, `[1,"x"]`}, []string{`[1,"x",2]`, `["x"]`}},
	{`{"type":["string","null"]}`, []string{`"x"`, `null`}, []string{`1`}},
	{`{"type":"object","additionalProperties":{"type":"integer"}}`,
		[]string{`{}`, `{"a":1,"b":2}`}, []string{`{"a":"b"}`}},
	{`{"type":"object","properties":{"abc":{"type":"null"}},"additionalProperties":{"type":"integer"}}`,
		[]string{`{"ab":1}`, `{"abcd":1}`, `{"abc":null,"x":1}`, `{"":1}`}, []string{`{"abc":1}`, `{"x":null}`}},
	{`{"type":"string","format":"date"}`,
		[]string{`"2024-02-28"`, `"1999-12-31"`}, []string{`"2024-02-30"`, `"x"`}},
	{`{"oneOf":[` +
		`{"type":"object","properties":{"k":{"const":"a"}},"required":["k"],"additionalProperties":false},` +
		`{"type":"object","properties":{"k":{"const":"b"},"v":{"type":"null"}},` +
		`"required":["k","v"],"additionalProperties":false}]}`,
		[]string{`{"k":"a"}`, `{"k":"b","v":null}`}, []string{`{"k":"b"}`, `{"k":"a","v":null}`}},
}

func TestSchema(t *testing.T) {
	for _, c := range schemasOfEachKind {
		t.Run(c.schema, func(t *testing.T) {
			g := compiled(t, []byte(c.schema), false)
			assertValues(t, g, true, c.yes...)
			assertValues(t, g, false, c.no...)
		})
	}
}

// TestMultiples: of the numbers within bounds, the multiples of a step are accepted, with as many decimal places as the
// step has.
func TestMultiples(t *testing.T) {
	racing.Spare(t)
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		step := big.NewRat(1+r.Int64N(40), []int64{1, 2, 10, 40}[r.IntN(4)])
		digits, _ := step.FloatPrec()
		multiple := fmt.Sprintf(`,"multipleOf":%s`, step.FloatString(digits))
		if r.IntN(2) == 0 { // multiples of two steps are those of the least common one
			other := big.NewRat(1+r.Int64N(12), []int64{1, 2, 10, 40}[r.IntN(4)])
			places, _ := other.FloatPrec()
			multiple += fmt.Sprintf(`,"allOf":[{"multipleOf":%s}]`, other.FloatString(places))
			one := step
			for !new(big.Rat).Quo(step, other).IsInt() {
				step = new(big.Rat).Add(step, one)
			}
			digits, _ = step.FloatPrec()
		}
		least, most := r.Int64N(200)-100, r.Int64N(200)-50
		schema := fmt.Sprintf(`{"type":"number","minimum":%d,"maximum":%d%s}`, least, most, multiple)
		g, err := Compile(t.Context(), []byte(schema), false)
		some := false
		scale := int64(math.Pow10(digits))
		for n := (least - 3) * scale; n <= (most+3)*scale; n++ {
			v := big.NewRat(n, scale)
			want := new(big.Rat).Quo(v, step).IsInt() && n >= least*scale && n <= most*scale
			if some = some || want; err == nil {
				whole, _ := fits(g, v.FloatString(digits))
				require.Equal(t, want, whole, "%s: %s", schema, v.FloatString(digits))
			}
		}
		require.Equal(t, some, err == nil, "%s: %v", schema, err)
	}
	for schema, value := range map[string]string{
		`{"type":"integer","multipleOf":1000}`:                                   "-123456789012000",
		`{"multipleOf":3.5,"type":"integer"}`:                                    "14",
		`{"multipleOf":7.5,"type":"integer"}`:                                    "30",
		`{"allOf":[{"multipleOf":4},{"multipleOf":6}],"type":"number"}`:          "24",
		`{"allOf":[{"multipleOf":0.5},{"multipleOf":0.75}],"type":"number"}`:     "4.5",
		`{"allOf":[{"multipleOf":2},{"minimum":3}],"type":"number"}`:             "4",
		`{"allOf":[{"minimum":3},{"multipleOf":2}],"type":"number"}`:             "4",
		`{"multipleOf":0.25,"exclusiveMinimum":0,"maximum":0.3,"type":"number"}`: "0.25",
	} {
		t.Run(schema, func(t *testing.T) {
			g := compiled(t, []byte(schema), false)
			assertValues(t, g, true, value)
			assertValues(t, g, false, strings.TrimSuffix(value, value[len(value)-1:])+"1")
		})
	}
}

// TestClosed: objects that list properties have no other properties, unless the schema mentions others; all statements
// about an object count together. A closed grammar accepts nothing that the open one does not.
func TestClosed(t *testing.T) {
	for _, c := range []struct {
		schema         string
		yes, notClosed []string // values of the schema; values that only the open grammar accepts
	}{
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, []string{`{}`, `{"a":1}`},
			[]string{`{"a":1,"b":2}`}},
		{`{"type":"object","properties":{}}`, []string{`{}`}, []string{`{"b":2}`}},
		{`{"type":"object"}`, []string{`{}`, `{"b":2}`}, nil},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":true}`, []string{`{"a":1,"b":2}`}, nil},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"null"}}`, []string{`{"b":null}`}, nil},
		{`{"type":"object","properties":{"a":{}},"patternProperties":{"^x":{}}}`, []string{`{"a":1,"x":2,"x1":3}`},
			[]string{`{"a":1,"b":2}`}},
		{`{"type":"object","properties":{"a":{}},"required":["z"]}`, []string{`{"a":1,"z":2}`},
			[]string{`{"z":2,"b":1}`}},
		{`{"type":"object","allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, []string{`{"a":1,"b":2}`},
			[]string{`{"c":1}`}},
		{`{"type":"object","properties":{"a":{}},` +
			`"anyOf":[{"properties":{"b":{}},"required":["b"]},{"required":["a"]}]}`,
			[]string{`{"a":1,"b":2}`, `{"b":2}`, `{"a":1}`}, []string{`{"a":1,"c":2}`}},
		{`{"type":"array","items":{"type":"object","properties":{"a":{"$ref":"#"}}}}`, []string{`[{"a":[{}]}]`},
			[]string{`[{"a":[{"b":1}]}]`}},
	} {
		t.Run(c.schema, func(t *testing.T) {
			open, closed := compiled(t, []byte(c.schema), false), compiled(t, []byte(c.schema), true)
			assertValues(t, open, true, append(c.yes, c.notClosed...)...)
			assertValues(t, closed, true, c.yes...)
			assertValues(t, closed, false, c.notClosed...)
		})
	}
}

// TestUnique: of the lists over some values, those with each value at most once in the order of the schema are
// accepted.
func TestUnique(t *testing.T) {
	for _, c := range []struct {
		items       string
		values      []string
		least, most int
	}{
		{`{"enum":["b","a",3,null]}`, []string{`"b"`, `"a"`, `3`, `null`}, 0, 4},
		{`{"enum":["b","a",3,"b"]}`, []string{`"b"`, `"a"`, `3`}, 1, 2},
		{`{"type":["boolean","null"]}`, []string{`true`, `false`, `null`}, 2, 9},
		{`{"enum":["b","a",3,null],"type":"string"}`, []string{`"b"`, `"a"`, `3`, `null`}, 0, 3},
		{`{"$ref":"#/items/$defs/c","$defs":{"c":{"enum":["b","a",3]}}}`, []string{`"b"`, `"a"`, `3`}, 0, 3},
		{`{"anyOf":[{"const":"b"},{"enum":["a","b"]},{"type":"null"}]}`, []string{`"b"`, `"a"`, `null`}, 1, 3},
	} {
		t.Run(c.items, func(t *testing.T) {
			schema := fmt.Sprintf(`{"type":"array","items":%s,"uniqueItems":true,"minItems":%d,"maxItems":%d}`,
				c.items, c.least, c.most)
			g := compiled(t, []byte(schema), false)
			valid := validator(t, []byte(schema))
			allowed := 0
			var try func(list []int)
			try = func(list []int) {
				texts := make([]string, len(list))
				for i, v := range list {
					texts[i] = c.values[v]
				}
				text := "[" + strings.Join(texts, ",") + "]"
				want := slices.IsSorted(list) && valid(text) == nil
				whole, _ := fits(g, text)
				require.Equal(t, want, whole, text)
				if whole {
					allowed++
				}
				for v := range c.values {
					if len(list) < 4 {
						try(append(slices.Clone(list), v))
					}
				}
			}
			try(nil)
			assert.Greater(t, allowed, 2)
		})
	}
}
