package translate

import (
	"strconv"
	"strings"
)

// body checks the statements of a function in tokens [i,end). kernel is the function's name if it is a kernel, and
// empty otherwise.
func (u *unit) body(i, end int, kernel string) {
	for ; i < end; i++ {
		t := u.at(i)
		begins := u.begins(i)
		switch {
		case t.is("static"):
			u.fail(t.at, "a function cannot have static variables")
		case t.is("threadgroup") && begins:
			i = u.threadgroupVariables(i, end, kernel) - 1
		case t.is("constant") && begins && !u.pointerDeclared(i, end):
			u.fail(t.at, "a constant variable must stand outside functions: use const or constexpr")
		case t.is("device") && begins && !u.pointerDeclared(i, end):
			u.fail(t.at, "a function cannot have device variables")
		case t.is("[["):
			u.fail(t.at, "an attribute is not understood here")
			i = u.matching(i) - 1
		case begins:
			u.plainPointer(i)
		}
	}
}

func (u *unit) begins(i int) bool {
	before := u.at(i - 1)
	return before.isAny("{", "}", ";", ")", "else") || before.kind == directive ||
		before.is("(") && u.at(i-2).isAny("for", "if", "while")
}

// pointerDeclared reports whether the declaration at i has a * or & before its name ends.
func (u *unit) pointerDeclared(i, end int) bool {
	for ; i < end && !u.at(i).isAny(";", "=", "[", "("); i++ {
		if u.at(i).isAny("*", "&") {
			return true
		}
	}
	return false
}

// plainPointer refuses a declaration T *p or T &r without an address space at the beginning of a statement.
func (u *unit) plainPointer(i int) {
	for u.at(i).isAny("const", "volatile") {
		i++
	}
	if u.at(i).kind != word || u.at(i).isAny("return", "thread", "device", "constant", "threadgroup", "else", "case") {
		return
	}
	i++
	if u.at(i).is("<") {
		i = u.angles(i)
	}
	for u.at(i).isAny("const", "volatile") {
		i++
	}
	if u.at(i).isAny("*", "&") && u.at(i+1).kind == word && u.at(i+2).isAny("=", ";", ",", "[") {
		u.fail(u.at(i).at, "pointer or reference %s needs an address space: thread, threadgroup, device or constant",
			u.at(i+1).text)
	}
}

// variable is a declaration of threadgroup memory inside a kernel.
type variable struct {
	typ, name, dims string
	at              location
}

// threadgroupVariables reads threadgroup T a[N], b; at i and returns the index after it. Each threadgroup has its own
// variables, in an arena that is laid out when the library is loaded.
func (u *unit) threadgroupVariables(i, end int, kernel string) int {
	if u.pointerDeclared(i, end) {
		return i + 1
	}
	stop := i
	for stop < end && !u.at(stop).is(";") {
		stop++
	}
	if kernel == "" {
		u.fail(u.at(i).at, "threadgroup variables must stand in a kernel")
		return stop
	}
	variables := u.declarators(i+1, stop)
	k := &u.kernels[len(u.kernels)-1]
	if k.variables = append(k.variables, variables...); len(k.variables) > maxVariables {
		u.fail(u.at(i).at, "kernel %s has more than %d threadgroup variables", k.Name, maxVariables)
	}
	if variables == nil {
		return stop
	}
	var run, strict, opencl strings.Builder
	for _, v := range variables {
		strict.WriteString(v.declared())
		run.WriteString(v.placed(kernel))
		opencl.WriteString(v.inMemory())
	}
	u.replaceIn(&u.run, i, stop, run.String())
	u.replaceIn(&u.strict, i, stop, strict.String())
	u.replaceIn(&u.opencl, i, stop, opencl.String())
	return stop
}

// declarators splits T a[N], b in tokens [i,stop) into variables. Failures give none.
func (u *unit) declarators(i, stop int) (all []variable) {
	typeEnd := i
	for j := i; j < stop; j++ {
		t := u.at(j)
		if e := u.angles(j); t.is("<") && e > j {
			j = e - 1
		} else if t.isAny("[", ",") {
			break
		} else if t.isAny("=", "(", "{") {
			u.fail(t.at, "a threadgroup variable cannot have a value")
			return nil
		} else {
			typeEnd = j // the name is the last word before [ or , or the end
		}
	}
	if typeEnd <= i || u.at(typeEnd).kind != word {
		u.fail(u.at(i).at, "a threadgroup variable is not understood")
		return nil
	}
	typ := u.flat(i, typeEnd)
	for j := typeEnd; j < stop; j++ {
		v := variable{typ: typ, name: u.at(j).text, at: u.at(j).at}
		from := j + 1
		for j = from; j < stop && u.at(j).is("["); {
			j = u.matching(j)
		}
		v.dims = u.flat(from, j)
		if j < stop && !u.at(j).is(",") {
			u.fail(u.at(j).at, "a threadgroup variable cannot have a value")
			return nil
		}
		all = append(all, v)
	}
	return all
}

// declared declares a variable for the strict pass: clang cannot construct a struct in an address space.
func (v variable) declared() string {
	typ := "msl_type_" + v.name
	return "typedef " + v.typ + " " + typ + v.dims + "; " +
		"threadgroup " + typ + " &" + v.name + " = *msl_threadgroup<" + typ + ">(); "
}

// placed declares a variable as a reference into the arena, and describes it in a table that the runtime reads.
func (v variable) placed(kernel string) string {
	typ, entry := "msl_type_"+v.name, "msl_variable_"+v.name
	return "typedef " + v.typ + " " + typ + v.dims + "; " +
		"static msl_rt::Variable " + entry + " MSL_TABLE = {(const void *)&" + kernel +
		", sizeof(" + typ + "), alignof(" + typ + "), " +
		quote(v.name) + ", " + quote(v.at.file) + ", " + strconv.Itoa(v.at.line) + ", 0}; " +
		typ + " &" + v.name + " = *(" + typ + " *)(msl_rt::self()->arena + " + entry + ".offset); "
}
