package task

import (
	"context"
	"regexp"
	"strings"
	"sync"
)

// Runner runs the texts of a program in sequence, then its tests, and reports whether the tests ran to their end. An
// error means that the program was not judged.
type Runner func(ctx context.Context, program []string, tests string) (passed bool, err error)

// Unrun is a [Runner] for recorded answers, whose verdicts stay as they are.
func Unrun(context.Context, []string, string) (bool, error) { return false, nil }

// problem is a programming task: an answer is right if its program passes the tests.
type problem struct {
	entry  string // the name of the required function; "" if unknown
	before string // the code before that function: imports, other functions
	header string // the function's first lines, which an answer may continue; "" if there are none
	tests  string
}

// setGraders sets none without a runner: answers are then not graded.
func (p problem) setGraders(q *Question, run Runner) {
	if run == nil {
		return
	}
	q.Grade = func(answer string) Verdict {
		if p.extractProgram(answer) == "" {
			return Silent
		}
		return Wrong
	}
	// A program that reaches the end of the text is incomplete: what followed would be part of it.
	q.gradeCut = func(answer string) Verdict {
		if p.extractProgram(answer) != p.extractProgram(answer+"§") {
			return Silent
		}
		return q.Grade(answer)
	}
	var mu sync.Mutex // for the cache of verdicts: answers of several runs are often equal
	known := map[string]bool{}
	q.Run = func(ctx context.Context, answer string) (bool, error) {
		program := p.extractProgram(answer)
		mu.Lock()
		passed, again := known[program]
		mu.Unlock()
		if again {
			return passed, nil
		}
		passed, err := run(ctx, []string{p.before, program}, p.tests)
		if err == nil {
			mu.Lock()
			known[program] = passed
			mu.Unlock()
		}
		return passed, err
	}
}

// extractProgram extracts the program of an answer, "" for none. The first rule with a result decides:
//
//  1. Fenced code blocks: those of Python, or if there are none, those without a language. The last block that
//     defines the function is used, after the earlier blocks that only define and import. If no block defines the
//     function, the first block is used.
//  2. Without fences: from the first line that defines, imports or assigns to the last line of code.
//  3. With a header: the rest of the function, which begins with an indented line or with a return.
//
// An unclosed block extends to the end of the answer.
func (p problem) extractProgram(answer string) string {
	blocks, fenced := codeBlocks(strings.ReplaceAll(answer, "\r\n", "\n"))
	if fenced {
		return p.programFromBlocks(blocks)
	}
	text := blocks[0]
	if p.header != "" && isIndented(text) && !p.definesEntry(dedentText(text)) {
		return p.completeFunction(text)
	}
	text = dedentText(text)
	if at := begun.FindStringIndex(text); at != nil && definition.MatchString(text) {
		return leadingCode(text[at[0]:])
	}
	if p.header != "" && returns.MatchString(firstLine(text)) {
		return p.completeFunction(text)
	}
	return ""
}

func (p problem) programFromBlocks(blocks []string) string {
	last := -1
	for i, b := range blocks {
		if p.definesEntry(b) {
			last = i
		}
	}
	if last < 0 {
		for _, b := range blocks {
			switch {
			case p.header != "" && (isIndented(b) || returns.MatchString(b)) && !definition.MatchString(b):
				return p.completeFunction(b)
			case strings.TrimSpace(b) != "":
				return b
			}
		}
		return ""
	}
	var all []string
	for _, b := range blocks[:last] {
		if !p.definesEntry(b) && onlyDefines(b) {
			all = append(all, b)
		}
	}
	return strings.Join(append(all, blocks[last]), "\n")
}

// completeFunction returns the function with the rest in an answer, up to the first line that is not indented.
func (p problem) completeFunction(rest string) string {
	if !isIndented(rest) {
		rest = "    " + strings.ReplaceAll(strings.TrimLeft(rest, "\n"), "\n", "\n    ")
	}
	var b strings.Builder
	quoted := false // within a triple-quoted string
	for line := range strings.Lines(rest) {
		if !quoted && strings.TrimSpace(line) != "" && !strings.ContainsAny(line[:1], " \t)]}") {
			break
		}
		b.WriteString(line)
		quoted = quoted != togglesQuote(line)
	}
	return p.header + b.String()
}

// togglesQuote reports whether a line begins or ends a multi-line triple-quoted string.
func togglesQuote(line string) bool {
	return (strings.Count(line, `"""`)+strings.Count(line, `'''`))%2 == 1
}

