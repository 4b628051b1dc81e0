package schema

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// callOf returns the schema of calls of f with some arguments.
func callOf(arguments string) []byte {
	return []byte(`{"type":"object","properties":{"name":{"const":"f"},"arguments":` + arguments +
		`},"required":["name","arguments"],"additionalProperties":false}`)
}

func compiledCall(t testing.TB, raw []byte) *grammar.Grammar {
	t.Helper()
	g, err := CompileCall(t.Context(), raw)
	require.NoError(t, err, "%s", raw)
	return g
}

// inTags writes a call with parameters, each a name and a value.
func inTags(name string, parameters ...string) string {
	text := FunctionTag + name + TagEnd
	for i := 0; i+1 < len(parameters); i += 2 {
		text += ParameterTag + parameters[i] + TagEnd + parameters[i+1] + ValueEnd
	}
	return text + CallEnd
}

// taggedCase is a schema of arguments with parameters, as names and values, that fit or do not.
type taggedCase struct {
	name, schema string
	yes, no      [][]string
}

var taggedCases = []taggedCase{
	{"no parameters", `{"type":"object","properties":{}}`, [][]string{{}}, [][]string{{"a", "1"}}},
	{"required and optional", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},` +
		`"required":["a"]}`,
		[][]string{{"a", "x"}, {"a", ""}, {"a", "x\n\n<y", "b", "-7"}, {"a", "\"q\" \\n </parameter"}, {"a", "\n"}},
		[][]string{{}, {"b", "1"}, {"a", "x", "b", "x"}, {"a", "x", "b", "1.5"}, {"a", "x", "b", " 1"},
			{"b", "1", "a", "x"}, {"a", "x</parameter>"}, {"a", "x", "a", "y"}, {"c", "x"}}},
	{"types", `{"type":"object","properties":{"a":{"type":["boolean","null"]},"b":{"type":"array"},` +
		`"c":{"type":"object","properties":{"d":{"type":"string"}}},"e":{}}}`,
		[][]string{{"a", "true"}, {"a", "False"}, {"a", "None"}, {"a", "null"}, {"b", `[1, "x"]`},
			{"c", `{"d": "x\n"}`}, {"e", "anything"}, {"e", "[1"}, {}},
		[][]string{{"a", "x"}, {"a", `"true"`}, {"a", "TRUE"}, {"b", "[True]"}, {"c", `{"d": x}`}, {"c", `{"e": 1}`}}},
	{"listed", `{"type":"object","properties":{"a":{"enum":["x y",12,null,true,"12"]},"b":{"const":"\"\n"}}}`,
		[][]string{{"a", "x y"}, {"a", "12"}, {"a", "null"}, {"a", "None"}, {"a", "True"}, {"b", "\"\n"}},
		[][]string{{"a", "x"}, {"a", "False"}, {"a", `"x y"`}, {"b", `"\n`}}},
	{"lengths", `{"type":"object","properties":{"a":{"type":"string","minLength":2,"maxLength":3},` +
		`"b":{"type":"string","minLength":1},"c":{"type":"string","minLength":3}}}`,
		[][]string{{"a", "é日"}, {"a", "\n\n\n"}, {"a", "</p"}, {"b", "x"}, {"b", "</parameter"}, {"c", "</\n"}},
		[][]string{{"a", "x"}, {"a", "abcd"}, {"b", ""}, {"c", "xy"}}},
	{"patterns", `{"type":"object","properties":{"a":{"type":"string","pattern":"^[a-c\"\\n]{2,3}$"},` +
		`"b":{"type":"string","format":"date"},"c":{"type":"string","pattern":"e"}}}`,
		[][]string{{"a", "ab"}, {"a", "\"\n\""}, {"b", "2026-11-30"}, {"c", "</parameter"}},
		[][]string{{"a", "a"}, {"a", "abcd"}, {"b", "2026-11-31"}, {"c", "</parameter>"}, {"c", "x"}}},
	{"other names", `{"type":"object","properties":{"a>":{"type":"null"}},"additionalProperties":{"type":"integer"}}`,
		[][]string{{"b", "1"}, {"b c", "1", "\"é\\", "2"}, {}}, [][]string{{"", "1"}, {"a>", "null"}, {"b", "x"}}},
	{"patterns of names", `{"type":"object","patternProperties":{"^n_":{"type":"integer"}},"minProperties":2}`,
		[][]string{{"n_a", "1", "b", "x"}}, [][]string{{"n_a", "1"}, {"n_a", "x", "b", "x"}}},
	{"alternatives", `{"anyOf":[{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]},` +
		`{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]}`,
		[][]string{{"a", "null"}, {"b", "null"}}, [][]string{{}, {"a", "x"}}},
	{"itself", `{"type":"object","properties":{"a":{"$ref":"#/properties/arguments"}}}`,
		[][]string{{"a", `{"a": {}}`}, {}}, [][]string{{"a", inTags("f")}, {"a", "x"}}},
}

