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

	lastCall *callExpression // the call that the last expression ended with; nil: none
	varargs  bool            // the macro around has the variable of that name
}

func (p *parser) advanceToken() {
	if p.ahead != nil {
		p.tok, p.ahead = *p.ahead, nil
	} else {
		p.line = p.lexer.line
		p.tok = p.nextToken()
	}
	p.line = p.tok.line
}

func (p *parser) peek() token {
	if p.ahead == nil {
		t := p.nextToken()
		p.ahead = &t
	}
	return *p.ahead
}

// nextIs never matches data, strings or numbers that are spelled alike.
func (p *parser) nextIs(text string) bool {
	return p.tok.text == text && (p.tok.kind == tokOperator || p.tok.kind == tokName)
}

func (p *parser) accept(text string) bool {
	if !p.nextIs(text) {
		return false
	}
	p.advanceToken()
	return true
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		failWith("%s is expected before %.40q", text, p.tok.text)
	}
}

func (p *parser) expectKind(kind int, text string) {
	if p.tok.kind != kind {
		failWith("%s is expected before %.40q", text, p.tok.text)
	}
	p.advanceToken()
}

func (p *parser) parseName() string {
	name := p.tok.text
	if p.tok.kind != tokName {
		failWith("a name is expected before %.40q", name)
	}
	p.advanceToken()
	return name
}