// definesEntry reports whether a text defines the function, or any function if its name is unknown.
func (p problem) definesEntry(text string) bool {
	for _, m := range definition.FindAllStringSubmatch(text, -1) {
		if m[1] != "" && (p.entry == "" || m[1] == p.entry) {
			return true
		}
	}
	return p.entry != "" && strings.Contains("\n"+text, "\n"+p.entry+" = ")
}

var (
	// definition matches a line that defines a name, which it captures, or that precedes such a line
	definition = regexp.MustCompile(`(?m)^(?:(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(|class[ \t]+(\w+)[ \t]*[(:]|` +
		`import[ \t]+\w|from[ \t]+[\w.]+[ \t]+import\b|@\w)`)
	// begun matches a line that a program may begin with
	begun = regexp.MustCompile(definition.String() + `|(?m)^[A-Za-z_]\w* ?= ?[^=\s]`)
	// coded matches lines that are code rather than prose
	coded = regexp.MustCompile(`^(?:\s|$|#|@|[)\]}]|(?:async |def |class |import |from \S+ import\b|if |for |while |` +
		`with |elif |return\b|raise\b|assert |del |global )|(?:try|else|finally)\s*:|except\b.*:|` +
		`\w[\w.\[\]'"]*(?:, ?\w[\w.\[\]'"]*)*\s*(?::[^=]*)?[-+*/%|&]?=[^=]|\w[\w.]*\(.*[)(,\[{:\\]\s*(?:#.*)?$)`)
	// named matches lines that only define names: those of a block that only defines
	named = regexp.MustCompile(`^(?:\s|$|#|@|[)\]}]|"""|'''|async |def |class |import |from |[A-Z_][A-Z0-9_]*\s*=)`)
	// returns matches a return outside of functions
	returns = regexp.MustCompile(`(?m)^(?:return|yield)\b`)
)

func onlyDefines(block string) bool {
	for line := range strings.Lines(block) {
		if !named.MatchString(strings.TrimRight(line, "\n")) {
			return false
		}
	}
	return true
}

func leadingCode(text string) string {
	end, quoted := 0, false // quoted: within a triple-quoted string that begins in an indented line
	for line := range strings.Lines(text) {
		if !quoted && !coded.MatchString(strings.TrimRight(line, "\n")) {
			break
		}
		end += len(line)
		quoted = quoted != togglesQuote(line)
	}
	return text[:end]
}

// isIndented reports whether the first line that is not blank is indented.
func isIndented(text string) bool {
	first := firstNonblankLine(text)
	return strings.HasPrefix(first, " ") || strings.HasPrefix(first, "\t")
}

// dedentText removes the indentation of the first nonblank line from a text.
func dedentText(text string) string {
	first := firstNonblankLine(text)
	return removeIndent(text, first[:len(first)-len(strings.TrimLeft(first, " \t"))])
}

// firstNonblankLine returns the first nonblank line, with its indentation.
func firstNonblankLine(text string) string {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return ""
}

func removeIndent(text, space string) string {
	if space == "" {
		return text
	}
	return strings.ReplaceAll(strings.TrimPrefix(text, space), "\n"+space, "\n")
}

// fence matches a line that begins or ends a code block in Markdown.
var fence = regexp.MustCompile("^([ \t]*(?:[-*>][ \t]+|\\d+[.)][ \t]+)?)(```+|~~~+)[ \t]*([^`\\s]*)[^`]*$")

// codeBlocks returns the fenced blocks of Python, or, if there are none, those without a language. Without any fence,
// the text is the only block.
func codeBlocks(text string) (blocks []string, fenced bool) {
	var python, plain []string
	var block []string
	var space, mark, language string // of the open block
	end := func() {
		code := removeIndent(strings.Join(block, "\n"), space)
		switch language {
		case "":
			plain = append(plain, code)
		case "python", "python3", "py", "py3":
			python = append(python, code)
		}
		block, mark = nil, ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case mark == "" && m != nil:
			fenced, mark = true, m[2]
			space, language = strings.Repeat(" ", len(m[1])), strings.ToLower(m[3])
		case m != nil && m[3] == "" && m[2][0] == mark[0] && len(m[2]) >= len(mark):
			end()
		case mark != "":
			block = append(block, line)
		}
	}
	if mark != "" {
		end()
	}
	switch {
	case !fenced:
		return []string{text}, false
	case len(python) > 0:
		return python, true
	}
	return plain, true
}
