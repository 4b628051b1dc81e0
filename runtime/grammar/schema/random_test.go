package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// obj is a schema or a value under construction.
type obj = map[string]any

// maker makes random schemas.
type maker struct {
	*rand.Rand
	plain bool // only what the reference can read
	defs  obj
}

func (m *maker) one(of ...string) string { return of[m.IntN(len(of))] }

// schema returns a random schema with a max depth.
func (m *maker) schema(depth int) obj {
	if depth <= 0 {
		return m.leaf()
	}
	switch m.IntN(10) {
	case 0, 1, 2:
		return m.object(depth)
	case 3, 4:
		return m.array(depth)
	case 5:
		return obj{"anyOf": []any{m.schema(depth - 1), m.schema(depth - 1)}}
	case 6:
		name := fmt.Sprint("d", len(m.defs))
		m.defs[name] = obj{"type": "null"} // until it is made: it may refer to itself
		m.defs[name] = obj{
			"type": "object", "properties": obj{"v": m.schema(depth - 1), "more": obj{"anyOf": []any{
				obj{"type": "null"}, obj{"type": "null"}, obj{"$ref": "#/$defs/" + name}}}},
			"required": []string{"more"}, "additionalProperties": false,
		}
		return obj{"$ref": "#/$defs/" + name}
	case 7:
		if !m.plain {
			return m.combined(depth)
		}
	}
	return m.leaf()
}

func (m *maker) object(depth int) obj {
	props, required := obj{}, []string{}
	for range m.IntN(4) {
		name := m.one("a", "ab", "b", "c d", `q"`, "é", "n/m~")
		props[name] = m.schema(depth - 1)
		if m.IntN(2) == 0 && !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	o := obj{"type": "object", "properties": props, "required": required}
	switch m.IntN(4) {
	case 0:
		o["additionalProperties"] = m.leaf()
	case 1, 2:
		o["additionalProperties"] = false
	}
	return o
}

func (m *maker) array(depth int) obj {
	a, least := obj{"type": "array", "items": m.schema(depth - 1)}, m.IntN(3)
	if m.IntN(2) == 0 {
		a["minItems"] = least
	}
	if m.IntN(3) > 0 {
		a["maxItems"] = least + m.IntN(3)
	}
	if m.IntN(3) == 0 {
		a["prefixItems"] = []any{m.leaf(), m.leaf()}[:1+m.IntN(2)]
	}
	if m.IntN(5) == 0 {
		a["items"] = false
		delete(a, "minItems")
	}
	return a
}

func (m *maker) leaf() obj {
	switch m.IntN(7) {
	case 0:
		return obj{"type": m.one("null", "boolean")}
	case 1:
		return obj{"enum": []any{"x", "xy", 12, 120, nil, true, []any{1, "a"}}[m.IntN(4):]}
	case 2:
		return obj{"const": m.one("k", "", `"`, "日本", "a\nb")}
	case 3:
		least := m.IntN(3)
		return obj{"type": "string", "minLength": least, "maxLength": least + m.IntN(3)}
	case 4:
		low := m.IntN(300) - 150
		return obj{"type": "integer", "minimum": low, "maximum": low + m.IntN(200)}
	case 5:
		if !m.plain {
			return m.fine()
		}
	}
	return obj{"type": []string{m.one("string", "null"), "boolean"}, "maxLength": 2}
}

// fine returns leaves that the reference cannot read.
func (m *maker) fine() obj {
	switch m.IntN(8) {
	case 6:
		return obj{"type": m.one("number", "integer"), "multipleOf": m.one0(1, 3, 7, 25, 0.5, 1.25),
			"minimum": m.one0(-90, 0, 26), "maximum": m.one0(99, 1000.5)}
	case 7:
		return obj{"type": "array", "items": obj{"enum": []any{"a", 1, nil, true}[:2+m.IntN(3)]}, "uniqueItems": true,
			"minItems": m.IntN(3), "maxItems": 2 + m.IntN(3)}
	case 0:
		return obj{"type": "string", "format": m.one(
			"date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri", "duration", "regex")}
	case 1:
		return obj{"type": "string", "pattern": m.one(
			"^[a-z]{2,5}$", "a+b?", "^(x|yy)*$", `^\d{3}-\d{2}$`, `^[^"]{1,3}$`, "^.$|z")}
	case 2:
		return obj{"type": "string", "pattern": m.one("^[a-c]+$", "b"), "minLength": 2, "maxLength": 4}
	case 3:
		return obj{"type": "number", "minimum": m.one0(-2.5, 0, 0.25, 3), "maximum": m.one0(3.5, 4, 12.125)}
	case 4:
		return obj{"type": "number", "exclusiveMinimum": m.one0(-7, 0, 0.5), "exclusiveMaximum": m.one0(1, 12.5)}
	}
	return obj{"type": m.one("number", "integer"), m.one("minimum", "maximum"): m.one0(-100.5, 0, 17, 1e6)}
}

func (m *maker) one0(of ...float64) float64 { return of[m.IntN(len(of))] }

// combined returns schemas with allOf and oneOf.
func (m *maker) combined(depth int) obj {
	if m.IntN(2) == 0 {
		return obj{"allOf": []any{
			obj{"type": "object", "properties": obj{
				"a": obj{"type": "integer", "minimum": 3}, "b": m.schema(depth - 1),
			}},
			obj{"properties": obj{"a": obj{"type": "integer", "maximum": 9}}, "required": []string{"a"}},
		}, "additionalProperties": true}
	}
	tagged := func(tag string) obj {
		return obj{"type": "object", "properties": obj{"tag": obj{"const": tag}, "v": m.schema(depth - 1)},
			"required": []string{"tag", "v"}, "additionalProperties": false}
	}
	return obj{"oneOf": []any{tagged("one"), tagged("two"), obj{"type": "null"}}}
}

// whole returns a schema with all of its definitions.
func (m *maker) whole(depth int) (obj, []byte) {
	m.defs = obj{}
	s := m.schema(depth)
	if len(m.defs) > 0 {
		s["$defs"] = m.defs
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return s, raw
}

// validator returns a check of values by another implementation of JSON schema.
func validator(t testing.TB, raw []byte) func(text string) error {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	require.NoError(t, err)
	require.NoError(t, c.AddResource("s.json", doc))
	s, err := c.Compile("s.json")
	require.NoError(t, err, "%s", raw)
	return func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = s.Validate(v)
		}
		return err
	}
}

