package jinja

import "slices"

// parser reads statements and expressions.
type parser struct {
	*lexer
	tok    token
	ahead  *token // the token after tok, if it was looked at
	line   int    // of tok
	nested int
	loops  int // loops around

	called  *called // the call that the last expression ended with; nil: none
	varargs bool    // the macro around has the variable of that name
}

func (p *parser) advance() {
	if p.ahead != nil {
		p.tok, p.ahead = *p.ahead, nil
	} else {
		p.line = p.lexer.line
		p.tok = p.next()
	}
	p.line = p.tok.line
}

func (p *parser) peek() token {
	if p.ahead == nil {
		t := p.next()
		p.ahead = &t
	}
	return *p.ahead
}

// is reports whether the next token is an operator or a name.
func (p *parser) is(text string) bool {
	return p.tok.text == text && (p.tok.kind == tokOperator || p.tok.kind == tokName)
}

// accept takes an operator or a name, if it is next.
func (p *parser) accept(text string) bool {
	if !p.is(text) {
		return false
	}
	p.advance()
	return true
}

// expect takes an operator or a name.
func (p *parser) expect(text string) {
	if !p.accept(text) {
		fail("%s is expected before %.40q", text, p.tok.text)
	}
}

func (p *parser) end(kind int, text string) {
	if p.tok.kind != kind {
		fail("%s is expected before %.40q", text, p.tok.text)
	}
	p.advance()
}

func (p *parser) name() string {
	name := p.tok.text
	if p.tok.kind != tokName {
		fail("a name is expected before %.40q", name)
	}
	p.advance()
	return name
}

// deeper enters a statement or a part of an expression that is evaluated within another one; the returned function
// leaves it, with all that was entered since.
func (p *parser) deeper() func() {
	before := p.nested
	if p.nested++; p.nested > maxDepth {
		fail("%w: more than %d statements or operations are nested", ErrLimit, maxDepth)
	}
	return func() { p.nested = before }
}

// flow is what a statement does to the loop around it.
type flow int

// Values of flow.
const (
	goOn flow = iota
	stopLoop
	nextTurn
)

type statement func(r *run) flow

// block is a list of statements.
type block []statement

func (b block) do(r *run) flow {
	for _, s := range b {
		if f := s(r); f != goOn {
			return f
		}
	}
	return goOn
}

// captured returns what a block renders, which may be read later.
func (b *block) captured() expression {
	return func(r *run) value { return r.captured(func() { r.inner(r.scope, func() { b.do(r) }) }) }
}

// block reads statements up to a tag with one of the names, which it takes without the tag's end, or up to the end of
// the source if there are no names.
func (p *parser) block(until ...string) (b block, end string) {
	defer p.deeper()()
	for {
		line := p.line
		switch t := p.tok; t.kind {
		case tokEnd:
			if len(until) > 0 {
				fail("the template ends before %s", until[len(until)-1])
			}
			return b, ""
		case tokData:
			text := literal(t.text)
			b = append(b, func(r *run) flow { r.put(text); return goOn })
			p.advance()
		case tokPrint:
			p.advance()
			e := p.list()
			p.end(tokPrintEnd, "}}")
			b = append(b, func(r *run) flow { r.line = line; r.put(r.text(e(r))); return goOn })
		default: // a tag
			p.advance()
			name := p.name()
			if slices.Contains(until, name) {
				return b, name
			}
			if s := p.statement(name); s != nil {
				b = append(b, func(r *run) flow { r.line = line; r.spend(1); return s(r) })
			}
		}
	}
}

// body reads a block with the end of the tag before it and the whole tag after it.
func (p *parser) body(until string) block {
	p.end(tokTagEnd, "%}")
	b, _ := p.block(until)
	p.end(tokTagEnd, "%}")
	return b
}

// apart reads a body that break and continue of a loop around do not reach.
func (p *parser) apart(until string) block {
	defer func(before int) { p.loops = before }(p.loops)
	p.loops = 0
	return p.body(until)
}

// filterBlock reads {% filter name %} … {% endfilter %}.
func (p *parser) filterBlock() statement {
	var body block
	e := p.filters(p.filter(body.captured()))
	body = p.apart("endfilter")
	return func(r *run) flow { r.put(r.text(e(r))); return goOn }
}

// with reads {% with a = …, b = … %} … {% endwith %}.
func (p *parser) with() statement {
	var names [][]string
	var values []expression
	for p.tok.kind != tokTagEnd {
		names = append(names, p.targets())
		p.expect("=")
		values = append(values, p.expression())
		p.accept(",")
	}
	body := p.body("endwith")
	return func(r *run) (f flow) {
		all := make([]value, len(values))
		for i, e := range values {
			r.spend(16)
			all[i] = e(r)
		}
		r.inner(r.scope, func() {
			for i, v := range all {
				r.assign(names[i], v)
			}
			f = body.do(r)
		})
		return f
	}
}

func (r *run) put(t str) { r.append(&r.out, t) }

// statement reads the rest of a tag, and all that belongs to it.
func (p *parser) statement(name string) statement {
	switch name {
	case "if":
		return p.ifBlock()
	case "for":
		return p.forLoop()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "call":
		return p.callBlock()
	case "filter":
		return p.filterBlock()
	case "with":
		return p.with()
	case "generation": // of transformers: it marks what the assistant wrote, and has no effect
		return p.body("endgeneration").do
	case "break", "continue":
		if p.loops == 0 {
			fail("%s stands outside of a loop", name)
		}
		p.end(tokTagEnd, "%}")
		f := map[string]flow{"break": stopLoop, "continue": nextTurn}[name]
		return func(*run) flow { return f }
	}
	fail("the statement %.40q is not supported", name)
	return nil
}

