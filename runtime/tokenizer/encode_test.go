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
	all := []twins{newTwins(t, trained(1)), newTwins(t, trained(1).with(keyPre, "qwen35")), newTwins(t, scrambled(2)),
		newTwins(t, scrambled(3))}
	if testing.Short() {
		all = all[:2]
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
		name, text    string
		plain, parsed []string
	}{
		{"a control token", "<|im_start|>", nil, []string{"<|im_start|>"}},
		{"a shorter one inside", "<|im_start|", nil, []string{"<|im"}},
		{"two", "<|im_end|><|im_end|>", nil, []string{"<|im_end|>", "<|im_end|>"}},
		{"the longest first", "<|im<|im_end|>", nil, []string{"<|im", "<|im_end|>"}},
		{"user-defined, always", "<tool_call>", []string{"<tool_call>"}, []string{"<tool_call>"}},
		{"user-defined, two", "<tool></tool_call>", []string{"<tool", "</tool_call>"},
			[]string{"<tool", "</tool_call>"}},
		{"from the left", "鱼鱼鱼", []string{"鱼鱼"}, []string{"鱼鱼"}},
		{"by spelling, and by type", "a</s>b<unk>", nil, []string{"</s>", "<unk>"}},
		{"bytes and padding", "<0x41>[PAD1]", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.plain, names(c.text, false))
			assert.Equal(t, c.parsed, names(c.text, true), "with control tokens")
		})
	}
}

// TestWellFormed tests how invalid UTF-8 is read.
func TestWellFormed(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"valid":                    {"é漢👩", "é漢👩"},
		"an invalid first byte":    {"a\x80b", "a\ufffdb"},
		"two invalid bytes":        {"\xff\xfe", "\ufffd\ufffd"},
		"too short":                {"\xe2\x82", "\ufffd\ufffd"},
		"too short in a text":      {"\xe2\x82a", "\ufffd\ufffda"},
		"an overlong encoding":     {"\xc1\x81", "A"},
		"overlong, of three bytes": {"\xe0\x80\x80", "\x00"},
		"overlong, of four bytes":  {"\xf0\x82\x82\xac", "\u20ac"},
		"a surrogate is kept":      {"x\xed\xa0\x80y", "x\xed\xa0\x80y"},
		"beyond Unicode":           {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
		"of five bytes":            {"\xf8\x88\x80\x80\x80", strings.Repeat("\ufffd", 5)},
	} {
		assert.Equal(t, c.want, wellFormedUTF8(c.text), name)
	}
	assert.Equal(t, []string{"a", "\xed\xa0\x80bc"}, split("qwen2", "a\xed\xa0\x80bc"), "a surrogate is one character")
}
