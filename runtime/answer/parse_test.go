package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pieces divides a text into pieces of n bytes.
func pieces(text string, n int) (all []string) {
	for len(text) > n {
		all, text = append(all, text[:n]), text[n:]
	}
	return append(all, text)
}

// finds lets a finder for two tools read a text in pieces, up to the start of a call.
func finds(text string, n int) (got string, s *callFinder) {
	s = &callFinder{names: []string{"get", "get_weather"}}
	for _, p := range pieces(text, n) {
		part, found := s.pushText(p)
		if got += part; found {
			return got, s
		}
	}
	got += s.flushPending()
	return got + s.flushPending(), s // the second one has nothing
}

// TestCallFinder: for any pieces, the text before a call is returned without trailing blanks, and nothing of the call.
// A bare object is a call if it starts a line or a fence and has the name of a tool.
func TestCallFinder(t *testing.T) {
	const bare, spread = `{"name":"get"`, "{\n  \"name\": \"get_weather\""
	for _, c := range []struct{ text, before, mark, name string }{
		{"plain", "plain", "", ""}, {"", "", "", ""}, {"a < b <tool> c\n", "a < b <tool> c\n", "", ""},
		{"x \n\n<tool_call>y", "x", callBegin, ""}, {"<tool_call>", "", callBegin, ""},
		{"a <tool_cal", "a <tool_cal", "", ""}, {"<<tool_call>", "<", callBegin, ""},
		{"a\n\nb <tool_call", "a\n\nb <tool_call", "", ""}, {"é<tool_call>", "é", callBegin, ""},

		{bare + `,"arguments":{}}`, "", bare, "get"}, {"\n " + spread, "", spread, "get_weather"},
		{"```json\n" + spread + ",", "", "```json\n" + spread, "get_weather"},
		{"```\n" + bare, "", "```\n" + bare, "get"},
		{"Sure:\n\n```json\n" + bare, "Sure:", "```json\n" + bare, "get"},
		{"Sure:\n" + bare, "Sure:", bare, "get"}, {"a\n {\n" + bare, "a\n {", bare, "get"},

		{"Sure: " + bare, "Sure: " + bare, "", ""}, {"`" + bare + "`", "`" + bare + "`", "", ""},
		{"{" + bare, "", "{" + bare, "get"},
		{"```json\n{" + bare, "", "```json\n{" + bare, "get"},
		{"{{" + bare, "{{" + bare, "", ""}, {"{ " + bare, "{ " + bare, "", ""},
		{`{"name":"gets"}`, `{"name":"gets"}`, "", ""},
		{`{"name":"get`, `{"name":"get`, "", ""}, {`{"name":"get_w"}`, `{"name":"get_w"}`, "", ""},
		{"```json\n{\n  \"name\": \"John\"\n}\n```", "```json\n{\n  \"name\": \"John\"\n}\n```", "", ""},
		{"```python\n" + bare, "```python\n" + bare, "", ""},
		{"```js\nx\n```\n" + bare, "```js\nx\n```", bare, "get"},
		{"```js\nx", "```js\nx", "", ""}, {"``", "``", "", ""},
		{`{"names":"get"`, `{"names":"get"`, "", ""}, {`{"name":{"get":1}}`, `{"name":{"get":1}}`, "", ""},
		{`{:"get"`, `{:"get"`, "", ""},
		{"```json\n", "```json\n", "", ""}, {"{}", "{}", "", ""}, {"{ ", "{ ", "", ""},

		{"<function=get>\n<", "", "<function=get>", "get"},
		{" <function=get_weather>", "", "<function=get_w", "get_weather"},
		{"Sure:\n\n<function=get>", "Sure:", "<function=get>", "get"},
		{"```\n<function=get>", "```\n<function=get>", "", ""}, {"<function=get", "<function=get", "", ""},
		{"Use <function=get>", "Use <function=get>", "", ""}, {"<function=gets>", "<function=gets>", "", ""},
		{"<function=get >", "<function=get >", "", ""}, {"<f<tool_call>", "<f", callBegin, ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			for n := 1; n <= len(c.text)+1; n++ {
				got, s := finds(c.text, n)
				assert.Equal(t, c.before, got, "in pieces of %d", n)
				assert.Equal(t, c.mark == "", s.rest == "", "in pieces of %d", n)
				assert.True(t, strings.HasPrefix(s.rest, c.mark), "in pieces of %d", n)
				assert.Equal(t, c.name, s.name, "in pieces of %d", n)
			}
		})
	}
}

