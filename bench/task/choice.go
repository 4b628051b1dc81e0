package task

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// option is one of the options of a question.
type option struct{ label, text string }

// choiceGrader grades by the option that an answer chooses. The first of these rules with a result decides:
//
//  1. "answer is X" (or "answer: X"), the last one in the answer with an option: X is its label, or its text;
//  2. the answer begins with a label that is not part of a word: "B", "B.", "(B) bookstore";
//  3. there is only one label in brackets, after "option" or "choice", or alone as a capital letter: "I would go
//     for B". I alone is a word and does not count, nor does A at the beginning of a sentence;
//  4. the answer contains the text of only one option.
//
// An answer that chooses a label is right if it is the label of the key; one that chooses a text if it is the text of
// the key, even if another option has the same text. An answer that chooses none, or several, is silent.
func choiceGrader(options []option, key string) func(string) Verdict {
	right := options[slices.IndexFunc(options, func(o option) bool { return o.label == key })]
	return func(answer string) Verdict {
		label, text := findChoice(options, answer)
		switch {
		case label == "" && text == "":
			return Silent
		case label == right.label, label == "" && text == normalizeWords(right.text):
			return Right
		}
		return Wrong
	}
}

// choiceCutGrader grades an answer that a limit ended: only by a label, in the first two rules. A word at the end may
// go on, so that a label there is none: "The answer is B".
func choiceCutGrader(options []option, key string) func(string) Verdict {
	return func(answer string) Verdict {
		answer = plainMarks().Replace(answer)
		complete := strings.TrimRightFunc(answer, func(r rune) bool {
			return !unicode.IsSpace(r) && !strings.ContainsRune(".):]", r)
		})
		label := leadingLabel(options, complete, false)
		if label != leadingLabel(options, answer, false) { // "a" of "a mall"
			label = ""
		}
		for _, mark := range conclusion.FindAllStringIndex(complete, -1) {
			label = cmp.Or(leadingLabel(options, firstLine(complete[mark[1]:]), true), label)
		}
		switch label {
		case "":
			return Silent
		case key:
			return Right
		}
		return Wrong
	}
}

// findChoice returns the label that an answer chooses, or the text, in the form of [normalizeWords]; two empty strings
// for none.
func findChoice(options []option, answer string) (label, text string) {
	answer = plainMarks().Replace(answer)
	marks := conclusion.FindAllStringIndex(answer, -1)
	for i := len(marks) - 1; i >= 0; i-- {
		line := firstLine(answer[marks[i][1]:])
		if l := leadingLabel(options, line, true); l != "" {
			return l, ""
		}
		if t := onlyText(options, line); t != "" {
			return "", t
		}
	}
	if l := leadingLabel(options, answer, false); l != "" {
		return l, ""
	}
	if l := onlyLabel(options, answer); l != "" {
		return l, ""
	}
	return "", onlyText(options, answer)
}

// plainMarks removes the marks of Markdown and LaTeX around labels, and normalises quotes.
var plainMarks = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("**", "", "__", "", "`", "", `\boxed`, "", `\text`, "",
		"{", "(", "}", ")", "’", "'")
})

// leadingLabel returns the label that a text begins with. After "answer is" a word may follow a capital label, as in
// "answer is A because"; elsewhere "A" would be an article there.
func leadingLabel(options []option, s string, concluded bool) string {
	s = strings.TrimLeft(s, " \t\r\n\"'([*:$")
	if concluded {
		s = strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(s, "option "), "choice "), "\"'([")
	}
	for _, o := range options {
		if len(s) < len(o.label) || !strings.EqualFold(s[:len(o.label)], o.label) {
			continue
		}
		rest, capital := s[len(o.label):], s[:len(o.label)] == o.label
		next, _ := utf8.DecodeRuneInString(rest)
		switch after := strings.TrimLeft(rest, " "); {
		case strings.TrimSpace(rest) == "", strings.ContainsRune(".):]\n\r", next) && !beginsDecimal(o.label, rest):
			return o.label
		case concluded && capital && !continuesWord(rest) && !beginsDecimal(o.label, rest):
			return o.label
		case strings.HasPrefix(after, "- ") || strings.HasPrefix(after, "\n"):
			return o.label
		}
	}
	return ""
}

// continuesWord reports whether the text after a label makes it part of a word: "Be", "B-rated", "C's".
func continuesWord(rest string) bool {
	next, size := utf8.DecodeRuneInString(rest)
	if next == '\'' {
		next, _ = utf8.DecodeRuneInString(rest[size:])
	}
	return unicode.IsLetter(next) || unicode.IsDigit(next) || next == '-'
}

// beginsDecimal reports whether a label that is a digit is the beginning of a number: "1.5".
func beginsDecimal(label, rest string) bool {
	return label[0] <= '9' && len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') && rest[1] >= '0' && rest[1] <= '9'
}

var (
	// marked matches labels: in brackets, after "option", and single capitals, A only within a sentence
	marked = regexp.MustCompile(`[(\[]\s*([A-Za-z0-9])\s*[)\]]|\b(?i:option|choice)\s+([A-Za-z0-9])\b|` +
		`\b([B-HJ-Z])\b|[a-z,;:]\s+(A)\b`)
	// contracted matches a letter that belongs to the word before or after it
	contracted = regexp.MustCompile(`['.][A-Z]\b|\b[A-Z]['.][A-Za-z]`)
)

func onlyLabel(options []option, s string) (only string) {
	s = contracted.ReplaceAllString(s, " ")
	for _, m := range marked.FindAllStringSubmatch(s, -1) {
		named := strings.ToUpper(m[1] + m[2] + m[3] + m[4])
		if !slices.ContainsFunc(options, func(o option) bool { return o.label == named }) {
			continue
		}
		if only != "" && only != named {
			return ""
		}
		only = named
	}
	return only
}

// onlyText returns the text of the option in s, in the form of [normalizeWords], if there is exactly one. A text that
// is part of the text of another option in s does not count.
func onlyText(options []option, s string) (only string) {
	said := " " + normalizeWords(s) + " "
	for _, o := range options {
		text := normalizeWords(o.text)
		switch {
		case text == "" || !strings.Contains(said, " "+text+" "), strings.Contains(" "+only+" ", " "+text+" "):
		case only == "" || strings.Contains(" "+text+" ", " "+only+" "):
			only = text
		default:
			return ""
		}
	}
	return only
}

// normalizeWords converts a text to lower case, with a space between words and without other characters.
func normalizeWords(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), " ")
}
