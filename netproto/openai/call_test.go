package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pieces cuts a text into pieces of n bytes.
func pieces(text string, n int) (all []string) {
	for len(text) > n {
		all, text = append(all, text[:n]), text[n:]
	}
	return append(all, text)
}

// TestTagScanner: whatever the pieces, the text before a mark comes out, without blanks before the mark, and the mark
// does not.
func TestTagScanner(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "a < b <tool> c\n": "a < b <tool> c\n", "x \n\n<tool_call>y": "x", "<tool_call>": "",
		"a <tool_cal": "a <tool_cal", "<<tool_call>": "<", "a\n\nb <tool_call": "a\n\nb <tool_call",
		"é<tool_call>": "é", "": "",
	} {
		for n := 1; n <= len(text)+1; n++ {
			var s tagScanner
			got, found := "", false
			for _, p := range pieces(text, n) {
				var part string
				part, found = s.push(p)
				got += part
				if found {
					break
				}
			}
			if !found {
				got += s.flush()
			}
			assert.Equal(t, want, got, "%q in pieces of %d", text, n)
			assert.Equal(t, strings.Contains(text, callBegin), found)
		}
	}
}

// TestTagScannerShows what it can at once.
func TestTagScannerShows(t *testing.T) {
	var s tagScanner
	for _, c := range [][2]string{{"a", "a"}, {" ", ""}, {"b", " b"}, {"<too", ""}, {"x", "<toox"}, {"\n", ""},
		{"<tool_call>", ""}} {
		got, _ := s.push(c[0])
		assert.Equal(t, c[1], got, "%q", c[0])
	}
}

// TestPlain: what may become a call is not yet plain text.
func TestPlain(t *testing.T) {
	for text, want := range map[string]bool{"": false, " \n": false, "<": false, "\n<tool_call>": false,
		"<tool_call>x": false,
		"{":            true, "<b": true, " a": true} {
		assert.Equal(t, want, plain(text), "%q", text)
	}
}

// scanCall reads a call in pieces, as an answer does.
func scanCall(text string, n int) (name, arguments string, err error) {
	s := newCallScanner()
	names := 0
	for _, p := range pieces(text, n) {
		named, more, err := s.push(p)
		if err != nil {
			return "", "", err
		}
		if named {
			names++
		}
		arguments += more
	}
	if err := s.complete(); err != nil {
		return "", "", err
	}
	if names != 1 {
		return "", "", fmt.Errorf("the name was told %d times", names)
	}
	return s.name, arguments, nil
}

// TestCalls: whatever the pieces and the order, name and arguments come out.
func TestCalls(t *testing.T) {
	for text, want := range map[string][2]string{
		`{"name": "f", "arguments": {"a": [1, "}\"é"]}}`:            {"f", `{"a": [1, "}\"é"]}`},
		`{"arguments":{},"name":"g"}`:                               {"g", "{}"},
		` {"name":"f","arguments":{"a":{"arguments":{}}} } ` + "\n": {"f", `{"a":{"arguments":{}}}`},
		`{"x":[{"name":1}],"name":"f","arguments": {"b":null}}`:     {"f", `{"b":null}`},
		`{"name":"f"}`: {"f", ""},
		`{"name":"\u0066","arguments":{"\\":"\\"}}`: {"f", `{"\\":"\\"}`},
	} {
		require.True(t, json.Valid([]byte(text)))
		for n := 1; n <= len(text); n++ {
			name, arguments, err := scanCall(text, n)
			require.NoError(t, err, "%s in pieces of %d", text, n)
			assert.Equal(t, want, [2]string{name, arguments}, "%s in pieces of %d", text, n)
		}
	}
	for _, text := range []string{
		"", "x", `[]`, `{}`, `{"name":"f","arguments":{}`, `{"name":7}`, `{"name":""}`, `{"name":"f","arguments":[]}`,
		`{"name":"f","arguments":"{}"}`, `{"name":"f","name":"g"}`, `{"name":"f","arguments":{},"arguments":{}}`,
		`{"name":"f"} x`, `{"name":"f",}`, `{"name"}`, `{"name":}`, `{:1}`, `{"arguments":{}}`, `{"name":"f"]`,
		`{"name":"f","arguments":{"a":}}`, `{"name":"f","arguments":{]}`,
	} {
		_, _, err := scanCall(text, 3)
		assert.ErrorIs(t, err, errCall, text)
	}
	s := newCallScanner()
	_, _, err := s.push(strings.Repeat(" ", mostCall+1))
	assert.ErrorIs(t, err, errCall)
}

// TestCallsShow: arguments are told as they come, the first of them with the name.
func TestCallsShow(t *testing.T) {
	s := newCallScanner()
	for _, c := range []struct {
		piece     string
		named     bool
		arguments string
	}{{`{"name"`, false, ""}, {`:"f"`, false, ""}, {`,"arg`, true, ""}, {`uments": {"a`, false, `{"a`}, {`":1`, false,
		`":1`},
		{`} `, false, "}"}, {"}", false, ""}} {
		named, arguments, err := s.push(c.piece)
		require.NoError(t, err)
		assert.Equal(t, c.named, named, c.piece)
		assert.Equal(t, c.arguments, arguments, c.piece)
	}
	require.NoError(t, s.complete())
}

// FuzzCalls: what is taken for a call is one, in whatever pieces.
func FuzzCalls(f *testing.F) {
	for _, s := range []string{`{"name": "f", "arguments": {"a": [1, "}"]}}`, `{"arguments":{},"name":"g"}`,
		`{"name":"f"}`, `{`, `{"a":{"b":[`} {
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
		require.Equal(t, [2]string{whole, all}, [2]string{name, arguments})
		var call struct {
			Name      *string
			Arguments json.RawMessage
		}
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &fields))
		require.NoError(t, json.Unmarshal(fields["name"], &call.Name))
		require.Equal(t, *call.Name, name)
		require.Equal(t, strings.TrimSpace(string(fields["arguments"])), strings.TrimSpace(arguments))
	})
}

// FuzzTags: a mark is found exactly where there is one, and nothing of the text is lost.
func FuzzTags(f *testing.F) {
	f.Add("a <tool_call>b", uint8(1))
	f.Add("<tool_<tool_call>", uint8(3))
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		var s tagScanner
		got, found := "", false
		for _, p := range pieces(text, max(int(n), 1)) {
			var part string
			if part, found = s.push(p); found {
				got += part
				break
			}
			got += part
		}
		before, _, there := strings.Cut(text, callBegin)
		require.Equal(t, there, found)
		if !found {
			require.Equal(t, text, got+s.flush())
			return
		}
		require.Equal(t, strings.TrimRight(before, blanks), got)
	})
}
