package tokenizer

import (
	"cmp"
	"slices"
	"strings"
)

// special is a token that is found whole in a text, before the text is split.
type special struct {
	id   int32
	text string
}

// fragment is a part of a text: a special token, or text between such.
type fragment struct {
	id   int32 // -1: text
	text string
}

// newSpecials lists the special tokens of v, the longest first, for they are looked for in this order: those found in
// any text, and those found when special tokens are parsed. Of equal length the lower id goes first. (There llama.cpp's
// order is that of its sort, which only matters where the end of one token begins the other.)
func newSpecials(v *vocabulary) (always, parsed []special) {
	for id := range int32(v.size()) {
		if v.has(id, control|unknown|userDefined) {
			parsed = append(parsed, special{id, string(v.spelling(id))})
		}
	}
	slices.SortStableFunc(parsed, func(a, b special) int { return cmp.Compare(len(b.text), len(a.text)) })
	for _, s := range parsed {
		if !v.has(s.id, control|unknown) {
			always = append(always, s)
		}
	}
	return always, parsed
}

// partition cuts the special tokens out of text: first all occurrences of the longest, from the left, then those of the
// next in what remains, and so on.
func (t *Tokenizer) partition(text string, parseSpecial bool) []fragment {
	specials := t.always
	if parseSpecial {
		specials = t.parsed
	}
	parts := []fragment{{-1, text}}
	for _, s := range specials {
		parts = s.cut(parts)
	}
	return parts
}

// cut returns parts with the occurrences of s cut out: parts itself if there are none.
func (s special) cut(parts []fragment) []fragment {
	var out []fragment
	for i, part := range parts {
		at := -1
		if part.id < 0 {
			at = strings.Index(part.text, s.text)
		}
		switch {
		case at < 0 && out == nil:
			continue
		case at < 0:
			out = append(out, part)
			continue
		case out == nil:
			out = append(make([]fragment, 0, len(parts)+2), parts[:i]...)
		}
		rest := part.text
		for ; at >= 0; at = strings.Index(rest, s.text) {
			if at > 0 {
				out = append(out, fragment{-1, rest[:at]})
			}
			out = append(out, fragment(s))
			rest = rest[at+len(s.text):]
		}
		if rest != "" {
			out = append(out, fragment{-1, rest})
		}
	}
	if out == nil {
		return parts
	}
	return out
}
