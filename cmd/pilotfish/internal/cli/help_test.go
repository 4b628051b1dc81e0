package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReflow(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"", 9, ""},
		{"one two\nthree", 80, "one two three"},
		{"one two three", 7, "one two\nthree"},
		{"one two three", 6, "one\ntwo\nthree"},
		{"überlang 日本", 11, "überlang 日本"},
		{"one\n\ntwo", 80, "one\n\ntwo"},
		{"list:\n  0    a\n  1    b\nend of it", 80, "list:\n  0    a\n  1    b\nend of it"},
		{"longer than that", 3, "longer\nthan\nthat"},
		{"  key    one two\n         three\nend", 15, "  key    one\n         two\n         three\nend"},
		{"  key    one\n         two\n  k2     three\n\n    - a b c d e f g h i", 18,
			"  key    one two\n  k2     three\n\n    - a b c d e f g h i"},
		{"tab:\n\n\tsource x", 80, "tab:\n\n\tsource x"},
	} {
		assert.Equal(t, c.want, Reflow(c.text, c.columns))
	}
}
