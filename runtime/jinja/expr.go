package jinja

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// expression evaluates to a value.
type expression func(r *run) value

// list reads an expression, or several with commas between them, which are a tuple.
func (p *parser) list() expression {
	first := p.expression()
	if !p.is(",") {
		return first
	}
	all := []expression{first}
	for p.accept(",") && p.tok.kind != tokTagEnd && p.tok.kind != tokPrintEnd && !p.is(")") {
		all = append(all, p.expression())
	}
	return elements(all, true)
}

func elements(all []expression, tuple bool) expression {
	return func(r *run) value {
		r.spend(16 * len(all))
		l := &list{items: make([]value, len(all)), tuple: tuple}
		for i, e := range all {
			l.items[i] = e(r)
		}
		return l
	}
}

func (p *parser) expression() expression { return p.condition(true) }

// condition reads a if b else c, or without the condition what may stand before one.
func (p *parser) condition(conditional bool) expression {
	defer p.deeper()()
	e := p.or()
	for conditional && p.accept("if") {
		p.deeper()
		then, cond, otherwise := e, p.or(), expression(func(*run) value { return undefined("") })
		if p.accept("else") {
			otherwise = p.expression()
		}
		e = func(r *run) value {
			if truth(cond(r)) {
				return then(r)
			}
			return otherwise(r)
		}
	}
	return e
}

func (p *parser) or() expression {
	a := p.and()
	for p.accept("or") {
		p.deeper()
		left, right := a, p.and()
		a = func(r *run) value {
			if v := left(r); truth(v) {
				return v
			}
			return right(r)
		}
	}
	return a
}

func (p *parser) and() expression {
	a := p.not()
	for p.accept("and") {
		p.deeper()
		left, right := a, p.not()
		a = func(r *run) value {
			if v := left(r); !truth(v) {
				return v
			}
			return right(r)
		}
	}
	return a
}

func (p *parser) not() expression {
	if p.accept("not") {
		defer p.deeper()()
		e := p.not()
		return func(r *run) value { return !truth(e(r)) }
	}
	return p.comparison()
}

// comparison reads a < b < c, which is a < b and b < c.
func (p *parser) comparison() expression {
	first := p.sum()
	var ops []string
	var rest []expression
	for {
		op := p.tok.text
		switch {
		case p.is("not") && p.peek().text == "in":
			p.advance()
			op = "not in"
		case p.is("==") || p.is("!=") || p.is("<") || p.is("<=") || p.is(">") || p.is(">=") || p.is("in"):
		case ops == nil:
			return first
		default:
			return func(r *run) value {
				left := first(r)
				for i, op := range ops {
					right := rest[i](r)
					if !r.compared(op, left, right) {
						return false
					}
					left = right
				}
				return true
			}
		}
		p.deeper()
		p.advance()
		ops, rest = append(ops, op), append(rest, p.sum())
	}
}

func (r *run) compared(op string, a, b value) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	case "sameas":
		return isBool(a) == isBool(b) && r.equal(a, b)
	case "divisibleby":
		return !truth(r.arithmetic("%", a, b))
	case "<":
		return r.compare(a, b) < 0
	case "<=":
		return r.compare(a, b) <= 0
	case ">":
		return r.compare(a, b) > 0
	}
	return r.compare(a, b) >= 0
}

// chain reads operands with operators of one rank between them.
func (p *parser) chain(operand func() expression, ops ...string) expression {
	a := operand()
next:
	for _, op := range ops {
		if p.tok.kind == tokOperator && p.accept(op) {
			p.deeper()
			left, right := a, operand()
			a = func(r *run) value { return r.arithmetic(op, left(r), right(r)) }
			goto next
		}
	}
	return a
}

func (p *parser) sum() expression     { return p.chain(p.concat, "+", "-") }
func (p *parser) concat() expression  { return p.chain(p.product, "~") }
func (p *parser) product() expression { return p.chain(p.power, "*", "/", "//", "%") }
func (p *parser) power() expression   { return p.chain(p.unary, "**") }

func (r *run) arithmetic(op string, a, b value) value {
	r.spend(1)
	switch x := a.(type) {
	case str:
		y, ok := b.(str)
		switch {
		case op == "+" && ok && x.safe != y.safe:
			return r.joined(r.escaped(x), r.escaped(y))
		case op == "+" && ok:
			return r.joined(x, y)
		case op == "*" && isNumber(b):
			return r.repeated(x, integer(b))
		case op == "%":
			return r.percent(x, b)
		}
	case *list:
		if y, ok := b.(*list); ok && op == "+" && x.tuple == y.tuple && x.view+y.view == "" {
			r.spend(16 * (len(x.items) + len(y.items)))
			return &list{items: append(append([]value{}, x.items...), y.items...), tuple: x.tuple}
		}
		if op == "*" && isInt(b) && x.view == "" {
			return r.repeatedList(x, integer(b))
		}
	case bool, int, json.Number:
		if op == "*" && indexed(b) {
			return r.arithmetic(op, b, a)
		}
	}
	if op == "~" {
		t := r.joined(r.text(a), r.text(b))
		t.safe = false
		return t
	}
	if !isNumber(a) || !isNumber(b) {
		fail("%s %s %s is not possible", kind(a), op, kind(b))
	}
	return calculated(op, a, b)
}