// enterNesting enters a statement or a part of an expression that is evaluated within another one; the returned
// function leaves it, with all that was entered since.
func (p *parser) enterNesting() func() {
	before := p.nested
	if p.nested++; p.nested > maxDepth {
		failWith("%w: more than %d statements or operations are nested", ErrLimit, maxDepth)
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

type statement func(r *renderer) flow

// block is a list of statements.
type block []statement

func (b block) runStatements(r *renderer) flow {
	for _, s := range b {
		if f := s(r); f != goOn {
			return f
		}
	}
	return goOn
}

// captureExpression returns what a block renders; the block may be parsed later.
func (b *block) captureExpression() expression {
	return func(r *renderer) value {
		return r.captureOutput(func() { r.runInScope(r.scope, func() { b.runStatements(r) }) })
	}
}

// parseBlock reads statements up to a tag with one of the names, which it takes without the tag's end, or up to the end
// of the source if there are no names.
func (p *parser) parseBlock(until ...string) (b block, end string) {
	defer p.enterNesting()()
	for {
		line := p.line
		switch t := p.tok; t.kind {
		case tokEnd:
			if len(until) > 0 {
				failWith("the template ends before %s", until[len(until)-1])
			}
			return b, ""
		case tokData:
			text := literalText(t.text)
			b = append(b, func(r *renderer) flow { r.writeOutput(text); return goOn })
			p.advanceToken()
		case tokPrint:
			p.advanceToken()
			e := p.parseTuple()
			p.expectKind(tokPrintEnd, "}}")
			b = append(b, func(r *renderer) flow { r.line = line; r.writeOutput(r.toText(e(r))); return goOn })
		default: // a tag
			p.advanceToken()
			name := p.parseName()
			if slices.Contains(until, name) {
				return b, name
			}
			if s := p.parseStatement(name); s != nil {
				b = append(b, func(r *renderer) flow { r.line = line; r.spendWork(1); return s(r) })
			}
		}
	}
}

// parseBody reads a block with the end of the tag before it and the whole tag after it.
func (p *parser) parseBody(until string) block {
	p.expectKind(tokTagEnd, "%}")
	b, _ := p.parseBlock(until)
	p.expectKind(tokTagEnd, "%}")
	return b
}

// parseIsolatedBody reads a body that break and continue of a loop around do not reach.
func (p *parser) parseIsolatedBody(until string) block {
	defer func(before int) { p.loops = before }(p.loops)
	p.loops = 0
	return p.parseBody(until)
}

// parseFilterBlock reads {% filter name %} … {% endfilter %}.
func (p *parser) parseFilterBlock() statement {
	var body block
	e := p.parseFilterChain(p.parseFilter(body.captureExpression()))
	body = p.parseIsolatedBody("endfilter")
	return func(r *renderer) flow { r.writeOutput(r.toText(e(r))); return goOn }
}

// parseWith reads {% with a = …, b = … %} … {% endwith %}.
func (p *parser) parseWith() statement {
	var names [][]string
	var values []expression
	for p.tok.kind != tokTagEnd {
		names = append(names, p.parseTargets())
		p.expect("=")
		values = append(values, p.parseExpression())
		p.accept(",")
	}
	body := p.parseBody("endwith")
	return func(r *renderer) (f flow) {
		all := make([]value, len(values))
		for i, e := range values {
			r.spendWork(16)
			all[i] = e(r)
		}
		r.runInScope(r.scope, func() {
			for i, v := range all {
				r.assignTargets(names[i], v)
			}
			f = body.runStatements(r)
		})
		return f
	}
}

func (r *renderer) writeOutput(t str) { r.appendText(&r.out, t) }

func (p *parser) parseStatement(name string) statement {
	switch name {
	case "if":
		return p.parseIf()
	case "for":
		return p.parseFor()
	case "set":
		return p.parseSet()
	case "macro":
		return p.parseMacro()
	case "call":
		return p.parseCallBlock()
	case "filter":
		return p.parseFilterBlock()
	case "with":
		return p.parseWith()
	case "generation": // of transformers: it marks what the assistant wrote, and has no effect
		return p.parseBody("endgeneration").runStatements
	case "break", "continue":
		if p.loops == 0 {
			failWith("%s stands outside of a loop", name)
		}
		p.expectKind(tokTagEnd, "%}")
		f := map[string]flow{"break": stopLoop, "continue": nextTurn}[name]
		return func(*renderer) flow { return f }
	}
	failWith("the statement %.40q is not supported", name)
	return nil
}

// parseIf reads {% if %} … {% elif %} … {% else %} … {% endif %}.
func (p *parser) parseIf() statement {
	line, cond := p.line, p.parseExpression()
	p.expectKind(tokTagEnd, "%}")
	then, end := p.parseBlock("elif", "else", "endif")
	otherwise := func(*renderer) flow { return goOn }
	switch end {
	case "elif":
		defer p.enterNesting()()
		otherwise = p.parseIf()
	case "else":
		otherwise = p.parseBody("endif").runStatements
	default:
		p.expectKind(tokTagEnd, "%}")
	}
	return func(r *renderer) flow {
		r.line = line // of elif, too
		if isTrue(cond(r)) {
			return then.runStatements(r)
		}
		return otherwise(r)
	}
}

func (p *parser) parseTargets() []string {
	defer func() { p.accept(")") }()
	p.accept("(")
	names := []string{p.parseName()}
	for p.accept(",") {
		names = append(names, p.parseName())
	}
	return names
}

func (r *renderer) assignTargets(names []string, v value) {
	if len(names) == 1 {
		r.scope.vars[names[0]] = v
		return
	}
	all := r.collectItems(v)
	r.spendWork(16 * len(names))
	if len(all) != len(names) {
		failWith("%d values for %d names", len(all), len(names))
	}
	for i, name := range names {
		r.scope.vars[name] = all[i]
	}
}

// parseSet reads {% set a = … %}, {% set a.b = … %} or {% set a %} … {% endset %}.
func (p *parser) parseSet() statement {
	names, field := p.parseTargets(), ""
	if len(names) == 1 && p.accept(".") {
		field = p.parseName()
	}
	var e expression
	if p.accept("=") {
		e = p.parseTuple()
		p.expectKind(tokTagEnd, "%}")
	} else {
		var body block
		e = p.parseFilterChain(body.captureExpression())
		body = p.parseIsolatedBody("endset")
	}
	return func(r *renderer) flow {
		v := e(r)
		if field == "" {
			r.assignTargets(names, v)
			return goOn
		}
		o, ok := r.scope.lookupVariable(names[0]).(*namespace)
		if !ok {
			failWith("%.40s.%.40s cannot be set: %.40[1]s is not a namespace", names[0], field)
		}
		o.fields.setKey(literalText(field), v)
		return goOn
	}
}

// parseFor reads {% for a, b in list if condition %} … {% else %} … {% endfor %}.
func (p *parser) parseFor() statement {
	names := p.parseTargets()
	p.expect("in")
	over := p.parseConditional(false)
	var keep expression
	if p.accept("if") {
		keep = p.parseExpression()
	}
	recursive := p.accept("recursive")
	p.expectKind(tokTagEnd, "%}")
	p.loops++
	body, end := p.parseBlock("else", "endfor")
	p.loops--
	var otherwise block
	if end == "else" {
		otherwise = p.parseBody("endfor")
	} else {
		p.expectKind(tokTagEnd, "%}")
	}
	var do func(r *renderer, v value, depth int) flow
	do = func(r *renderer, v value, depth int) (f flow) {
		all := r.collectItems(v)
		if keep != nil {
			all = r.filterItems(all, names, keep)
		}
		if len(all) == 0 {
			return otherwise.runStatements(r)
		}
		l, home := loopContext{all: all, depth: depth}, r.scope
		if recursive {
			l.again = func(r *renderer, a args) value {
				defer r.enterDepth(10)()
				return r.captureOutput(func() {
					r.runInScope(home, func() { do(r, a.valueOr(0, "iterable", undefined("the elements")), depth+1) })
				})
			}
		}
		r.runInScope(home, func() { r.runLoop(names, l, body) })
		return goOn
	}
	return func(r *renderer) flow { return do(r, over(r), 0) }
}

func (r *renderer) filterItems(all []value, names []string, keep expression) (some []value) {
	r.runInScope(r.scope, func() {
		for _, v := range all {
			r.spendWork(16)
			if r.assignTargets(names, v); isTrue(keep(r)) {
				some = append(some, v)
			}
		}
	})
	return some
}

// runLoop runs a body for each element, in a scope of the loop.
func (r *renderer) runLoop(names []string, l loopContext, body block) {
	home := r.scope
	for i, v := range l.all {
		r.spendWork(8)
		turn := l
		turn.i = i
		home.vars = map[string]value{"loop": &turn} // variables of a turn end with it
		r.assignTargets(names, v)
		if body.runStatements(r) == stopLoop {
			return
		}
	}
}

// loopContext is the variable of that name.
type loopContext struct {
	all   []value
	i     int
	depth int
	again function // what loop does as a function, in a loop that is recursive
}

func (l *loopContext) lookupField(name string) value {
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
		return function(func(_ *renderer, a args) value {
			if len(a.list) == 0 {
				failWith("cycle needs a value")
			}
			return a.list[l.i%len(a.list)]
		})
	}
	return undefined("loop." + name)
}
