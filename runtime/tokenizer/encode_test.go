package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/cputime"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// twins holds the tokenizer and the reference for the same vocabulary.
type twins struct {
	fast          *Tokenizer
	plain, parsed reference
}

func newTwins(t testing.TB, v vocabFile) twins {
	return twins{
		v.tokenizer(t),
		v.reference(userTokens...),
		v.reference(slices.Concat(controlTokens, userTokens, []string{"</s>", "<unk>"})...),
	}
}

// same checks that both give the same ids for a UTF-8 text, and that these decode to the text.
func (w twins) same(t testing.TB, text string) {
	t.Helper()
	ids := w.fast.Encode(text, false)
	require.Equal(t, w.plain.encode(text), ids, "%q", text)
	require.Equal(t, w.parsed.encode(text), w.fast.Encode(text, true), "%q, special tokens parsed", text)
	require.Equal(t, text, w.fast.Decode(ids))
}

func TestEncodeIsTheReference(t *testing.T) {
	racing.Spare(t)
	r := rand.New(rand.NewPCG(7, 7))
	all := []twins{newTwins(t, trained(1)), newTwins(t, scrambled(2)), newTwins(t, scrambled(3))}
	if testing.Short() {
		all = all[:1]
	}
	for _, w := range all {
		w.same(t, corpus)
		w.same(t, "")
		for range 400 {
			w.same(t, randomText(r, 1+r.IntN(30)))
		}
		for range 40 { // long pieces
			n := 1 + r.IntN(400)
			var b strings.Builder
			for range n {
				b.WriteByte("abcde"[r.IntN(5)])
			}
			w.same(t, b.String())
			w.same(t, strings.Repeat(string("ae! \n"[r.IntN(5)]), n))
		}
	}
}

func FuzzEncode(f *testing.F) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 20 {
		f.Add(randomText(r, 20))
	}
	f.Add("\xff\xc1\x81\xed\xa0\x80abc\xf4\x90\x80\x80\xe2\x82")
	all := []twins{newTwins(f, trained(1)), newTwins(f, scrambled(2))}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		for _, w := range all {
			if utf8.ValidString(text) && classesKnown(text) {
				w.same(t, text)
			} else {
				assert.Equal(t, w.fast.Encode(wellFormedUTF8(text), false), w.fast.Encode(text, false))
			}
		}
	})
}

// TestEncodeTakesNoLongerWithoutBreaks encodes texts of 1 MiB: a quadratic step would take minutes.
func TestEncodeTakesNoLongerWithoutBreaks(t *testing.T) {
	if testing.Short() {
		t.Skip("texts of 1 MiB: not with -short")
	}
	tok := trained(1).tokenizer(t)
	for _, c := range mebibytes(corpus) {
		start := cputime.Used()
		ids := tok.Encode(c.text, true)
		assert.Less(t, cputime.Used()-start, 20*time.Second, c.name)
		assert.Equal(t, c.text, tok.Decode(ids), c.name)
	}
}

func TestEncodeConcurrently(t *testing.T) {
	tok := trained(1).tokenizer(t)
	want := tok.Encode(corpus, true)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				assert.Equal(t, want, tok.Encode(corpus, true))
			}
			assert.Equal(t, tok.Hash(), tok.Hash())
		})
	}
	wg.Wait()
}

// TestSpecialTokens tests which special tokens are cut out of a text, and their order of precedence.
func TestSpecialTokens(t *testing.T) {
	tok := trained(1).tokenizer(t)
	names := func(text string, parse bool) (names []string) {
		for _, id := range tok.Encode(text, parse) {
			if kinds := tok.vocab.kinds[id]; kinds != normal {
				names = append(names, tok.Text(id))
			}
		}
		return names
	}
	for _, c := range []struct {
		text          string
		plain, parsed []string
	}{
		{"<|im_start|>", nil, []string{"<|im_start|>"}},
		{"<|im_start|", nil, []string{"<|im"}}, // a shorter one inside
		{"<|im_end|><|im_end|>", nil, []string{"<|im_end|>", "<|im_end|>"}},
		{"<|im<|im_end|>", nil, []string{"<|im", "<|im_end|>"}},           // the longest first
		{"<tool_call>", []string{"<tool_call>"}, []string{"<tool_call>"}}, // user-defined: always
		{"<tool></tool_call>", []string{"<tool", "</tool_call>"}, []string{"<tool", "</tool_call>"}},
		{"鱼鱼鱼", []string{"鱼鱼"}, []string{"鱼鱼"}},         // from the left
		{"a</s>b<unk>", nil, []string{"</s>", "<unk>"}}, // by spelling; by type
		{"<0x41>[PAD1]", nil, nil},
	} {
		assert.Equal(t, c.plain, names(c.text, false), c.text)
		assert.Equal(t, c.parsed, names(c.text, true), c.text)
	}
}

// TestWellFormed tests how invalid UTF-8 is read.
func TestWellFormed(t *testing.T) {
	for text, want := range map[string]string{
		"é漢👩":                  "é漢👩",
		"a\x80b":               "a\ufffdb", // an invalid first byte
		"\xff\xfe":             "\ufffd\ufffd",
		"\xe2\x82":             "\ufffd\ufffd", // too short: byte by byte
		"\xe2\x82a":            "\ufffd\ufffda",
		"\xc1\x81":             "A", // an overlong encoding
		"\xe0\x80\x80":         "\x00",
		"\xf0\x82\x82\xac":     "\u20ac",
		"x\xed\xa0\x80y":       "x\xed\xa0\x80y", // a surrogate is kept
		"\xf4\x90\x80\x80":     "\ufffd\ufffd\ufffd\ufffd",
		"\xf8\x88\x80\x80\x80": strings.Repeat("\ufffd", 5),
	} {
		assert.Equal(t, want, wellFormedUTF8(text), "%q", text)
	}
	assert.Equal(t, []string{"a", "\xed\xa0\x80bc"}, split("a\xed\xa0\x80bc"), "a surrogate is one character")
}