// ifBlock reads {% if %} … {% elif %} … {% else %} … {% endif %}.
func (p *parser) ifBlock() statement {
	line, cond := p.line, p.expression()
	p.end(tokTagEnd, "%}")
	then, end := p.block("elif", "else", "endif")
	otherwise := func(*run) flow { return goOn }
	switch end {
	case "elif":
		defer p.deeper()()
		otherwise = p.ifBlock()
	case "else":
		otherwise = p.body("endif").do
	default:
		p.end(tokTagEnd, "%}")
	}
	return func(r *run) flow {
		r.line = line // of elif, too
		if truth(cond(r)) {
			return then.do(r)
		}
		return otherwise(r)
	}
}

func (p *parser) targets() []string {
	defer func() { p.accept(")") }()
	p.accept("(")
	names := []string{p.name()}
	for p.accept(",") {
		names = append(names, p.name())
	}
	return names
}

// assign sets variables: one to a value, several to its elements.
func (r *run) assign(names []string, v value) {
	if len(names) == 1 {
		r.scope.vars[names[0]] = v
		return
	}
	all := r.items(v)
	r.spend(16 * len(names))
	if len(all) != len(names) {
		fail("%d values for %d names", len(all), len(names))
	}
	for i, name := range names {
		r.scope.vars[name] = all[i]
	}
}

// set reads {% set a = … %}, {% set a.b = … %} or {% set a %} … {% endset %}.
func (p *parser) set() statement {
	names, field := p.targets(), ""
	if len(names) == 1 && p.accept(".") {
		field = p.name()
	}
	var e expression
	if p.accept("=") {
		e = p.list()
		p.end(tokTagEnd, "%}")
	} else {
		var body block
		e = p.filters(body.captured())
		body = p.apart("endset")
	}
	return func(r *run) flow {
		v := e(r)
		if field == "" {
			r.assign(names, v)
			return goOn
		}
		o, ok := r.scope.find(names[0]).(*object)
		if !ok {
			fail("%.40s.%.40s cannot be set: %.40[1]s is not a namespace", names[0], field)
		}
		o.fields.set(literal(field), v)
		return goOn
	}
}

// forLoop reads {% for a, b in list if condition %} … {% else %} … {% endfor %}.
func (p *parser) forLoop() statement {
	names := p.targets()
	p.expect("in")
	over := p.condition(false)
	var keep expression
	if p.accept("if") {
		keep = p.expression()
	}
	recursive := p.accept("recursive")
	p.end(tokTagEnd, "%}")
	p.loops++
	body, end := p.block("else", "endfor")
	p.loops--
	var otherwise block
	if end == "else" {
		otherwise = p.body("endfor")
	} else {
		p.end(tokTagEnd, "%}")
	}
	var do func(r *run, v value, depth int) flow
	do = func(r *run, v value, depth int) (f flow) {
		all := r.items(v)
		if keep != nil {
			all = r.kept(all, names, keep)
		}
		if len(all) == 0 {
			return otherwise.do(r)
		}
		l, home := loop{all: all, depth: depth}, r.scope
		if recursive {
			l.again = func(r *run, a args) value {
				defer r.deeper(10)()
				return r.captured(func() {
					r.inner(home, func() { do(r, a.at(0, "iterable", undefined("the elements")), depth+1) })
				})
			}
		}
		r.inner(home, func() { r.loop(names, l, body) })
		return goOn
	}
	return func(r *run) flow { return do(r, over(r), 0) }
}

// kept returns the elements for which a condition is true.
func (r *run) kept(all []value, names []string, keep expression) (some []value) {
	r.inner(r.scope, func() {
		for _, v := range all {
			r.spend(16)
			if r.assign(names, v); truth(keep(r)) {
				some = append(some, v)
			}
		}
	})
	return some
}

// loop runs a body for each element, in a scope of the loop.
func (r *run) loop(names []string, l loop, body block) {
	home := r.scope
	for i, v := range l.all {
		r.spend(8)
		turn := l
		turn.i = i
		home.vars = map[string]value{"loop": &turn} // variables of a turn end with it
		r.assign(names, v)
		if body.do(r) == stopLoop {
			return
		}
	}
}

// loop is the variable of that name.
type loop struct {
	all   []value
	i     int
	depth int
	again function // what loop does as a function, in a loop that is recursive
}

func (l *loop) field(name string) value {
	n := len(l.all)
	switch name {
	case "index":
		return l.i + 1
	case "index0":
		return l.i
	case "revindex":
		return n - l.i
	case "revindex0":
		return n - l.i - 1
	case "first":
		return l.i == 0
	case "last":
		return l.i == n-1
	case "length":
		return n
	case "depth":
		return l.depth + 1
	case "depth0":
		return l.depth
	case "previtem":
		if l.i > 0 {
			return l.all[l.i-1]
		}
	case "nextitem":
		if l.i+1 < n {
			return l.all[l.i+1]
		}
	case "cycle":
		return function(func(_ *run, a args) value {
			if len(a.list) == 0 {
				fail("cycle needs a value")
			}
			return a.list[l.i%len(a.list)]
		})
	}
	return undefined("loop." + name)
}
