package jinja

import "slices"

// macro reads {% macro name(a, b=…) %} … {% endmacro %}.
func (p *parser) macro() statement {
	name := p.name()
	p.expect("(")
	names, defaults := p.parameters()
	define := p.function(name, names, defaults, "endmacro")
	return func(r *run) flow { r.scope.vars[name] = define(r); return goOn }
}

// callBlock reads {% call(a, b=…) f(…) %} … {% endcall %}, a call of f, which can call the body as caller.
func (p *parser) callBlock() statement {
	var names []string
	var defaults []expression
	if p.accept("(") {
		names, defaults = p.parameters()
	}
	p.postfix(p.primary())
	call := p.called
	if call == nil {
		fail("call needs a call, such as f()")
	}
	define := p.function("caller", names, defaults, "endcall")
	return func(r *run) flow {
		f, a := call.f(r), call.given(r)
		a.set("caller", define(r))
		r.put(r.text(r.call(f, a)))
		return goOn
	}
}

// parameters reads the names of parameters, after the bracket, and the defaults of some.
func (p *parser) parameters() (names []string, defaults []expression) {
	for !p.accept(")") {
		names = append(names, p.name())
		var e expression
		if p.accept("=") {
			e = p.expression()
		}
		defaults = append(defaults, e)
		if !p.is(")") {
			p.expect(",")
		}
	}
	return names, defaults
}

// function reads the body of a macro, and returns what makes the macro when it is reached.
func (p *parser) function(name string, names []string, defaults []expression, until string) func(r *run) function {
	before := p.varargs
	p.varargs = false
	body := p.apart(until)
	varargs := p.varargs
	p.varargs = before || varargs
	return func(r *run) function {
		home := r.scope
		return func(r *run, a args) value {
			if len(a.list) > len(names) && !varargs {
				fail("%.40s takes %d arguments", name, len(names))
			}
			defer r.deeper(10)()
			r.spend(16 * (len(names) + len(a.list) + len(a.names)))
			var text str
			r.inner(home, func() {
				for i, n := range names {
					v := a.at(i, n, undefined(n))
					if _, none := v.(undefined); none && defaults[i] != nil {
						v = defaults[i](r)
					}
					r.scope.vars[n] = v
				}
				r.further(names, a)
				text = r.captured(func() { body.do(r) })
			})
			return text
		}
	}
}

// further sets the variables of a macro beside its parameters: more arguments, and the body of a call block.
func (r *run) further(names []string, a args) {
	kwargs := newDict()
	for _, name := range a.names {
		if !slices.Contains(names, name) && name != "caller" {
			kwargs.set(literal(name), a.named[name])
		}
	}
	vars := r.scope.vars
	vars["varargs"], vars["kwargs"] = tuple(a.list[min(len(names), len(a.list)):]...), kwargs
	vars["caller"] = a.at(-1, "caller", undefined("caller"))
}
