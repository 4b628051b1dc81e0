package translate

import (
	"slices"
	"strings"
)

// templateHeader returns the arguments that name the instance inside the template that begins at i, such as <T, N>. It
// records the types among them.
func (u *unit) templateHeader(i int) string {
	if !u.at(i).is("template") || !u.at(i+1).is("<") {
		return ""
	}
	end := u.angles(i + 1)
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
		switch t := u.at(j); {
		case t.isAny("<", "(", "["):
			depth++
		case t.isAny(">", ")", "]"):
			depth--
		case depth > 0:
		case t.is(","):
			flush()
		case t.is("="):
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

// instance reads template [[host_name("x")]] kernel ... f<...>(...); which names a kernel. The strict pass and the
// thunk make the instance, so the line itself is removed.
func (u *unit) instance(i, end int, attributes map[string]string) {
	at := u.at(i).at
	for _, list := range []*[]edit{&u.run, &u.strict, &u.opencl} {
		*list = cut(*list, u.at(i).start)
	}
	u.replace(i, end, "")
	name := attributes["host_name"]
	if !strings.HasPrefix(name, `"`) || u.find("kernel", i, end) < 0 {
		u.fail(at, "an explicit instantiation must be of the form template [[host_name(\"name\")]] kernel ...")
		return
	}
	k := kernel{at: at}
	k.Name, k.MaxThreads = strings.Trim(name, `"`), u.limit(at, attributes)
	for j := i; j < end; j++ {
		if u.at(j).isAny("decltype", "(") && j > i {
			if u.at(j).is("decltype") {
				j++
			}
			j = u.matching(j) - 1
			continue
		}
		if u.at(j).is("[[") {
			j = u.matching(j) - 1
			continue
		}
		if e := u.angles(j + 1); u.at(j).kind == word && u.at(j+1).is("<") && e > j+1 {
			k.function, k.call = u.at(j).text, u.text[u.at(j).start:u.at(e-1).end]
			j = e - 1
		}
	}
	if k.call == "" {
		u.fail(at, "the template arguments of %s are not understood", k.Name)
		return
	}
	u.kernels = append(u.kernels, k)
}

// bindTemplates sets the parameters of each instance to those of its template, and drops the templates.
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
				u.fail(k.at, "there is no kernel template %s", k.function)
				continue
			}
			k.Params, k.variables = u.kernels[i].Params, u.kernels[i].variables
			if k.MaxThreads == 0 {
				k.MaxThreads = u.kernels[i].MaxThreads
			}
		}
		if first, twice := seen[k.Name]; twice {
			u.fail(k.at, "there are two kernels %s, the other is at %s", k.Name, first)
			continue
		}
		seen[k.Name] = k.at
		out = append(out, k)
	}
	u.kernels = out
}