// TestCallFinderShows: text is returned as early as possible.
func TestCallFinderShows(t *testing.T) {
	s := &callFinder{names: []string{"f"}}
	for _, c := range [][2]string{{"a", "a"}, {" ", ""}, {"b", " b"}, {"<too", ""}, {"x", "<toox"}, {"\n", ""},
		{"{", ""}, {`"na`, ""}, {"x", "\n{\"nax"}, {"{", "{"}, {"\n`", ""}, {"``j", ""}, {"s", ""}, {"\n", "\n```js"},
		{"<tool_call>", ""}} {
		got, _ := s.pushText(c[0])
		assert.Equal(t, c[1], got, "%q", c[0])
	}
}

// scanCall reads a call in pieces, as an answer does.
func scanCall(text string, n int) (name, arguments string, err error) {
	s := (&Answer{Calls: Calls{Each: taggedCalls}}).newCallReader(context.Background())
	names := 0
	for _, p := range pieces(text, n) {
		named, more, err := s.pushPiece(p)
		if err != nil {
			return "", "", err
		}
		if named {
			names++
		}
		arguments += more
	}
	if err := s.checkComplete(); err != nil {
		return "", "", err
	}
	if names != 1 {
		return "", "", fmt.Errorf("the name was returned %d times", names)
	}
	return s.function(), arguments, nil
}

// taggedCalls are the schemas of two functions.
var taggedCalls = map[string][]byte{
	"f": callSchema("f", []byte(`{"type":"object","properties":{"s":{"type":"string"},`+
		`"n":{"type":["integer","string"]},"b":{"type":"boolean"},"l":{"type":"array"}}}`), ""),
	"g.h-i": callSchema("g.h-i", []byte(anyObject), ""),
}

// TestCalls: name and arguments are found for any pieces.
func TestCalls(t *testing.T) {
	for text, want := range map[string]struct{ name, arguments string }{
		`{"name": "f", "arguments": {"a": [1, "}\"é"]}}`: {"f", `{"a": [1, "}\"é"]}`},
		`{"name":"g","arguments":{}}`:                    {"g", "{}"},
		`{"name":"f","arguments":{"a":{"b":{}}}}`:        {"f", `{"a":{"b":{}}}`},
		`{"name":"f-.g","arguments": {"\\":"\\"}}`:       {"f-.g", `{"\\":"\\"}`},
	} {
		require.True(t, json.Valid([]byte(text)))
		for n := 1; n <= len(text); n++ {
			name, arguments, err := scanCall(text, n)
			require.NoError(t, err, "%s in pieces of %d", text, n)
			assert.Equal(t, want.name, name, "%s in pieces of %d", text, n)
			assert.Equal(t, want.arguments, arguments, "%s in pieces of %d", text, n)
		}
	}
	for _, text := range []string{
		"", "x", `[]`, `{}`, `{"name":"f","arguments":{}`, `{"name":7}`, `{"name":""}`, `{"name":"f","arguments":[]}`,
		`{"name":"f","arguments":"{}"}`, `{"name":"f"}`, `{"name":"f","arguments":{},"arguments":{}}`,
		`{"name":"f","arguments":{}} x`, `{"name":"f","arguments":{}} `, `{"name":"f","arguments":{} }`,
		`{"name":"f","arguments":{},"x":{}}`, `{"arguments":{},"name":"f"}`, `{"name":"f","arguments":{"a":}}`,
		`{"name":"f","arguments":{]}`,
	} {
		_, _, err := scanCall(text, 3)
		assert.ErrorIs(t, err, errCall, text)
	}
	s := new(callScanner)
	_, _, err := s.pushPiece(strings.Repeat(" ", maxCall+1))
	assert.ErrorIs(t, err, errCall)
	_, _, err = s.pushPiece(strings.Repeat(" ", maxCall))
	require.NoError(t, err)
	_, _, err = s.pushPiece(" ")
	assert.ErrorIs(t, err, errCall, "one too many")
}

