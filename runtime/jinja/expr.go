package jinja

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// expression evaluates to a value.
type expression func(r *renderer) value

func (p *parser) parseTuple() expression {
	first := p.parseExpression()
	if !p.nextIs(",") {
		return first
	}
	all := []expression{first}
	for p.accept(",") && p.tok.kind != tokTagEnd && p.tok.kind != tokPrintEnd && !p.nextIs(")") {
		all = append(all, p.parseExpression())
	}
	return newListExpression(all, true)
}

func newListExpression(all []expression, tuple bool) expression {
	return func(r *renderer) value {
		r.spendWork(16 * len(all))
		l := &list{items: make([]value, len(all)), tuple: tuple}
		for i, e := range all {
			l.items[i] = e(r)
		}
		return l
	}
}

func (p *parser) parseExpression() expression { return p.parseConditional(true) }

// parseConditional reads a if b else c; without conditional, the operand of a for loop, whose if is that of the loop.
func (p *parser) parseConditional(conditional bool) expression {
	defer p.enterNesting()()
	e := p.parseOr()
	for conditional && p.accept("if") {
		p.enterNesting()
		then, cond, otherwise := e, p.parseOr(), expression(func(*renderer) value { return undefined("") })
		if p.accept("else") {
			otherwise = p.parseExpression()
		}
		e = func(r *renderer) value {
			if isTrue(cond(r)) {
				return then(r)
			}
			return otherwise(r)
		}
	}
	return e
}

func (p *parser) parseOr() expression {
	a := p.parseAnd()
	for p.accept("or") {
		p.enterNesting()
		left, right := a, p.parseAnd()
		a = func(r *renderer) value {
			if v := left(r); isTrue(v) {
				return v
			}
			return right(r)
		}
	}
	return a
}

func (p *parser) parseAnd() expression {
	a := p.parseNot()
	for p.accept("and") {
		p.enterNesting()
		left, right := a, p.parseNot()
		a = func(r *renderer) value {
			if v := left(r); !isTrue(v) {
				return v
			}
			return right(r)
		}
	}
	return a
}

func (p *parser) parseNot() expression {
	if p.accept("not") {
		defer p.enterNesting()()
		e := p.parseNot()
		return func(r *renderer) value { return !isTrue(e(r)) }
	}
	return p.parseComparison()
}

// parseComparison reads a < b < c, which is a < b and b < c.
func (p *parser) parseComparison() expression {
	first := p.parseSum()
	var ops []string
	var rest []expression
	for {
		op := p.tok.text
		switch {
		case p.nextIs("not") && p.peek().text == "in":
			p.advanceToken()
			op = "not in"
		case p.nextIs("==") || p.nextIs("!=") || p.nextIs("<") || p.nextIs("<=") || p.nextIs(">") || p.nextIs(">=") ||
			p.nextIs("in"):
		case ops == nil:
			return first
		default:
			return func(r *renderer) value {
				left := first(r)
				for i, op := range ops {
					right := rest[i](r)
					if !r.evalComparison(op, left, right) {
						return false
					}
					left = right
				}
				return true
			}
		}
		p.enterNesting()
		p.advanceToken()
		ops, rest = append(ops, op), append(rest, p.parseSum())
	}
}

func (r *renderer) evalComparison(op string, a, b value) bool {
	switch op {
	case "==":
		return r.equalValues(a, b)
	case "!=":
		return !r.equalValues(a, b)
	case "in":
		return r.containsValue(b, a)
	case "not in":
		return !r.containsValue(b, a)
	case "sameas":
		return isBool(a) == isBool(b) && r.equalValues(a, b)
	case "divisibleby":
		return !isTrue(r.evalArithmetic("%", a, b))
	case "<":
		return r.compareValues(a, b) < 0
	case "<=":
		return r.compareValues(a, b) <= 0
	case ">":
		return r.compareValues(a, b) > 0
	}
	return r.compareValues(a, b) >= 0
}

// parseBinaryChain reads operands with operators of one rank between them.
func (p *parser) parseBinaryChain(operand func() expression, ops ...string) expression {
	a := operand()
next:
	for _, op := range ops {
		if p.tok.kind == tokOperator && p.accept(op) {
			p.enterNesting()
			left, right := a, operand()
			a = func(r *renderer) value { return r.evalArithmetic(op, left(r), right(r)) }
			goto next
		}
	}
	return a
}

