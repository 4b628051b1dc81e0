package grammar

import "strings"

// lookaheads takes what looks ahead at the beginning of a pattern, such as ^(?!a)(?=.*b)c, apart: a string matches it
// exactly if it matches all that are returned, or does not where they are turned round.
func lookaheads(text, path string) []pattern {
	all, rest := []pattern(nil), text
	for strings.HasPrefix(rest, "^(?!") || strings.HasPrefix(rest, "^(?=") {
		end, _ := group(rest[1:])
		if end < 0 {
			break
		}
		all = append(all, pattern{text: "^(?:" + rest[4:end] + ")", path: path, not: rest[3] == '!'})
		rest = "^" + rest[end+1:]
	}
	if _, alternatives := group("(" + rest + ")"); len(all) > 0 && alternatives {
		return []pattern{{text: text, path: path}} // what was ahead is so of the first alternative alone
	}
	return append(all, pattern{text: rest, path: path})
}

// readPattern is lookaheads of a pattern that is possible.
func readPattern(text, path string) ([]pattern, error) {
	parts := lookaheads(text, path)
	for _, p := range parts {
		if _, err := parsePattern(p.text); err != nil {
			return nil, &Error{path, err}
		}
	}
	return parts, nil
}

// group returns where in a text that is one byte longer the group ends that it begins with, or -1, and whether the
// group has alternatives.
func group(text string) (end int, alternatives bool) {
	depth, class := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i + 1, alternatives
			}
		case c == '|':
			alternatives = alternatives || depth == 1
		}
	}
	return -1, false
}
