package api

import (
	"slices"
	"strings"
)

// change is the change of a line.
type change struct {
	line  string
	added bool
	why   string // it breaks programs; "" means that it does not
}

// changes compares lists of lines.
func changes(before, after []string) (all []change) {
	for _, line := range before {
		if !slices.Contains(after, line) {
			all = append(all, change{line: line, why: "programs use it as it was"})
		}
	}
	for _, line := range after {
		if slices.Contains(before, line) {
			continue
		}
		c := change{line: line, added: true}
		if of, _, ok := strings.Cut(line, " interface, method "); ok && !strings.HasSuffix(of, " closed") &&
			slices.Contains(before, of+" interface") {
			c.why = "programs that implement the interface lack it"
		}
		all = append(all, c)
	}
	return all
}

// report formats changes, and reports whether one breaks programs.
func report(all []change) (text string, breaks bool) {
	for _, kind := range []struct {
		title  string
		breaks bool
	}{
		{"NOT compatible: programs that use this stop building. Keep the old name too if you can.", true},
		{"compatible:", false},
	} {
		title := kind.title + "\n"
		for _, c := range all {
			if (c.why != "") != kind.breaks {
				continue
			}
			breaks = breaks || kind.breaks
			sign, why := "- ", ""
			if c.added {
				sign = "+ "
			}
			if c.why != "" {
				why = "   (" + c.why + ")"
			}
			text += title + "  " + sign + c.line + why + "\n"
			title = ""
		}
	}
	return text, breaks
}