const endToken = 0

// vocabulary holds a vocabulary and its tokens.
type vocabulary struct {
	*grammar.Vocabulary
	tokens []string
}

func (v *vocabulary) matcher(g *grammar.Grammar) *grammar.Matcher {
	return grammar.NewMatcher(g, v.Vocabulary)
}

// smallVocabulary has an end token, all bytes, and pieces of JSON and of the schemas of maker.
func smallVocabulary(t testing.TB) *vocabulary {
	tokens := []string{""}
	for b := range 256 {
		tokens = append(tokens, string([]byte{byte(b)}))
	}
	tokens = append(tokens,
		`{"`, `":`, `": "`, `",`, `", "`, `"}`, `"}]`, `}}`, `]`, `],`, `, `, `: `, `[[`, `{"a`, `a":`,
		"ab", "true", "fal", "null", "12", "120", "0,", "1}", "x", "xy", `xy"`, "é", "日", "本\"", "\xe6\x97", "\xa5",
		"k\"}", "-1", ".5", "e1", `\n`, `\"`, `\\`, "aa", "aaa", "aaaa", "zz", "more", `"more": null`, "-", "19",
		"00", "T1", " ", "  ", "\n", `""`, `"a`, "", "")
	v, err := grammar.NewVocabulary(len(tokens), func(id int32) []byte { return []byte(tokens[id]) },
		func(id int32) bool { return id == endToken })
	require.NoError(t, err)
	return &vocabulary{v, tokens}
}