func (p *parser) parseSum() expression    { return p.parseBinaryChain(p.parseConcat, "+", "-") }
func (p *parser) parseConcat() expression { return p.parseBinaryChain(p.parseProduct, "~") }
func (p *parser) parseProduct() expression {
	return p.parseBinaryChain(p.parsePower, "*", "/", "//", "%")
}
func (p *parser) parsePower() expression { return p.parseBinaryChain(p.parseUnary, "**") }

func (r *renderer) evalArithmetic(op string, a, b value) value {
	r.spendWork(1)
	switch x := a.(type) {
	case str:
		y, ok := b.(str)
		switch {
		case op == "+" && ok && x.safe != y.safe:
			return r.concatTexts(r.escapeHTML(x), r.escapeHTML(y))
		case op == "+" && ok:
			return r.concatTexts(x, y)
		case op == "*" && isNumber(b):
			return r.repeatText(x, asInteger(b))
		case op == "%":
			return r.formatPercent(x, b)
		}
	case *list:
		if y, ok := b.(*list); ok && op == "+" && x.tuple == y.tuple && x.view+y.view == "" {
			r.spendWork(16 * (len(x.items) + len(y.items)))
			return &list{items: append(append([]value{}, x.items...), y.items...), tuple: x.tuple}
		}
		if op == "*" && isInt(b) && x.view == "" {
			return r.repeatList(x, asInteger(b))
		}
	case bool, int, json.Number:
		if op == "*" && isIndexable(b) {
			return r.evalArithmetic(op, b, a)
		}
	}
	if op == "~" {
		t := r.concatTexts(r.toText(a), r.toText(b))
		t.safe = false
		return t
	}
	if !isNumber(a) || !isNumber(b) {
		failWith("%s %s %s is not possible", typeName(a), op, typeName(b))
	}
	return calculateNumbers(op, a, b)
}

func (r *renderer) repeatList(l *list, n int) *list {
	out := &list{tuple: l.tuple}
	for range n {
		r.spendWork(1 + 16*len(l.items))
		out.items = append(out.items, l.items...)
	}
	return out
}

func (r *renderer) concatTexts(a, b str) str {
	r.spendWork(2 * (len(a.String) + len(b.String)))
	return str{Text{a.String + b.String, a.Given + b.Given}, a.safe && b.safe}
}

func (r *renderer) repeatText(s str, n int) str {
	if n = max(n, 0); n > 0 && len(s.String) > r.left/(2*n) {
		r.spendWork(r.left + 1)
	}
	r.spendWork(2 * n * len(s.String))
	return str{Text{strings.Repeat(s.String, n), strings.Repeat(s.Given, n)}, s.safe}
}

// calculateNumbers applies an operator to numbers. The result is whole if both are, except that of a division.
func calculateNumbers(op string, a, b value) value {
	x, y := asNumber(a), asNumber(b)
	var f float64
	switch op {
	case "+":
		f = x + y
	case "-":
		f = x - y
	case "*":
		f = x * y
	case "**":
		f = math.Pow(x, y)
	default:
		if y == 0 {
			failWith("division by zero")
		}
		switch op {
		case "/":
			return x / y
		case "//":
			f = math.Floor(x / y)
		default:
			f = x - y*math.Floor(x/y)
		}
	}
	if isInt(a) && isInt(b) && (op != "**" || y >= 0) {
		return asInteger(f)
	}
	return f
}

// parseUnary also reads the filters and tests that follow the operand.
func (p *parser) parseUnary() expression { return p.parseFilterChain(p.parseSigned()) }

func (p *parser) parseSigned() expression {
	for _, op := range []string{"-", "+"} {
		if p.tok.kind == tokOperator && p.accept(op) {
			defer p.enterNesting()()
			e := p.parseSigned()
			return func(r *renderer) value { return r.evalArithmetic(op, 0, e(r)) }
		}
	}
	return p.parsePostfix(p.parsePrimary())
}

// parsePrimary reads a value, a variable, or an expression in brackets.
func (p *parser) parsePrimary() expression {
	t := p.tok
	switch t.kind {
	case tokString:
		var text strings.Builder
		for ; p.tok.kind == tokString; p.advanceToken() {
			text.WriteString(p.tok.text)
		}
		return constantExpression(literalText(text.String()))
	case tokNumber:
		p.advanceToken()
		if n, err := strconv.Atoi(t.text); err == nil {
			return constantExpression(n)
		}
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			failWith("%.40s is not a number of a size that is supported", t.text)
		}
		return constantExpression(f)
	case tokName:
		p.advanceToken()
		switch t.text {
		case "true", "True":
			return constantExpression(true)
		case "false", "False":
			return constantExpression(false)
		case "none", "None":
			return constantExpression(nil)
		}
		p.varargs = p.varargs || t.text == "varargs"
		return func(r *renderer) value { r.spendWork(1); return r.scope.lookupVariable(t.text) }
	}
	switch {
	case p.accept("("):
		if p.accept(")") {
			return newListExpression(nil, true)
		}
		e := p.parseTuple()
		p.expect(")")
		return e
	case p.accept("["):
		all := p.parseExpressionsUntil("]")
		return newListExpression(all, false)
	case p.accept("{"):
		return p.parseDict()
	}
	failWith("unexpected %.40q", t.text)
	return nil
}

