// Package jinja renders the chat templates of model files: the part of Jinja 2 that such templates use, with the
// results of the Python package jinja2, set up as transformers sets it up (trim_blocks, lstrip_blocks, loop controls).
//
// A template comes from a file that anybody may have made. It can read only the values that it is given: there are no
// files, no imports, no attributes of Go values, no clock. Its work is limited: each operation, and each byte of a text
// that it makes, takes from a budget, so that rendering ends after a bounded time and with bounded memory. Nesting is
// limited too.
//
// A text remembers which of its bytes the template wrote and which were given ([Text]): so a tokenizer can recognise
// special tokens of the template alone, and a message cannot forge one, whatever the template does with it.
//
//	lex.go     the source to tokens
//	parse.go   statements, and expr.go expressions, to functions
//	macro.go   macros and call blocks
//	value.go   values, with Python's comparisons and spelling
//	method.go  methods of texts and objects, and functions
//	filter.go  filters and tests
//	format.go  texts with places for values
//	json.go    JSON to values and back
package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of templates.
const (
	maxSource = 1 << 20 // bytes of a template
	maxDepth  = 500     // nesting of statements and operations in the source
	maxNested = 1000    // nesting of values, and tenfold of macros that call macros
	maxNumber = 1000    // characters of a number that is given
	// Work of a rendering: operations and bytes. Published templates take less than 30,000 for a chat of one message,
	// 16 for each byte of a text, and 3,000 for each further message. So the limits leave room.
	baseWork, workPerByte, bytesPerValue = 1 << 22, 64, 64
)

// ErrLimit is returned for a template that takes too much time or memory, or is nested too deeply.
var ErrLimit = errors.New("the template exceeds its limits")

// Error is a template that is wrong, does what this package does not support, or refuses what it was given.
type Error struct {
	Line int // of the template, from 1; 0 for an error of what it was given
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("line %d of the template: %v", e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// RaisedError is the text that a template gave to raise_exception: it refuses the chat.
type RaisedError struct{ Text string }

// Error implements error.
func (e *RaisedError) Error() string { return e.Text }

// Field is a named value.
type Field struct {
	Name  string
	Value any // nil, bool, int, string, Trusted, JSON (json.RawMessage), []any, Object or Func
}

// Func is a function from a text to a text. An error ends the rendering.
type Func func(text string) (string, error)

// Object has fields in their order.
type Object []Field

// Trusted is a text that counts as written by the template, such as the name of a special token.
type Trusted string

// Text is what a template rendered. Given[i] is '1' if byte i of String came from the values that were given, and '0'
// if the template wrote it.
type Text struct{ String, Given string }

// Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct{ body block }

// Parse reads a template. The error is an [Error].
func Parse(source string) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, &Error{1, fmt.Errorf("%w: it has more than %d bytes", ErrLimit, maxSource)}
	}
	p := &parser{lexer: newLexer(source)}
	defer recoverFailure(&p.line, &err)
	p.advanceToken()
	body, _ := p.parseBlock()
	return &Template{body}, nil
}

// Render renders the template with values. The error is an [Error].
func (t *Template) Render(values Object) (out Text, err error) {
	r := &renderer{left: baseWork}
	defer recoverFailure(&r.line, &err)
	global := &scope{vars: globalFunctions()}
	for _, f := range values {
		global.vars[f.Name] = r.convertInput(f.Value)
	}
	r.scope, r.left = &scope{vars: map[string]value{}, parent: global}, baseWork+workPerByte*r.read
	t.body.runStatements(r)
	return r.out.buildText().Text, nil
}

// failure is the panic by which parsing and rendering end. It does not leave the package.
type failure struct{ err error }

// failWith panics with a failure.
func failWith(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func recoverFailure(line *int, err *error) {
	switch f := recover().(type) {
	case nil:
	case failure:
		*err = &Error{*line, f.err}
	default:
		panic(f)
	}
}

// renderer is the state of one rendering.
type renderer struct {
	out   textBuilder
	scope *scope
	left  int // of the work
	read  int // bytes that were given
	line  int // of the statement that runs
	depth int // of values in values, and tenfold of macros that call macros
}

// spendWork takes n units of work, 0 or more.
func (r *renderer) spendWork(n int) {
	if r.left -= n; r.left < 0 {
		failWith("%w: it takes too much time or memory", ErrLimit)
	}
}

// enterDepth enters a nested value, or with 10 a macro, until the returned function is called.
func (r *renderer) enterDepth(by int) func() {
	if r.depth += by; r.depth > maxNested {
		failWith("%w: values or calls are nested more than %d deep", ErrLimit, maxNested)
	}
	return func() { r.depth -= by }
}

// scope has variables; those of the parents can be read.
type scope struct {
	vars   map[string]value
	parent *scope
}

func (s *scope) lookupVariable(name string) value {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return undefined(name)
}

// runInScope runs f in a scope of its own, in one that can see parent.
func (r *renderer) runInScope(parent *scope, f func()) {
	before := r.scope
	r.scope = &scope{map[string]value{}, parent}
	f()
	r.scope = before
}

func (r *renderer) captureOutput(f func()) str {
	before, line := r.out, r.line
	r.out = textBuilder{}
	f()
	text := r.out.buildText()
	r.out, r.line = before, line // what follows is an expression of the caller
	return text
}

type textBuilder struct{ s, given strings.Builder }

func (b *textBuilder) writeText(t str) {
	b.s.WriteString(t.String)
	b.given.WriteString(t.Given)
}

// appendText also spends the work.
func (r *renderer) appendText(b *textBuilder, t str) {
	r.spendWork(1 + 2*len(t.String))
	b.writeText(t)
}

func (b *textBuilder) buildText() str { return str{Text: Text{b.s.String(), b.given.String()}} }