// TestRandomSchemasValidate: for two hundred random schemas and a model that samples any allowed token, each answer
// that ends by itself is valid for another implementation, and most answers end.
func TestRandomSchemasValidate(t *testing.T) {
	racing.Spare(t)
	v := smallVocabulary(t)
	m := &maker{Rand: rand.New(rand.NewPCG(1, 2))}
	ended, answers := 0, 0
	for range 200 {
		_, raw := m.whole(3)
		g := compiled(t, raw, false)
		valid, matcher := validator(t, raw), v.matcher(g)
		for range 5 {
			answers++
			text, done := draw(m.Rand, matcher, v, 300)
			if !done {
				continue
			}
			ended++
			require.NoError(t, valid(text), "%s\n%s", raw, text)
		}
	}
	t.Logf("%d of %d answers ended by themselves", ended, answers)
	assert.Greater(t, ended, answers*3/4)
}

// draw samples allowed tokens until the value is complete, and reports whether it is.
func draw(r *rand.Rand, m *grammar.Matcher, v *vocabulary, maxTokens int) (text string, done bool) {
	var mask grammar.Mask
	s, b := m.Start(), []byte(nil)
	for range maxTokens {
		mask = m.Mask(mask, s)
		var can []int32
		for id := range int32(len(v.tokens)) {
			if mask.Has(id) {
				can = append(can, id)
			}
		}
		if len(can) == 0 {
			return "nothing may follow " + string(b), true
		}
		id := can[r.IntN(len(can))]
		if id == endToken {
			return string(b), true
		}
		b = append(b, v.tokens[id]...)
		if s = m.Next(s, id); s == nil {
			return "a token of the mask may not follow " + string(b), true
		}
	}
	return string(b), false
}

// reference parses texts by a schema directly. It computes where a value that starts at some place can end, and whether
// all of the text can be the prefix of a value.
type reference struct {
	defs map[string]any
	text string
}

// ends is a set of places in the text, and whether the end of the text was reached.
type ends struct {
	at   map[int]bool
	open bool
}

func (e *ends) add(o ends) {
	for p := range o.at {
		e.at[p] = true
	}
	e.open = e.open || o.open
}

func none() ends { return ends{at: map[int]bool{}} }

// then continues parsing from all ends.
func (e ends) then(read func(at int) ends) ends {
	out := none()
	out.open = e.open
	for p := range e.at {
		out.add(read(p))
	}
	return out
}

// lit parses a literal text.
func (r *reference) lit(at int, want string) ends {
	e := none()
	rest := r.text[at:]
	switch {
	case strings.HasPrefix(rest, want):
		e.at[at+len(want)] = true
	case strings.HasPrefix(want, rest):
		e.open = true
	}
	return e
}

// listed parses a value of an enum, with or without a space after its commas and colons.
func (r *reference) listed(at int, value string) ends {
	e := none()
	e.at[at] = true
	parts := strings.SplitAfter(value, ",") // no string here contains one
	for i, part := range parts {
		e = e.then(func(at int) ends {
			if i+1 < len(parts) {
				return r.sep(at, part)
			}
			return r.lit(at, part)
		})
	}
	return e
}

// sep parses a text and an optional space.
func (r *reference) sep(at int, want string) ends {
	e := r.lit(at, want)
	e.add(r.lit(at, want+" "))
	return e
}

func (r *reference) value(at int, schema any) ends {
	if schema == true {
		panic("not plain")
	}
	e := none()
	s, ok := schema.(obj)
	if !ok {
		return e // false
	}
	if ref, ok := s["$ref"].(string); ok {
		return r.value(at, r.defs[strings.TrimPrefix(ref, "#/$defs/")])
	}
	for _, key := range []string{"anyOf", "enum"} {
		list, ok := s[key].([]any)
		for _, o := range list {
			if key == "enum" {
				b, _ := json.Marshal(o)
				e.add(r.listed(at, string(b)))
			} else {
				e.add(r.value(at, o))
			}
		}
		if ok {
			return e
		}
	}
	if c, ok := s["const"].(string); ok {
		return r.lit(at, regular.Quote(c))
	}
	kinds, _ := s["type"].([]any)
	if k, ok := s["type"].(string); ok {
		kinds = []any{k}
	}
	for _, k := range kinds {
		e.add(r.kind(at, k.(string), s))
	}
	return e
}

