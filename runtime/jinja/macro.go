package jinja

import "slices"

// parseMacro reads {% macro name(a, b=…) %} … {% endmacro %}.
func (p *parser) parseMacro() statement {
	name := p.parseName()
	p.expect("(")
	names, defaults := p.parseParameters()
	define := p.parseMacroBody(name, names, defaults, "endmacro")
	return func(r *renderer) flow { r.scope.vars[name] = define(r); return goOn }
}

// parseCallBlock reads {% call(a, b=…) f(…) %} … {% endcall %}, a call of f, which can call the body as caller.
func (p *parser) parseCallBlock() statement {
	var names []string
	var defaults []expression
	if p.accept("(") {
		names, defaults = p.parseParameters()
	}
	p.parsePostfix(p.parsePrimary())
	call := p.lastCall
	if call == nil {
		failWith("call needs a call, such as f()")
	}
	define := p.parseMacroBody("caller", names, defaults, "endcall")
	return func(r *renderer) flow {
		f, a := call.f(r), call.given(r)
		a.setNamed("caller", define(r))
		r.writeOutput(r.toText(r.callValue(f, a)))
		return goOn
	}
}

func (p *parser) parseParameters() (names []string, defaults []expression) {
	for !p.accept(")") {
		names = append(names, p.parseName())
		var e expression
		if p.accept("=") {
			e = p.parseExpression()
		}
		defaults = append(defaults, e)
		if !p.nextIs(")") {
			p.expect(",")
		}
	}
	return names, defaults
}

// parseMacroBody reads the body of a macro, and returns what makes the macro when it is reached.
func (p *parser) parseMacroBody(
	name string, names []string, defaults []expression, until string,
) func(r *renderer) function {
	before := p.varargs
	p.varargs = false
	body := p.parseIsolatedBody(until)
	varargs := p.varargs
	p.varargs = before || varargs
	return func(r *renderer) function {
		home := r.scope
		return func(r *renderer, a args) value {
			if len(a.list) > len(names) && !varargs {
				failWith("%.40s takes %d arguments", name, len(names))
			}
			defer r.enterDepth(10)()
			r.spendWork(16 * (len(names) + len(a.list) + len(a.names)))
			var text str
			r.runInScope(home, func() {
				for i, n := range names {
					v := a.valueOr(i, n, undefined(n))
					if _, none := v.(undefined); none && defaults[i] != nil {
						v = defaults[i](r)
					}
					r.scope.vars[n] = v
				}
				r.bindExtraArguments(names, a)
				text = r.captureOutput(func() { body.runStatements(r) })
			})
			return text
		}
	}
}

// bindExtraArguments sets the variables of a macro beside its parameters: more arguments, and the body of a call block.
func (r *renderer) bindExtraArguments(names []string, a args) {
	kwargs := newDict()
	for _, name := range a.names {
		if !slices.Contains(names, name) && name != "caller" {
			kwargs.setKey(literalText(name), a.named[name])
		}
	}
	vars := r.scope.vars
	vars["varargs"], vars["kwargs"] = newTuple(a.list[min(len(names), len(a.list)):]...), kwargs
	vars["caller"] = a.valueOr(-1, "caller", undefined("caller"))
}
