package translate

import (
	"strconv"
	"strings"
)

// checkStatements checks the statements of a function in tokens [i,end). kernel is the function's name if it is a
// kernel, and empty otherwise.
func (u *unit) checkStatements(i, end int, kernel string) {
	for ; i < end; i++ {
		t := u.tokenAt(i)
		begins := u.beginsStatement(i)
		switch {
		case t.isText("static"):
			u.addProblem(t.at, "a function cannot have static variables")
		case t.isText("threadgroup") && begins:
			i = u.parseThreadgroupVariables(i, end, kernel) - 1
		case t.isText("constant") && begins && !u.declaresPointer(i, end):
			u.addProblem(t.at, "a constant variable must stand outside functions: use const or constexpr")
		case t.isText("device") && begins && !u.declaresPointer(i, end):
			u.addProblem(t.at, "a function cannot have device variables")
		case t.isText("[["):
			u.addProblem(t.at, "an attribute is not understood here")
			i = u.skipBrackets(i) - 1
		case begins:
			u.checkAddressSpace(i)
		}
	}
}

func (u *unit) beginsStatement(i int) bool {
	before := u.tokenAt(i - 1)
	return before.isAny("{", "}", ";", ")", "else") || before.kind == directive ||
		before.isText("(") && u.tokenAt(i-2).isAny("for", "if", "while")
}

func (u *unit) declaresPointer(i, end int) bool {
	for ; i < end && !u.tokenAt(i).isAny(";", "=", "[", "("); i++ {
		if u.tokenAt(i).isAny("*", "&") {
			return true
		}
	}
	return false
}

// checkAddressSpace refuses a declaration T *p or T &r without an address space at the beginning of a statement.
func (u *unit) checkAddressSpace(i int) {
	for u.tokenAt(i).isAny("const", "volatile") {
		i++
	}
	if u.tokenAt(i).kind != word ||
		u.tokenAt(i).isAny("return", "thread", "device", "constant", "threadgroup", "else", "case") {
		return
	}
	i++
	if u.tokenAt(i).isText("<") {
		i = u.skipAngles(i)
	}
	for u.tokenAt(i).isAny("const", "volatile") {
		i++
	}
	if u.tokenAt(i).isAny("*", "&") && u.tokenAt(i+1).kind == word && u.tokenAt(i+2).isAny("=", ";", ",", "[") {
		u.addProblem(u.tokenAt(i).at,
			"pointer or reference %s needs an address space: thread, threadgroup, device or constant",
			u.tokenAt(i+1).text)
	}
}

// variable is a declaration of threadgroup memory inside a kernel.
type variable struct {
	typ, name, dims string
	at              location
}

// parseThreadgroupVariables reads threadgroup T a[N], b; at i and returns the index after it. Each threadgroup has its
// own variables, in an arena that is laid out when the library is loaded.
func (u *unit) parseThreadgroupVariables(i, end int, kernel string) int {
	if u.declaresPointer(i, end) {
		return i + 1
	}
	stop := i
	for stop < end && !u.tokenAt(stop).isText(";") {
		stop++
	}
	if kernel == "" {
		u.addProblem(u.tokenAt(i).at, "threadgroup variables must stand in a kernel")
		return stop
	}
	variables := u.parseDeclarators(i+1, stop)
	k := &u.kernels[len(u.kernels)-1]
	if k.variables = append(k.variables, variables...); len(k.variables) > maxVariables {
		u.addProblem(u.tokenAt(i).at, "kernel %s has more than %d threadgroup variables", k.Name, maxVariables)
	}
	if variables == nil {
		return stop
	}
	var run, strict, opencl strings.Builder
	for _, v := range variables {
		strict.WriteString(v.strictDeclaration())
		run.WriteString(v.arenaDeclaration(kernel))
		opencl.WriteString(v.openclDeclaration())
	}
	u.replaceIn(&u.run, i, stop, run.String())
	u.replaceIn(&u.strict, i, stop, strict.String())
	u.replaceIn(&u.opencl, i, stop, opencl.String())
	return stop
}

// parseDeclarators splits T a[N], b in tokens [i,stop) into variables. Failures give none.
func (u *unit) parseDeclarators(i, stop int) (all []variable) {
	typeEnd := i
	for j := i; j < stop; j++ {
		t := u.tokenAt(j)
		if e := u.skipAngles(j); t.isText("<") && e > j {
			j = e - 1
		} else if t.isAny("[", ",") {
			break
		} else if t.isAny("=", "(", "{") {
			u.addProblem(t.at, "a threadgroup variable cannot have a value")
			return nil
		} else {
			typeEnd = j // the name is the last word before [ or , or the end
		}
	}
	if typeEnd <= i || u.tokenAt(typeEnd).kind != word {
		u.addProblem(u.tokenAt(i).at, "a threadgroup variable is not understood")
		return nil
	}
	typ := u.joinTokens(i, typeEnd)
	for j := typeEnd; j < stop; j++ {
		v := variable{typ: typ, name: u.tokenAt(j).text, at: u.tokenAt(j).at}
		from := j + 1
		for j = from; j < stop && u.tokenAt(j).isText("["); {
			j = u.skipBrackets(j)
		}
		v.dims = u.joinTokens(from, j)
		if j < stop && !u.tokenAt(j).isText(",") {
			u.addProblem(u.tokenAt(j).at, "a threadgroup variable cannot have a value")
			return nil
		}
		all = append(all, v)
	}
	return all
}

// strictDeclaration declares a variable for the strict pass: clang cannot construct a struct in an address space.
func (v variable) strictDeclaration() string {
	typ := "msl_type_" + v.name
	return "typedef " + v.typ + " " + typ + v.dims + "; " +
		"threadgroup " + typ + " &" + v.name + " = *msl_threadgroup<" + typ + ">(); "
}

// arenaDeclaration declares a variable as a reference into the arena, and describes it in a table that the runtime
// reads.
func (v variable) arenaDeclaration(kernel string) string {
	typ, entry := "msl_type_"+v.name, "msl_variable_"+v.name
	return "typedef " + v.typ + " " + typ + v.dims + "; " +
		"static msl_rt::Variable " + entry + " MSL_TABLE = {(const void *)&" + kernel +
		", sizeof(" + typ + "), alignof(" + typ + "), " +
		quoteASCII(v.name) + ", " + quoteASCII(v.at.file) + ", " + strconv.Itoa(v.at.line) + ", 0}; " +
		typ + " &" + v.name + " = *(" + typ + " *)(msl_rt::self()->arena + " + entry + ".offset); "
}