// TestCallsShow: arguments are returned as they arrive, the first part with the name.
func TestCallsShow(t *testing.T) {
	s := new(callScanner)
	for _, c := range []struct {
		piece     string
		named     bool
		arguments string
	}{{`{"name"`, false, ""}, {`:"f"`, false, ""}, {`,"arg`, true, ""}, {`uments": {"a`, false, `{"a`}, {`":{`, false,
		`":{`}, {`}`, false, ""}, {`}`, false, "}"}, {"}", false, "}"}} {
		named, arguments, err := s.pushPiece(c.piece)
		require.NoError(t, err)
		assert.Equal(t, c.named, named, c.piece)
		assert.Equal(t, c.arguments, arguments, c.piece)
	}
	require.NoError(t, s.checkComplete())
}

// TestCallsInTags: name and arguments are found for any pieces, and become JSON by the schema.
func TestCallsInTags(t *testing.T) {
	const value, end = "\n</parameter>\n", "</function>\n"
	for text, want := range map[string]struct{ name, arguments string }{
		"<function=f>\n" + end: {"f", "{}"},
		"<function=f>\n<parameter=s>\n12" + value + "<parameter=n>\n12" + value + end: {"f", `{"s": "12", "n": 12}`},
		"<function=f>\n<parameter=s>\n\n\"é\"\\\n </parameter\n" + value + end: {"f",
			`{"s": "\n\"é\"\\\n </parameter\n"}`},
		"<function=f>\n<parameter=n>\n-" + value + "<parameter=b>\nTrue" + value + end: {"f", `{"n": "-", "b": true}`},
		"<function=f>\n<parameter=l>\n[1, \"a\"]" + value + end:                        {"f", `{"l": [1, "a"]}`},
		"<function=f>\n<parameter=s>\n" + value + end:                                  {"f", `{"s": ""}`},
		"<function=g.h-i>\n<parameter=\"é c\\>\n{}" + value + "<parameter=a>\n</function>\n<" + value + end: {"g.h-i",
			`{"\"é c\\": {}, "a": "</function>\n<"}`},
	} {
		require.True(t, json.Valid([]byte(want.arguments)))
		for n := 1; n <= len(text); n++ {
			name, arguments, err := scanCall(text, n)
			if !utf8.ValidString(strings.Join(pieces(text, n), "|")) {
				continue // a piece is of whole characters
			}
			require.NoError(t, err, "%s in pieces of %d", text, n)
			assert.Equal(t, want.name, name, "%s in pieces of %d", text, n)
			assert.Equal(t, want.arguments, arguments, "%s in pieces of %d", text, n)
		}
	}
	for _, text := range []string{
		"<", "<function=f>\n", "<function=f>\n</function>", "<function=f></function>\n", "<fun=f>\n" + end,
		"<function=f>\n" + end + "x", "<function=f>\nx" + end, "<function=f>\n<parameter=s>\nx" + end,
		"<function=f>\n<parameter=s>x" + value + end, "<function=f>\n<parameter=s>\nx" + value + "\n" + end,
		"<function=f>\n<parameters=s>\nx" + value + end, "<function=>\n" + end,
	} {
		_, _, err := scanCall(text, 3)
		assert.ErrorIs(t, err, errCall, text)
	}
	_, _, err := scanCall("<function=f>\n<parameter=s>\n"+strings.Repeat(" ", maxCall), 1<<18)
	assert.ErrorIs(t, err, errCall, "too long")
	_, _, err = scanCall("<function=other>\n"+end, 100)
	assert.ErrorIs(t, err, errCall, "no such function")
}