func (r *run) repeatedList(l *list, n int) *list {
	out := &list{tuple: l.tuple}
	for range n {
		r.spend(1 + 16*len(l.items))
		out.items = append(out.items, l.items...)
	}
	return out
}

func (r *run) joined(a, b str) str {
	r.spend(2 * (len(a.String) + len(b.String)))
	return str{Text{a.String + b.String, a.Given + b.Given}, a.safe && b.safe}
}

func (r *run) repeated(s str, n int) str {
	if n = max(n, 0); n > 0 && len(s.String) > r.left/(2*n) {
		r.spend(r.left + 1)
	}
	r.spend(2 * n * len(s.String))
	return str{Text{strings.Repeat(s.String, n), strings.Repeat(s.Given, n)}, s.safe}
}

// calculated applies an operator to numbers. The result is whole if both are, except that of a division.
func calculated(op string, a, b value) value {
	x, y := number(a), number(b)
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
			fail("division by zero")
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
		return integer(f)
	}
	return f
}

// unary reads an operand with a sign, its filters and tests.
func (p *parser) unary() expression { return p.filters(p.signed()) }

func (p *parser) signed() expression {
	for _, op := range []string{"-", "+"} {
		if p.tok.kind == tokOperator && p.accept(op) {
			defer p.deeper()()
			e := p.signed()
			return func(r *run) value { return r.arithmetic(op, 0, e(r)) }
		}
	}
	return p.postfix(p.primary())
}

// primary reads a value, a variable, or an expression in brackets.
func (p *parser) primary() expression {
	t := p.tok
	switch t.kind {
	case tokString:
		var text strings.Builder
		for ; p.tok.kind == tokString; p.advance() {
			text.WriteString(p.tok.text)
		}
		return constant(literal(text.String()))
	case tokNumber:
		p.advance()
		if n, err := strconv.Atoi(t.text); err == nil {
			return constant(n)
		}
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			fail("%.40s is not a number of a size that is supported", t.text)
		}
		return constant(f)
	case tokName:
		p.advance()
		switch t.text {
		case "true", "True":
			return constant(true)
		case "false", "False":
			return constant(false)
		case "none", "None":
			return constant(nil)
		}
		p.varargs = p.varargs || t.text == "varargs"
		return func(r *run) value { r.spend(1); return r.scope.find(t.text) }
	}
	switch {
	case p.accept("("):
		if p.accept(")") {
			return elements(nil, true)
		}
		e := p.list()
		p.expect(")")
		return e
	case p.accept("["):
		all := p.until("]")
		return elements(all, false)
	case p.accept("{"):
		return p.dict()
	}
	fail("unexpected %.40q", t.text)
	return nil
}

func constant(v value) expression { return func(*run) value { return v } }

func (p *parser) until(end string) (all []expression) {
	for !p.accept(end) {
		all = append(all, p.expression())
		if !p.is(end) {
			p.expect(",")
		}
	}
	return all
}

// dict reads the rest of an object.
func (p *parser) dict() expression {
	var keys, values []expression
	for !p.accept("}") {
		keys = append(keys, p.expression())
		p.expect(":")
		values = append(values, p.expression())
		if !p.is("}") {
			p.expect(",")
		}
	}
	return func(r *run) value {
		d := newDict()
		for i, k := range keys {
			key := k(r)
			r.spend(32)
			r.find(d, key) // which takes work for a long text
			d.set(key, values[i](r))
		}
		return d
	}
}

// keyOf returns a value as the name of a field.
func keyOf(v value) str {
	key, ok := v.(str)
	if !ok {
		fail("the name of a field is a text, not %s", kind(v))
	}
	return key
}

// postfix reads fields, elements and calls.
func (p *parser) postfix(e expression) expression {
	defer p.deeper()()
	for {
		inner := e
		switch {
		case p.accept("."):
			p.deeper()
			if p.tok.kind == tokNumber {
				i := p.primary()
				e = func(r *run) value { return r.element(inner(r), i(r)) }
				continue
			}
			name := p.name()
			e = func(r *run) value { return r.field(inner(r), name) }
		case p.accept("["):
			p.deeper()
			e = p.subscript(inner)
		case p.accept("("):
			p.deeper()
			given := p.arguments()
			e = func(r *run) value {
				f := inner(r)
				return r.call(f, given(r))
			}
			p.called = &called{inner, given}
			continue
		default:
			return e
		}
		p.called = nil
	}
}

// called is a call: a function and its arguments.
type called struct {
	f     expression
	given func(r *run) args
}

