package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stream decodes ids one by one and checks that only complete characters are returned.
func stream(t testing.TB, tok *Tokenizer, ids []int32) string {
	t.Helper()
	d := tok.NewDecoder()
	var b strings.Builder
	for _, id := range ids {
		s := d.Push(id)
		require.True(t, utf8.ValidString(s), "%q", s)
		b.WriteString(s)
	}
	b.WriteString(d.Flush())
	require.Empty(t, d.Flush())
	return b.String()
}

func FuzzDecoder(f *testing.F) {
	tok := trained(1).tokenizer(f)
	r := rand.New(rand.NewPCG(9, 9))
	for range 30 { // random ids: mostly broken characters
		b := make([]byte, 2*r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var ids []int32
		var raw []byte
		for i := 0; i+1 < len(b); i += 2 {
			id := int32(b[i])<<8 + int32(b[i+1])
			ids = append(ids, id%int32(tok.Size()+3)-1)
		}
		for _, id := range ids {
			raw = append(raw, tok.Bytes(id)...)
		}
		text := stream(t, tok, ids)
		assert.Equal(t, tok.Decode(ids), text)
		if utf8.Valid(raw) {
			assert.Equal(t, string(raw), text)
		}
	})
}

// TestDecodeBrokenCharacters counts the replacement characters: one for each incomplete character, and one for each
// invalid byte.
func TestDecodeBrokenCharacters(t *testing.T) {
	tok := trained(1).tokenizer(t)
	for raw, want := range map[string]string{
		"\xf0\x9f\x91\xa9":         "👩",
		"\xf0\x9f\x91":             "\ufffd",
		"\xf0\x9f\x91a":            "\ufffda",
		"\xf0\x9f\xf0\x9f\x91\xa9": "\ufffd👩",
		"\x80\x80":                 "\ufffd\ufffd",
		"\xc1\x81":                 "\ufffd\ufffd",
		"\xed\xa0\x80":             "\ufffd\ufffd\ufffd",
		"\xf4\x90\x80\x80":         "\ufffd\ufffd\ufffd\ufffd",
		"\xe2\x82\xff":             "\ufffd\ufffd",
		"\ufffd":                   "\ufffd",
		"\xef\xbf":                 "\ufffd",
	} {
		var ids []int32
		for i := range len(raw) {
			ids = append(ids, tok.byteID[raw[i]])
		}
		assert.Equal(t, want, tok.Decode(ids), "%q", raw)
		assert.Equal(t, want, stream(t, tok, ids), "%q", raw)
	}
}

// TestBytes tests the bytes of each kind of token.
func TestBytes(t *testing.T) {
	v := newVocabFile(1, []string{"Ġ t"})
	v[keyTokens] = append(v.strings(keyTokens), "鱼Ġx", "A0", "<0xZZ>")
	v[keyTypes] = append(v[keyTypes].([]int32), 1, 6, 6)
	tok := v.tokenizer(t)
	id := func(text string) int32 { return tok.vocab.lookupToken([]byte(text)) }
	assert.Equal(t, []byte(" t"), tok.Bytes(id("Ġt")))
	assert.Equal(t, []byte("<tool_call>"), tok.Bytes(id("<tool_call>")))
	assert.Equal(t, []byte("A"), tok.Bytes(id("<0x41>")))
	assert.Equal(t, []byte("鱼 x"), tok.Bytes(id("鱼Ġx")), "a character outside the alphabet")
	for _, other := range []string{"A0", "<0xZZ>"} {
		assert.Equal(t, []byte(other), tok.Bytes(id(other)), "a byte in another form")
	}
	for _, none := range []int32{id("<|im_end|>"), id("<unk>"), id("[PAD1]"), -1, int32(tok.Size()), 1 << 30} {
		assert.Empty(t, tok.Bytes(none))
	}
	assert.Equal(t, "<|im_end|>", tok.Text(id("<|im_end|>")))
	assert.Empty(t, tok.Text(-1))
	assert.Empty(t, tok.Text(int32(tok.Size())))
}