func (r *reference) kind(at int, kind string, s obj) ends {
	e := none()
	switch kind {
	case "null":
		return r.lit(at, "null")
	case "boolean":
		e.add(r.lit(at, "true"))
		e.add(r.lit(at, "false"))
	case "integer":
		for i := int(s["minimum"].(float64)); i <= int(s["maximum"].(float64)); i++ {
			e.add(r.lit(at, fmt.Sprint(i)))
		}
	case "string":
		least, _ := s["minLength"].(float64)
		maxTokens, bounded := s["maxLength"].(float64)
		if !bounded {
			maxTokens = 1e9
		}
		return r.lit(at, `"`).then(func(at int) ends { return r.chars(at, int(least), int(maxTokens), nil) })
	case "array":
		return r.lit(at, "[").then(func(at int) ends { return r.items(at, s, 0) })
	case "object":
		return r.object(at, s)
	}
	return e
}

// chars parses the characters of a string up to its end.
func (r *reference) chars(at, least, maxTokens int, not []string) ends {
	e, begin := none(), at
	for n := 0; ; n++ {
		if n >= least {
			taken := false
			for _, name := range not {
				taken = taken || regular.Quote(name) == `"`+r.text[begin:at]+`"`
			}
			if !taken {
				e.add(r.lit(at, `"`))
			}
		}
		if n == maxTokens || at == len(r.text) {
			e.open = e.open || at == len(r.text)
			return e
		}
		size := charSize(r.text[at:])
		if size == 0 {
			e.open = true
		}
		if size <= 0 {
			return e
		}
		at += size
	}
}

// charSize returns the length of the first JSON-encoded character of text; 0 for an incomplete one, -1 for an invalid
// one.
func charSize(text string) int {
	if text[0] == '\\' {
		for c := rune(0); c < 0x60; c++ {
			q := regular.Quote(string(c))
			switch e := q[1 : len(q)-1]; {
			case e[0] != '\\':
			case strings.HasPrefix(text, e):
				return len(e)
			case strings.HasPrefix(e, text):
				return 0
			}
		}
		return -1
	}
	switch c, size := utf8.DecodeRuneInString(text); {
	case c == '"' || c < 0x20:
		return -1
	case c != utf8.RuneError || size == 3:
		return size
	case !utf8.FullRuneInString(text):
		return 0
	}
	return -1
}

func (r *reference) items(at int, s obj, i int) ends {
	e := none()
	least, _ := s["minItems"].(float64)
	maxTokens, bounded := s["maxItems"].(float64)
	if i >= int(least) {
		e.add(r.lit(at, "]"))
	}
	if bounded && i >= int(maxTokens) {
		return e
	}
	item := s["items"]
	if prefix, _ := s["prefixItems"].([]any); i < len(prefix) {
		item = prefix[i]
	}
	if item == false {
		return e
	}
	begin := none()
	if begin.at[at] = true; i > 0 {
		begin = r.sep(at, ",")
	}
	e.add(begin.then(func(at int) ends { return r.value(at, item) }).then(func(at int) ends {
		if at == len(r.text) {
			o := none()
			o.open = true
			return o
		}
		return r.items(at, s, i+1)
	}))
	return e
}

