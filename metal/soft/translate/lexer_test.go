package translate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLexLocations: tokens have their file and line.
func TestLexLocations(t *testing.T) {
	tokens := lex("a\n# 10 \"b.metal\" 1 3\nb c\n#line 5\n  d \"x\ny\" e\n", "a.metal")
	var got []string
	for _, k := range tokens {
		if k.kind != directive {
			got = append(got, k.at.String()+" "+k.text)
		}
	}
	assert.Equal(t, []string{"a.metal:1 a", "b.metal:10 b", "b.metal:10 c", "b.metal:5 d", "b.metal:5 \"x\ny\"",
		"b.metal:6 e"}, got)
}

// TestLexBrackets: brackets of attributes are distinguished from those of indices.
func TestLexBrackets(t *testing.T) {
	var got []string
	for _, k := range lex("a[b[0]] [[buffer(0)]] x[y[z[1]]]; [[a]]", "") {
		got = append(got, k.text)
	}
	assert.Equal(t, strings.Fields("a [ b [ 0 ] ] [[ buffer ( 0 ) ]] x [ y [ z [ 1 ] ] ] ; [[ a ]]"), got)
}
