package mtl

import "strings"

// splitEncoding splits the types of a method in the notation of the Objective-C runtime: v24@0:8r^v16Q gives v, @, :,
// ^v and Q. Sizes, which depend on the processor, and qualifiers such as r (const) and V (oneway) are left out.
func splitEncoding(encoding string) (all []string) {
	part := ""
	for i := 0; i < len(encoding); i++ {
		switch c := encoding[i]; {
		case strings.IndexByte("0123456789rnNoORV", c) >= 0:
			continue
		case c == '^': // a pointer to the next type
			part += "^"
			continue
		case c == '{':
			n := strings.IndexByte(encoding[i:], '}')
			part += encoding[i : i+n+1]
			i += n
		case c == '@' && strings.HasPrefix(encoding[i+1:], "?"): // a block
			part += "@?"
			i++
		default:
			part += string(c)
		}
		all, part = append(all, part), ""
	}
	return all
}

// Types of structures.
const (
	typeSize  = "{?=QQQ}" // MTLSize, which has no name of its own
	typeRange = "{_NSRange=QQ}"
)

func wordsOf(t string) int {
	switch t {
	case typeSize:
		return 3
	case typeRange:
		return 2
	}
	return 1
}
