package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func split(pre, text string) (pieces []string) {
	for text != "" {
		n := preTokenizers[pre].pieceLen(text)
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

func TestSplit(t *testing.T) {
	both := []string{
		"Hello| world|!",
		"they|'re|'| re| I|'M|'LL| we|'Ve|'D",
		"'s|ſ|!", "'ſ|'x|'|7|'", // only ASCII has case in a contraction
		"1|2|3|٣|½|Ⅷ",
		"  | |1", "\t  |\tx", " x|   ",
		"a|\n\n|b|  \n \r\n|  | b",
		"!?\n\r\n| x| ...\n|x",
		"x|\u00a0\u3000| y|\u00a0z|\u0085\n| ", // blanks outside ASCII
		"(foo|-bar|)\n", "\r|foo", "->", "(x|):\n",
		"\x00\x1c\u200b\u180e\ufeff", // none of these is a blank
		"👩\u200d💻| 👩\n",
		"\U0002ebf0a| \ue000", "\ufffdabc",
	}
	for pre, pieces := range map[string][]string{ // with combining marks
		"qwen2": {"नमस|्त|े", "e|\u0301| cafe|\u0301", "\u0301!|I", "❤️\n|x", " \u0301\u0301\n", "1|\u20e3",
			"'s|\u0301"},
		"qwen35": {"नमस्ते", "e\u0301| cafe\u0301", "\u0301|!I", "❤️|\n|x", " \u0301\u0301|\n", "1|\u20e3",
			"'s|\u0301"},
	} {
		for _, pieces := range append(pieces, both...) {
			text := strings.ReplaceAll(pieces, "|", "")
			assert.Equal(t, pieces, strings.Join(split(pre, text), "|"), pre)
			assert.Equal(t, pieces, strings.Join(referenceSplit(pre, text), "|"), pre)
		}
	}
}

// TestPieces compares with the expressions in Python, which testdata/pieces.py runs.
func TestPieces(t *testing.T) {
	b, err := os.ReadFile("testdata/pieces.json")
	require.NoError(t, err)
	var pieces map[string][][]string
	require.NoError(t, json.Unmarshal(b, &pieces))
	for pre, all := range pieces {
		require.Len(t, all, 300)
		for _, want := range all {
			assert.Equal(t, want, split(pre, strings.Join(want, "")), pre)
		}
	}
	require.Len(t, pieces, 2)
}

func TestSplitIsTheReference(t *testing.T) {
	r, texts := rand.New(rand.NewPCG(5, 6)), 5000
	if testing.Short() {
		texts = 500
	}
	for range texts {
		text := randomText(r, 1+r.IntN(12))
		for pre := range preTokenizers {
			if reference := preTokenizers[pre].name; classesKnown(text) {
				require.Equal(t, referenceSplit(reference, text), split(pre, text), "%s: %q", pre, text)
			}
		}
	}
}

// TestClassesAreThoseOfUnicode compares with package unicode, if it has the same version.
func TestClassesAreThoseOfUnicode(t *testing.T) {
	if unicode.Version != "15.0.0" {
		t.Skipf("package unicode has the tables of version %s", unicode.Version)
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r == 0x2EBF0 { // the only block of letters that Unicode 15.1 has and 15.0 does not
			r = 0x2EE5E
		}
		if classOf(r) != goClass(r) {
			t.Fatalf("%U: class %d, want %d", r, classOf(r), goClass(r))
		}
	}
	assert.Equal(t, letter, classOf(0x2EBF0))
	assert.Equal(t, letter, classOf(0x2EE5D))
}

func goClass(r rune) charClass {
	switch {
	case unicode.Is(unicode.L, r):
		return letter
	case unicode.Is(unicode.N, r):
		return number
	case unicode.Is(unicode.White_Space, r):
		return blank
	case unicode.Is(unicode.M, r):
		return mark
	}
	return other
}

// classesKnown reports whether the Unicode version of package regexp, which the reference uses, has the same classes
// for the characters of text.
func classesKnown(text string) bool {
	for _, r := range text {
		if classOf(r) != goClass(r) && (r < 0x2EBF0 || r > 0x2EE5D) {
			return false
		}
	}
	return true
}