func constantExpression(v value) expression { return func(*renderer) value { return v } }

func (p *parser) parseExpressionsUntil(end string) (all []expression) {
	for !p.accept(end) {
		all = append(all, p.parseExpression())
		if !p.nextIs(end) {
			p.expect(",")
		}
	}
	return all
}

func (p *parser) parseDict() expression {
	var keys, values []expression
	for !p.accept("}") {
		keys = append(keys, p.parseExpression())
		p.expect(":")
		values = append(values, p.parseExpression())
		if !p.nextIs("}") {
			p.expect(",")
		}
	}
	return func(r *renderer) value {
		d := newDict()
		for i, k := range keys {
			key := k(r)
			r.spendWork(32)
			r.lookupKey(d, key) // which takes work for a long text
			d.setKey(key, values[i](r))
		}
		return d
	}
}

func asFieldName(v value) str {
	key, ok := v.(str)
	if !ok {
		failWith("the name of a field is a text, not %s", typeName(v))
	}
	return key
}

func (p *parser) parsePostfix(e expression) expression {
	defer p.enterNesting()()
	for {
		inner := e
		switch {
		case p.accept("."):
			p.enterNesting()
			if p.tok.kind == tokNumber {
				i := p.parsePrimary()
				e = func(r *renderer) value { return r.lookupElement(inner(r), i(r)) }
				continue
			}
			name := p.parseName()
			e = func(r *renderer) value { return r.lookupField(inner(r), name) }
		case p.accept("["):
			p.enterNesting()
			e = p.parseSubscript(inner)
		case p.accept("("):
			p.enterNesting()
			given := p.parseArguments()
			e = func(r *renderer) value {
				f := inner(r)
				return r.callValue(f, given(r))
			}
			p.lastCall = &callExpression{inner, given}
			continue
		default:
			return e
		}
		p.lastCall = nil
	}
}

type callExpression struct {
	f     expression
	given func(r *renderer) args
}

// parseArguments reads the arguments of a call, after the bracket: a, name=b, *list, **object.
func (p *parser) parseArguments() func(r *renderer) args {
	var all []func(r *renderer, a *args)
	named := map[string]bool{}
	for !p.accept(")") {
		switch {
		case p.accept("**"):
			e := p.parseExpression()
			all = append(all, func(r *renderer, a *args) { a.unpackDict(r, e(r)) })
		case p.accept("*"):
			e := p.parseExpression()
			all = append(all, func(r *renderer, a *args) {
				more := r.collectItems(e(r))
				r.spendWork(16 * len(more))
				a.list = append(a.list, more...)
			})
		case p.tok.kind == tokName && p.peek().text == "=" && p.peek().kind == tokOperator:
			name := p.parseName()
			if p.advanceToken(); named[name] {
				failWith("the argument %.40q is given twice", name)
			}
			named[name] = true
			e := p.parseExpression()
			all = append(all, func(r *renderer, a *args) { a.setNamed(name, e(r)) })
		default:
			e := p.parseExpression()
			all = append(all, func(r *renderer, a *args) { a.list = append(a.list, e(r)) })
		}
		if !p.nextIs(")") {
			p.expect(",")
		}
	}
	return func(r *renderer) args {
		a := args{named: map[string]value{}}
		for _, add := range all {
			r.spendWork(16)
			add(r, &a)
		}
		return a
	}
}

func (a *args) setNamed(name string, v value) {
	if _, ok := a.named[name]; ok {
		failWith("the argument %.40q is given twice", name)
	}
	a.names, a.named[name] = append(a.names, name), v
}

func (a *args) unpackDict(r *renderer, v value) {
	d, ok := v.(*dict)
	if !ok {
		failWith("%s has no names for arguments", typeName(v))
	}
	for _, k := range d.keys {
		r.spendWork(32)
		a.setNamed(asFieldName(k).String, d.values[hashKey(k)])
	}
}

