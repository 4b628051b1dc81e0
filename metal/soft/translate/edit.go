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

// replaceTokens edits the tokens [i,j) in all versions. Line breaks stay.
func (u *unit) replaceTokens(i, j int, text string) {
	for _, list := range []*[]edit{&u.run, &u.strict, &u.opencl} {
		u.replaceIn(list, i, j, text)
	}
}

func (u *unit) replaceIn(list *[]edit, i, j int, text string) {
	if i < j {
		*list = append(*list, edit{u.tokenAt(i).start, u.tokenAt(j - 1).end, text})
	}
}

func (u *unit) insertText(i int, text string) {
	for _, list := range []*[]edit{&u.run, &u.strict, &u.opencl} {
		u.insertIn(list, i, text)
	}
}

func (u *unit) insertIn(list *[]edit, i int, text string) {
	at := u.tokenAt(i).start
	*list = append(*list, edit{at, at, text})
}

// dropEdits drops edits from start on: they are in text that is removed as a whole.
func dropEdits(edits []edit, start int) []edit {
	return slices.DeleteFunc(edits, func(e edit) bool { return e.start >= start })
}

// applyEdits returns the text with its edits. Line breaks of removed text stay, so that lines keep their numbers.
func applyEdits(text string, edits []edit) string {
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
			b.WriteString(blankText(text[e.start:e.end]))
		} else {
			b.WriteString(e.text + strings.Repeat("\n", strings.Count(text[e.start:e.end], "\n")))
		}
		done = e.end
	}
	b.WriteString(text[done:])
	return b.String()
}

func blankText(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, text)
}