// object parses an object with the properties of a schema sorted by name, as obj is marshalled.
func (r *reference) object(at int, s obj) ends {
	props, _ := s["properties"].(obj)
	var names []string
	for _, n := range []string{"a", "ab", "b", "c d", "more", "n/m~", `q"`, "v", "é"} { // in the order of encoding/json
		if props[n] != nil {
			names = append(names, n)
		}
	}
	required := map[string]bool{}
	list, _ := s["required"].([]any)
	for _, n := range list {
		required[n.(string)] = true
	}
	additional, named := s["additionalProperties"]
	var from func(at, i int, some bool) ends
	from = func(at, i int, some bool) ends {
		begin := none()
		if begin.at[at] = true; some {
			begin = r.sep(at, ",")
		}
		property := func(key func(at int) ends, value any, next int) ends {
			return begin.then(key).then(func(at int) ends { return r.sep(at, ":") }).
				then(func(at int) ends { return r.value(at, value) }).
				then(func(at int) ends { return from(at, next, true) })
		}
		if i < len(names) {
			n := names[i]
			e := property(func(at int) ends { return r.lit(at, regular.Quote(n)) }, props[n], i+1)
			if !required[n] {
				e.add(from(at, i+1, some))
			}
			return e
		}
		e := r.lit(at, "}")
		if at == len(r.text) || named && additional == false {
			e.open = e.open || at == len(r.text)
			return e
		}
		e.add(property(func(at int) ends {
			return r.lit(at, `"`).then(func(at int) ends { return r.chars(at, 0, 1e9, names) })
		}, additional, i))
		return e
	}
	return r.lit(at, "{").then(func(at int) ends { return from(at, 0, false) })
}

// of reports whether a text is a complete value, and whether it is a value or the prefix of one.
func (r *reference) of(schema any, text string) (whole, begins bool) {
	r.text = text
	e := r.value(0, schema)
	return e.at[len(text)], e.open || e.at[len(text)]
}

// TestMaskIsTheReference: along random answers a token is in the mask exactly if the text with it is the prefix of a
// value, and the end token exactly if the text is a value.
func TestMaskIsTheReference(t *testing.T) {
	racing.Spare(t)
	v := smallVocabulary(t)
	steps := 0
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		steps += checkMasks(t, v, seed, 25)
	}
	t.Logf("%d masks", steps)
}

func checkMasks(t testing.TB, v *vocabulary, seed uint64, maxTokens int) (steps int) {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 3)), plain: true}
	_, raw := m.whole(2)
	if strings.Contains(string(raw), `"additionalProperties":true`) {
		return 0
	}
	var schema obj
	require.NoError(t, json.Unmarshal(raw, &schema))
	anyKeys(schema)
	raw, _ = json.Marshal(schema)
	g := compiled(t, raw, false)
	matcher, ref := v.matcher(g), &reference{}
	ref.defs, _ = schema["$defs"].(obj)
	s, text := matcher.Start(), ""
	var mask grammar.Mask
	for range maxTokens {
		steps++
		mask = matcher.Mask(mask, s)
		var can []int32
		for id := range int32(len(v.tokens)) {
			whole, begins := ref.of(schema, text+v.tokens[id])
			want := begins && len(v.tokens[id]) > 0
			if id == endToken {
				want = whole
			}
			require.Equal(t, want, mask.Has(id), "seed %d: %s\n%s and then %q", seed, raw, text, v.tokens[id])
			require.Equal(t, want, matcher.Allows(s, id))
			if want {
				can = append(can, id)
			}
		}
		require.NotEmpty(t, can, "%s: %s", raw, text)
		id := can[m.IntN(len(can))]
		if id == endToken {
			break
		}
		text += v.tokens[id]
		s = matcher.Next(s, id)
		require.NotNil(t, s)
	}
	return steps
}

// anyKeys closes objects that would accept any property, because the reference cannot parse them.
func anyKeys(s any) {
	switch s := s.(type) {
	case obj:
		if _, ok := s["additionalProperties"]; !ok && s["type"] == "object" {
			s["additionalProperties"] = obj{"type": "null"}
		}
		for _, v := range s {
			anyKeys(v)
		}
	case []any:
		for _, v := range s {
			anyKeys(v)
		}
	}
}

func FuzzMask(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkMasks(t, smallVocabulary(t), seed, 12) })
}