// TestCallsInTags: the grammar of a call has what fits the schema of its arguments, in one spelling.
func TestCallsInTags(t *testing.T) {
	for _, c := range taggedCases {
		t.Run(c.name, func(t *testing.T) {
			g := compiledCall(t, callOf(c.schema))
			for _, parameters := range c.yes {
				assertValues(t, g, true, inTags("f", parameters...))
			}
			for _, parameters := range c.no {
				assertValues(t, g, false, inTags("f", parameters...))
			}
			whole := inTags("f", c.yes[0]...)
			assertValues(t, g, false, whole+"\n", whole[:len(whole)-1], " "+whole,
				strings.Replace(whole, "=f", "=g", 1), strings.Replace(whole, TagEnd, ">", 1))
		})
	}
}

// TestSeveralFunctions: a call has the arguments of its function.
func TestSeveralFunctions(t *testing.T) {
	g := compiledCall(t, []byte(`{"anyOf":[`+string(callOf(`{"type":"object","properties":{"a":{"type":"null"}}}`))+`,`+
		strings.Replace(string(callOf(`{"type":"object","properties":{"b":{"type":"null"}}}`)), `"f"`, `"fg"`, 1)+`]}`))
	assertValues(t, g, true, inTags("f", "a", "null"), inTags("fg", "b", "null"), inTags("f"))
	assertValues(t, g, false, inTags("f", "b", "null"), inTags("fg", "a", "null"), inTags("g"))
}

// TestRefusedCalls: schemas of arguments that tags cannot hold.
func TestRefusedCalls(t *testing.T) {
	for name, c := range map[string]struct{ schema, says string }{
		"listed objects": {`{"const":{"a":1}}`, "not supported as arguments in tags"},
		"no object":      {`{"type":"string"}`, "no value fits"},
		"a name":         {`{"type":"object","properties":{"a>":{}},"required":["a>"]}`, `hold the name "a>"`},
		"a string": {`{"type":"object","properties":{"a":{"const":"</parameter>"}},"required":["a"],` +
			`"additionalProperties":false}`,
			"hold the end of their own"},
		"a wrong keyword": {`{"type":"object","properties":{"a":{"type":"text"}}}`, "is no type"},
	} {
		_, err := CompileCall(t.Context(), callOf(c.schema))
		assert.ErrorContains(t, err, c.says, name)
	}
}

// TestArguments: a text is a string unless it can be another value.
func TestArguments(t *testing.T) {
	a, err := ReadArguments(t.Context(), callOf(`{"type":"object","properties":{"s":{"type":"string"},"b":{
		"type":["boolean","null"]},"n":{"anyOf":[{"type":"integer","minimum":0},{"type":"string"}]},"any":{},
		"e":{"enum":["a","1",2]}},"patternProperties":{"^p":{"type":"array"}}}`))
	require.NoError(t, err)
	for _, c := range [][3]string{
		{"s", "12", `"12"`}, {"s", "true", `"true"`}, {"s", "", `""`},
		{"s", "a\"\\\n\u2028", `"a\"\\\n` + "\u2028" + `"`},
		{"b", "True", "true"}, {"b", "false", "false"}, {"b", "None", "null"}, {"n", "12", "12"}, {"n", "-1", `"-1"`},
		{"n", "1.5", `"1.5"`}, {"n", "", `""`}, {"n", "None", `"None"`},
		{"any", "[1, 2]", "[1, 2]"}, {"any", "x", `"x"`},
		{"any", `"x"`, `"\"x\""`}, {"any", "None", "null"}, {"e", "2", "2"}, {"e", "1", `"1"`}, {"p1", "[]", "[]"},
	} {
		got, err := a.Value(c[0], c[1])
		require.NoError(t, err)
		assert.Equal(t, c[2], string(got), "%s: %q", c[0], c[1])
	}
	for name, want := range map[string]bool{"s": true, "b": false, "n": false, "any": false, "e": false, "p1": false} {
		is, err := a.IsText(name)
		require.NoError(t, err)
		assert.Equal(t, want, is, name)
	}
	_, err = ReadArguments(t.Context(), []byte(`{"type":1}`))
	assert.Error(t, err)
}