// parseSubscript reads [i] or [from:to:step], after the bracket.
func (p *parser) parseSubscript(of expression) expression {
	var parts [3]expression
	n := 0
	for ; n == 0 || p.accept(":"); n++ {
		if n == len(parts) {
			failWith("a slice has at most three parts")
		}
		if !p.nextIs(":") && !p.nextIs("]") {
			parts[n] = p.parseExpression()
		}
	}
	if p.expect("]"); n == 1 {
		i := parts[0]
		if i == nil {
			failWith("an index is expected before ]")
		}
		return func(r *renderer) value { return r.lookupElement(of(r), i(r)) }
	}
	return func(r *renderer) value {
		var at [3]value
		for i, e := range parts {
			if e != nil {
				at[i] = e(r)
			}
		}
		return r.sliceValue(of(r), at)
	}
}

func (r *renderer) lookupField(v value, name string) value {
	r.spendWork(1)
	if m := r.lookupMethod(v, name); m != nil {
		return m
	}
	switch v := v.(type) {
	case *dict:
		if one, ok := v.values[name]; ok {
			return one
		}
	case *namespace:
		if one, ok := v.fields.values[name]; ok {
			return one
		}
	case *loopContext:
		return v.lookupField(name)
	case undefined:
		failWith("%.40s has no fields: it is not defined", string(v))
	}
	return undefined(name)
}

// lookupElement returns v[i].
func (r *renderer) lookupElement(v, i value) value {
	r.spendWork(1)
	d, isDict := v.(*dict)
	if _, isList := i.(*list); isDict && !isList {
		if one, ok := r.lookupKey(d, i); ok {
			return one
		}
	}
	if name, ok := i.(str); ok {
		return r.lookupField(v, name.String)
	}
	if name, missing := v.(undefined); missing {
		failWith("%.40s has no elements: it is not defined", string(name))
	}
	if !isIndexable(v) || !isInt(i) {
		return undefined("element")
	}
	all, at := r.collectItems(v), asInteger(i)
	if at < 0 {
		at += len(all)
	}
	if at < 0 || at >= len(all) {
		return undefined("element")
	}
	if s, ok := v.(str); ok {
		char := all[at].(str)
		char.safe = s.safe
		return char
	}
	return all[at]
}

func isIndexable(v value) bool {
	_, isText := v.(str)
	l, isList := v.(*list)
	return isText || isList && l.view == ""
}

func (r *renderer) callValue(f value, a args) value {
	switch f := f.(type) {
	case function:
		return f(r, a)
	case *loopContext:
		if f.again != nil {
			return f.again(r, a)
		}
	case undefined:
		failWith("%.40s cannot be called: it is not defined, or not supported", string(f))
	}
	failWith("%s cannot be called", typeName(f))
	return nil
}

// sliceValue returns v[from:to:step], as in Python.
func (r *renderer) sliceValue(v value, at [3]value) value {
	if !isIndexable(v) {
		failWith("%s has no parts", typeName(v))
	}
	all := r.collectItems(v)
	step, n := 1, len(all)
	if at[2] != nil {
		if step = asInteger(at[2]); step == 0 {
			failWith("the step of a slice is 0")
		}
	}
	bound := func(v value, otherwise int) int {
		if v == nil {
			return otherwise
		}
		i := asInteger(v)
		if i < 0 {
			i += n
		}
		if step < 0 {
			return min(max(i, -1), n-1)
		}
		return min(max(i, 0), n)
	}
	from, to := bound(at[0], 0), bound(at[1], n)
	if step < 0 {
		from, to = bound(at[0], n-1), bound(at[1], -1)
	}
	var some []value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		r.spendWork(16)
		some = append(some, all[i])
	}
	if s, ok := v.(str); ok {
		part := r.joinTexts(some, str{})
		part.safe = s.safe
		return part
	}
	return &list{items: some, tuple: v.(*list).tuple}
}

func (r *renderer) joinTexts(all []value, separator str) str {
	var b textBuilder
	for i, v := range all {
		if i > 0 {
			r.appendText(&b, separator)
		}
		r.appendText(&b, r.toText(v))
	}
	return b.buildText()
}

// isInt reports whether a value is a whole number of the type int.
func isInt(v value) bool {
	switch v := v.(type) {
	case int, bool:
		return true
	case interface{ Int64() (int64, error) }: // a number as given
		_, err := v.Int64()
		return err == nil
	}
	return false
}

func countCharacters(s string) int { return utf8.RuneCountInString(s) }