// arguments reads the arguments of a call, after the bracket: a, name=b, *list, **object.
func (p *parser) arguments() func(r *run) args {
	var all []func(r *run, a *args)
	named := map[string]bool{}
	for !p.accept(")") {
		switch {
		case p.accept("**"):
			e := p.expression()
			all = append(all, func(r *run, a *args) { a.addNamed(r, e(r)) })
		case p.accept("*"):
			e := p.expression()
			all = append(all, func(r *run, a *args) {
				more := r.items(e(r))
				r.spend(16 * len(more))
				a.list = append(a.list, more...)
			})
		case p.tok.kind == tokName && p.peek().text == "=" && p.peek().kind == tokOperator:
			name := p.name()
			if p.advance(); named[name] {
				fail("the argument %.40q is given twice", name)
			}
			named[name] = true
			e := p.expression()
			all = append(all, func(r *run, a *args) { a.set(name, e(r)) })
		default:
			e := p.expression()
			all = append(all, func(r *run, a *args) { a.list = append(a.list, e(r)) })
		}
		if !p.is(")") {
			p.expect(",")
		}
	}
	return func(r *run) args {
		a := args{named: map[string]value{}}
		for _, add := range all {
			r.spend(16)
			add(r, &a)
		}
		return a
	}
}

// set adds a named argument.
func (a *args) set(name string, v value) {
	if _, ok := a.named[name]; ok {
		fail("the argument %.40q is given twice", name)
	}
	a.names, a.named[name] = append(a.names, name), v
}

// addNamed adds the fields of an object as named arguments.
func (a *args) addNamed(r *run, v value) {
	d, ok := v.(*dict)
	if !ok {
		fail("%s has no names for arguments", kind(v))
	}
	for _, k := range d.keys {
		r.spend(32)
		a.set(keyOf(k).String, d.values[hashed(k)])
	}
}

// subscript reads [i] or [from:to:step], after the bracket.
func (p *parser) subscript(of expression) expression {
	var parts [3]expression
	n := 0
	for ; n == 0 || p.accept(":"); n++ {
		if n == len(parts) {
			fail("a slice has at most three parts")
		}
		if !p.is(":") && !p.is("]") {
			parts[n] = p.expression()
		}
	}
	if p.expect("]"); n == 1 {
		i := parts[0]
		if i == nil {
			fail("an index is expected before ]")
		}
		return func(r *run) value { return r.element(of(r), i(r)) }
	}
	return func(r *run) value {
		var at [3]value
		for i, e := range parts {
			if e != nil {
				at[i] = e(r)
			}
		}
		return r.slice(of(r), at)
	}
}

func (r *run) field(v value, name string) value {
	r.spend(1)
	if m := r.method(v, name); m != nil {
		return m
	}
	switch v := v.(type) {
	case *dict:
		if one, ok := v.values[name]; ok {
			return one
		}
	case *object:
		if one, ok := v.fields.values[name]; ok {
			return one
		}
	case *loop:
		return v.field(name)
	case undefined:
		fail("%.40s has no fields: it is not defined", string(v))
	}
	return undefined(name)
}

// element returns v[i].
func (r *run) element(v, i value) value {
	r.spend(1)
	d, isDict := v.(*dict)
	if _, isList := i.(*list); isDict && !isList {
		if one, ok := r.find(d, i); ok {
			return one
		}
	}
	if name, ok := i.(str); ok {
		return r.field(v, name.String)
	}
	if name, missing := v.(undefined); missing {
		fail("%.40s has no elements: it is not defined", string(name))
	}
	if !indexed(v) || !isInt(i) {
		return undefined("element")
	}
	all, at := r.items(v), integer(i)
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

// indexed reports whether a value has elements by numbers.
func indexed(v value) bool {
	_, isText := v.(str)
	l, isList := v.(*list)
	return isText || isList && l.view == ""
}

// call calls a function.
func (r *run) call(f value, a args) value {
	switch f := f.(type) {
	case function:
		return f(r, a)
	case *loop:
		if f.again != nil {
			return f.again(r, a)
		}
	case undefined:
		fail("%.40s cannot be called: it is not defined, or not supported", string(f))
	}
	fail("%s cannot be called", kind(f))
	return nil
}

// slice returns v[from:to:step], as in Python.
func (r *run) slice(v value, at [3]value) value {
	if !indexed(v) {
		fail("%s has no parts", kind(v))
	}
	all := r.items(v)
	step, n := 1, len(all)
	if at[2] != nil {
		if step = integer(at[2]); step == 0 {
			fail("the step of a slice is 0")
		}
	}
	bound := func(v value, otherwise int) int {
		if v == nil {
			return otherwise
		}
		i := integer(v)
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
		r.spend(16)
		some = append(some, all[i])
	}
	if s, ok := v.(str); ok {
		part := r.join(some, str{})
		part.safe = s.safe
		return part
	}
	return &list{items: some, tuple: v.(*list).tuple}
}

// join returns texts, with a separator between them.
func (r *run) join(all []value, separator str) str {
	var b builder
	for i, v := range all {
		if i > 0 {
			r.append(&b, separator)
		}
		r.append(&b, r.text(v))
	}
	return b.text()
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

func characters(s string) int { return utf8.RuneCountInString(s) }
