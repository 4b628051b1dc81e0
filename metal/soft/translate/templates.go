package translate

import (
	"slices"
	"strings"
)

// templateHeader returns the arguments that name the instance inside the template that begins at i, such as <T, N>. It
// records the types among them.
func (u *unit) templateHeader(i int) string {
	if !u.tokenAt(i).isText("template") || !u.tokenAt(i+1).isText("<") {
		return ""
	}
	end := u.skipAngles(i + 1)
	var names []string
	name, isType, depth, taken := "", false, 0, false
	flush := func() {
		if name != "" {
			names = append(names, name)
			if isType {
				u.types[name] = true
			}
		}
		name, isType, taken = "", false, false
	}
	for j := i + 2; j < end-1; j++ {
		switch t := u.tokenAt(j); {
		case t.isAny("<", "(", "["):
			depth++
		case t.isAny(">", ")", "]"):
			depth--
		case depth > 0:
		case t.isText(","):
			flush()
		case t.isText("="):
			taken = true
		case t.isAny("typename", "class"):
			isType = true
		case t.kind == word && !taken:
			name = t.text
		}
	}
	flush()
	return "<" + strings.Join(names, ", ") + ">"
}

// parseInstance reads template [[host_name("x")]] kernel ... f<...>(...); which names a kernel. The strict pass and the
// thunk make the instance, so the line itself is removed.
func (u *unit) parseInstance(i, end int, attributes map[string]string) {
	at := u.tokenAt(i).at
	for _, list := range []*[]edit{&u.run, &u.strict, &u.opencl} {
		*list = dropEdits(*list, u.tokenAt(i).start)
	}
	u.replaceTokens(i, end, "")
	name := attributes["host_name"]
	if !strings.HasPrefix(name, `"`) || u.findToken("kernel", i, end) < 0 {
		u.addProblem(at, "an explicit instantiation must be of the form template [[host_name(\"name\")]] kernel ...")
		return
	}
	k := kernel{at: at}
	k.Name, k.MaxThreads = strings.Trim(name, `"`), u.parseThreadLimit(at, attributes)
	for j := i; j < end; j++ {
		if u.tokenAt(j).isAny("decltype", "(") && j > i {
			if u.tokenAt(j).isText("decltype") {
				j++
			}
			j = u.skipBrackets(j) - 1
			continue
		}
		if u.tokenAt(j).isText("[[") {
			j = u.skipBrackets(j) - 1
			continue
		}
		if e := u.skipAngles(j + 1); u.tokenAt(j).kind == word && u.tokenAt(j+1).isText("<") && e > j+1 {
			k.function, k.call = u.tokenAt(j).text, u.text[u.tokenAt(j).start:u.tokenAt(e-1).end]
			j = e - 1
		}
	}
	if k.call == "" {
		u.addProblem(at, "the template arguments of %s are not understood", k.Name)
		return
	}
	u.kernels = append(u.kernels, k)
}

func (u *unit) bindTemplates() {
	var out []kernel
	seen := map[string]location{}
	for _, k := range u.kernels {
		if k.generic {
			continue
		}
		if k.Params == nil && strings.Contains(k.call, "<") {
			i := slices.IndexFunc(u.kernels, func(d kernel) bool { return d.generic && d.function == k.function })
			if i < 0 {
				u.addProblem(k.at, "there is no kernel template %s", k.function)
				continue
			}
			k.Params, k.variables = u.kernels[i].Params, u.kernels[i].variables
			if k.MaxThreads == 0 {
				k.MaxThreads = u.kernels[i].MaxThreads
			}
		}
		if first, twice := seen[k.Name]; twice {
			u.addProblem(k.at, "there are two kernels %s, the other is at %s", k.Name, first)
			continue
		}
		seen[k.Name] = k.at
		out = append(out, k)
	}
	u.kernels = out
}
