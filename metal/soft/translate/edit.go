package translate

import (
	"slices"
	"strings"
)

// edit replaces text[start:end].
type edit struct {
	start, end int
	text       string
}

// replace edits the tokens [i,j) in all versions. Line breaks stay.
func (u *unit) replace(i, j int, text string) {
	for _, list := range []*[]edit{&u.run, &u.strict, &u.opencl} {
		u.replaceIn(list, i, j, text)
	}
}

// replaceIn edits the tokens [i,j) in one version.
func (u *unit) replaceIn(list *[]edit, i, j int, text string) {
	if i < j {
		*list = append(*list, edit{u.at(i).start, u.at(j - 1).end, text})
	}
}

func (u *unit) insert(i int, text string) {
	for _, list := range []*[]edit{&u.run, &u.strict, &u.opencl} {
		u.insertIn(list, i, text)
	}
}

func (u *unit) insertIn(list *[]edit, i int, text string) {
	at := u.at(i).start
	*list = append(*list, edit{at, at, text})
}

// cut drops edits from start on: they are in text that is removed as a whole.
func cut(edits []edit, start int) []edit {
	return slices.DeleteFunc(edits, func(e edit) bool { return e.start >= start })
}

// apply returns the text with its edits. Line breaks of removed text stay, so that lines keep their numbers.
func apply(text string, edits []edit) string {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	var b strings.Builder
	done := 0
	for _, e := range edits {
		if e.start < done {
			continue
		}
		b.WriteString(text[done:e.start])
		if e.text == "" {
			b.WriteString(blanked(text[e.start:e.end]))
		} else {
			b.WriteString(e.text + strings.Repeat("\n", strings.Count(text[e.start:e.end], "\n")))
		}
		done = e.end
	}
	b.WriteString(text[done:])
	return b.String()
}

// blanked returns blanks for text, so that the rest keeps its lines and columns.
func blanked(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, text)
}