var (
	wholeCall = regexp.MustCompile(`(?s)^<function=f>\n((?:<parameter=[^>\n]+>\n.*?\n</parameter>\n)*)</function>\n$`)
	parameter = regexp.MustCompile(`(?s)<parameter=([^>\n]+)>\n(.*?)\n</parameter>\n`)
)

// argumentsOf returns the arguments of a call in JSON.
func argumentsOf(t *testing.T, a *Arguments, text string) string {
	t.Helper()
	m := wholeCall.FindStringSubmatch(text)
	require.NotNil(t, m, "%q", text)
	var all []string
	for _, p := range parameter.FindAllStringSubmatch(m[1], -1) {
		value, err := a.Value(p[1], p[2])
		require.NoError(t, err)
		require.True(t, json.Valid(value), "%s", value)
		all = append(all, regular.Quote(p[1])+":"+string(value))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// TestRandomCallsValidate: for random schemas and a model that samples any allowed token, the arguments of each call
// that ends are valid for another implementation.
func TestRandomCallsValidate(t *testing.T) {
	racing.Spare(t)
	v := smallVocabulary(t)
	m := &maker{Rand: rand.New(rand.NewPCG(3, 5))}
	ended := 0
	for range 300 {
		m.defs = obj{}
		whole := obj{"type": "object", "properties": obj{"name": obj{"const": "f"}, "arguments": m.object(3)},
			"required": []string{"name", "arguments"}, "$defs": m.defs}
		raw, err := json.Marshal(whole)
		require.NoError(t, err)
		g := compiledCall(t, raw)
		valid, matcher := validator(t, raw), v.matcher(g)
		a, err := ReadArguments(t.Context(), raw)
		require.NoError(t, err)
		for range 5 {
			text := drawCall(m.Rand, g, matcher, v)
			ended++
			arguments := argumentsOf(t, a, text)
			require.NoError(t, valid(`{"name":"f","arguments":`+arguments+`}`), "%s\n%s", raw, text)
		}
	}
	assert.Equal(t, 1500, ended)
}

// TestMasksOfCalls: along random calls a token is in the mask exactly if it may follow.
func TestMasksOfCalls(t *testing.T) {
	racing.Spare(t)
	v := smallVocabulary(t)
	r := rand.New(rand.NewPCG(4, 5))
	for _, c := range taggedCases {
		g := compiledCall(t, callOf(c.schema))
		m := v.matcher(g)
		for range 10 {
			s := m.Start()
			var mask grammar.Mask
			for _, b := range []byte(drawCall(r, g, m, v)) {
				mask = m.Mask(mask, s)
				for id := range int32(len(v.tokens)) {
					require.Equal(t, m.Allows(s, id), mask.Has(id), "%s: %q", c.name, v.tokens[id])
				}
				s = g.Next(s, b)
			}
		}
	}
}

// drawCall samples some allowed tokens, and then completes the call in the shortest way.
func drawCall(r *rand.Rand, g *grammar.Grammar, m *grammar.Matcher, v *vocabulary) string {
	text, done := draw(r, m, v, 30+r.IntN(60))
	if done {
		return text
	}
	s := g.Next(g.Start(), []byte(text)...)
	for s != nil && !s.Done() { // characters first: a token may have ended within one
		rest := g.Shortest(s)
		text, s = text+string(rest), g.Next(s, rest...)
	}
	return text
}
