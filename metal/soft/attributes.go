package soft

import (
	"slices"
)

// attributes collects and removes the attributes of a declaration outside its parameters and body.
func (u *unit) attributes(i, params, body, end int) map[string]string {
	all := map[string]string{}
	if body >= 0 {
		end = body
	}
	for ; i < end; i++ {
		if i == params {
			i = u.matching(i) - 1
		} else if u.at(i).is("[[") {
			i = u.attribute(i, all) - 1
		} else if u.at(i).is("{") {
			i = u.matching(i) - 1
		}
	}
	for name := range all {
		if !slices.Contains([]string{"host_name", "max_total_threads_per_threadgroup", "function_constant"}, name) {
			u.fail(u.at(max(i-1, 0)).at, "attribute [[%s]] is not known here", name)
		}
	}
	return all
}

// attribute reads and removes the attributes [[...]] at i and returns the index after them.
func (u *unit) attribute(i int, into map[string]string) int {
	end := u.matching(i)
	for j := i + 1; j < end-1; j++ {
		t := u.at(j)
		if t.is(",") {
			continue
		}
		if t.kind != word {
			u.fail(t.at, "%q in an attribute is not understood", t.text)
			break
		}
		value := ""
		if u.at(j + 1).is("(") {
			close := u.matching(j + 1)
			for k := j + 2; k < close-1; k++ {
				value += u.at(k).text
			}
			j = close - 1
		}
		if _, twice := into[t.text]; twice {
			u.fail(t.at, "attribute [[%s]] stands twice", t.text)
		}
		into[t.text] = value
	}
	u.replace(i, end, "")
	return end
}