// TestTagsShow: strings are returned as they arrive, and other values when they are whole.
func TestTagsShow(t *testing.T) {
	s := (&Answer{Calls: Calls{Each: taggedCalls}}).newCallReader(t.Context())
	for _, c := range []struct {
		piece     string
		named     bool
		arguments string
	}{{"<function=", false, ""}, {"f>\n<para", true, ""}, {"meter=s>\n", false, `{"s": "`}, {"a\nb", false, `a\nb`},
		{"\n</par", false, ""}, {"ty\n", false, `\n</party`}, {"</parameter>\n<parameter=l>\n[1", false, `", "l": `},
		{", 2]\n</parameter>", false, ""}, {"\n", false, "[1, 2]"}, {"</function>", false, ""}, {"\n", false, "}"}} {
		named, arguments, err := s.pushPiece(c.piece)
		require.NoError(t, err)
		assert.Equal(t, c.named, named, c.piece)
		assert.Equal(t, c.arguments, arguments, c.piece)
	}
	require.NoError(t, s.checkComplete())
}

// FuzzTags: accepted calls have the same arguments for any pieces, and these are an object.
func FuzzTags(f *testing.F) {
	f.Add("<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=l>\n[]\n</parameter>\n</function>\n", uint8(1))
	f.Add("<function=g.h-i>\n<parameter=x>\n\n</parameter>\n</function>\n", uint8(9))
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		if !strings.HasPrefix(text, "<") || strings.Count(text, "")-1 < len(text) {
			return // a piece is of whole characters
		}
		name, arguments, err := scanCall(text, max(int(n), 1))
		whole, all, wrong := scanCall(text, max(len(text), 1))
		require.Equal(t, wrong == nil, err == nil, "%v, %v", wrong, err)
		if err == nil {
			require.Equal(t, whole, name)
			require.Equal(t, all, arguments)
			require.True(t, json.Valid([]byte(arguments)) && arguments[0] == '{', arguments)
		}
	})
}

// FuzzCalls: accepted calls are valid, for any pieces.
func FuzzCalls(f *testing.F) {
	for _, s := range []string{`{"name": "f", "arguments": {"a": [1, "}"]}}`, `{"name":"f","arguments":{}}`,
		`{"name":"f"}`, `{`, `{"name":"f","arguments":{},"a":{}}`} {
		f.Add(s, uint8(1))
		f.Add(s, uint8(200))
	}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		name, arguments, err := scanCall(text, max(int(n), 1))
		whole, all, wrong := scanCall(text, max(len(text), 1))
		require.Equal(t, wrong == nil, err == nil, "%v, %v", wrong, err)
		if err != nil {
			require.True(t, errors.Is(err, errCall), err)
			return
		}
		require.Equal(t, whole, name)
		require.Equal(t, all, arguments)
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &fields))
		require.Len(t, fields, 2)
		require.Equal(t, `"`+name+`"`, string(fields["name"]))
		require.Equal(t, string(fields["arguments"]), arguments)
	})
}

// FuzzCallFinder: the result does not depend on the pieces, no text before a call is lost, and no mark is missed.
func FuzzCallFinder(f *testing.F) {
	f.Add("a <tool_call>b", uint8(1))
	f.Add("<tool_<tool_call>", uint8(3))
	f.Add("a\n```json\n{ \"name\" : \"get_weather\"", uint8(2))
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		got, s := finds(text, max(int(n), 1))
		whole, same := finds(text, len(text)+1)
		require.Equal(t, whole, got)
		require.True(t, strings.HasPrefix(same.rest, s.rest))
		require.Equal(t, same.name, s.name)
		if s.rest == "" {
			require.Empty(t, same.rest)
			require.Equal(t, text, got)
			require.NotContains(t, text, callBegin)
			return
		}
		rest, ok := strings.CutPrefix(text, got)
		require.True(t, ok)
		require.True(t, strings.HasPrefix(strings.TrimLeft(rest, blanks), s.rest))
		require.NotContains(t, got, callBegin)
	})
}
