package task

import (
	"fmt"
	"regexp"
	"strings"
)

// numberGraders grades by the final number of an answer:
//
//  1. with "####" or "answer is" (or "answer:"), in the rest of the line after the last of them with a number after
//     it: the number after the last "=", or else the first number;
//  2. else the last number of the answer.
//
// A number may have a sign, a currency sign, commas between groups of three digits, and decimals; 18, 18.0 and $18.00
// are equal. An answer without a number is silent.
//
// An answer that a limit ended is graded by the first rule alone, and without its last, incomplete sentence.
func numberGraders(key string) (grade, gradeCut func(string) Verdict, err error) {
	want, ok := anyNumber(key, 0)
	if !ok {
		return nil, nil, fmt.Errorf("the answer %.40q is not a number", key)
	}
	by := func(final func(answer string) (string, bool)) func(string) Verdict {
		return func(answer string) Verdict {
			got, ok := final(answer)
			switch {
			case !ok:
				return Silent
			case got == want:
				return Right
			}
			return Wrong
		}
	}
	return by(finalNumber), by(func(answer string) (string, bool) {
		ends := sentenceEnd.FindAllStringIndex(answer, -1)
		if ends == nil {
			return "", false
		}
		return concludedNumber(answer[:ends[len(ends)-1][1]])
	}), nil
}

// sentenceEnd matches the end of a sentence or a line.
var sentenceEnd = regexp.MustCompile(`[.!?]["')*]*\s|\n`)

// finalNumber returns the final number of an answer, in the form of [canonicalNumber].
func finalNumber(answer string) (string, bool) {
	if n, ok := concludedNumber(answer); ok {
		return n, true
	}
	return anyNumber(answer, -1)
}

func concludedNumber(answer string) (string, bool) {
	marks := conclusion.FindAllStringIndex(answer, -1)
	for i := len(marks) - 1; i >= 0; i-- {
		line := firstLine(answer[marks[i][1]:])
		if at := strings.LastIndexByte(line, '='); at >= 0 {
			if n, ok := anyNumber(line[at+1:], 0); ok {
				return n, true
			}
		}
		if n, ok := anyNumber(line, 0); ok {
			return n, true
		}
	}
	return "", false
}

// conclusion matches the words that precede the conclusion of an answer.
var conclusion = regexp.MustCompile(`####|(?i:\banswer(?: choice)?` +
	`(?:(?: (?:is|would be|should be|must be|will be))?\s*[:=]| (?:is|would be|should be|must be|will be)\b))`)

// Concludes reports whether an answer so far ends with the words that precede its conclusion: "The answer is".
func Concludes(answer string) bool {
	all := conclusion.FindAllStringIndex(answer, -1)
	return len(all) > 0 && all[len(all)-1][1] == len(answer)
}

// firstLine returns the first line of a text that is not blank.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(s, " \t\r\n"), "\n")
	return line
}

// numberForm matches a number: a sign and a currency, digits with or without commas, decimals.
var numberForm = regexp.MustCompile(`(?:[-−]\$?|\$[-−]?)?(?:(?:\d{1,3}(?:,\d{3})+\b|\d+)(?:\.\d+)?|\.\d+)`)

// anyNumber returns the number at an index in a text: 0 for the first, -1 for the last.
func anyNumber(s string, place int) (string, bool) {
	found := numberForm.FindAllStringIndex(s, -1)
	if len(found) == 0 {
		return "", false
	}
	at := found[0]
	if place < 0 {
		at = found[len(found)-1]
	}
	n := s[at[0]:at[1]]
	if at[0] > 0 && isOperand(s[at[0]-1]) {
		n = strings.TrimLeft(n, "-−") // a difference, 5-3, or a range
	}
	return canonicalNumber(n), true
}

// isOperand reports whether a minus directly after this byte is a subtraction.
func isOperand(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == ')' || b == '%'
}

// canonicalNumber removes the parts of a number that do not change its value: 1,234.50 is 1234.5, and -0 is 0.
func canonicalNumber(n string) string {
	negative := strings.ContainsAny(n, "-−")
	n = strings.NewReplacer("-", "", "−", "", "$", "", ",", "").Replace(n)
	whole, part, _ := strings.Cut(n, ".")
	whole, part = strings.TrimLeft(whole, "0"), strings.TrimRight(part, "0")
	if whole == "" {
		whole = "0"
	}
	if part != "" {
		whole += "." + part
	}
	if negative && whole != "0" {
		whole = "-" + whole
	}
	return whole
}
