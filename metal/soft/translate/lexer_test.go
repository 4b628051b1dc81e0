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

// TestLexNumbers: a number ends after its suffix, and a sign belongs to it only after an exponent.
func TestLexNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"1.5e-3f+2": "1.5e-3f + 2", "0x1p-3+x": "0x1p-3 + x", "0xAP+2-1": "0xAP+2 - 1", "1E+4h*2u": "1E+4h * 2u",
		"1'000-.5": "1'000 - .5", "2ul-b": "2ul - b", "0b1-1": "0b1 - 1", ".5f-x.y": ".5f - x . y",
	} {
		var got []string
		for _, k := range lex(text, "") {
			got = append(got, k.text)
		}
		assert.Equal(t, strings.Fields(want), got)
	}
}
