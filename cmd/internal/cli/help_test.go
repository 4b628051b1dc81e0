package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReflow(t *testing.T) {
	for _, c := range []struct {
		name, text string
		columns    int
		want       string
	}{
		{"empty", "", 9, ""},
		{"a line end", "one two\nthree", 80, "one two three"},
		{"just too long", "one two three", 7, "one two\nthree"},
		{"narrower", "one two three", 6, "one\ntwo\nthree"},
		{"wide characters", "überlang 日本", 11, "überlang 日本"},
		{"paragraphs", "one\n\ntwo", 80, "one\n\ntwo"},
		{"a list", "list:\n  0    a\n  1    b\nend of it", 80, "list:\n  0    a\n  1    b\nend of it"},
		{"a word longer than a line", "longer than that", 3, "longer\nthan\nthat"},
		{"a text beside a key", "  key    one two\n         three\nend", 15,
			"  key    one\n         two\n         three\nend"},
		{"indented lists", "  key    one\n         two\n  k2     three\n\n    - a b c d e f g h i", 18,
			"  key    one two\n  k2     three\n\n    - a b c d e f g h i"},
		{"source", "tab:\n\n\tsource x", 80, "tab:\n\n\tsource x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, Reflow(c.text, c.columns))
		})
	}
}
